"""A database that can be made again is not mended, but begun anew: also where damage shows late."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.errors import StoreError
from harken.index.database import Kind, begun_anew, opened

KIND = Kind("tea", 7, 1, "CREATE TABLE tea (name TEXT) STRICT;")
PAGE = 4096


def brewed(path: Path) -> Path:
    """A database of several pages."""
    with closing(opened(path, KIND)) as database:
        database.executemany("INSERT INTO tea VALUES (?)", [("green" * 100,)] * 100)
    return path


def spill(path: Path, page: int) -> None:
    """Write over a page."""
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xff" * PAGE)


def test_one_whose_tables_cannot_be_read_is_begun_anew_when_it_is_opened(tmp_path: Path) -> None:
    path = brewed(tmp_path / "tea.db")
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (PAGE - 100) + data[PAGE:])
    with closing(opened(path, KIND)) as database:
        assert database.execute("SELECT count(*) FROM tea").fetchone() == (0,)


def test_one_that_is_found_damaged_while_it_is_read_is_begun_anew_the_next_time(
    tmp_path: Path,
) -> None:
    path, other = brewed(tmp_path / "tea.db"), brewed(tmp_path / "other.db")
    spill(path, 3)
    with (
        pytest.raises(StoreError, match="tea.db: was damaged, and is begun anew: do this again"),
        begun_anew(other, path, tmp_path / "none.db"),
        closing(opened(path, KIND)) as database,
    ):
        database.execute("SELECT count(name) FROM tea").fetchone()
    assert other.exists()
    with closing(opened(path, KIND)) as database:
        assert database.execute("SELECT count(*) FROM tea").fetchone() == (0,)


def test_what_is_no_damage_is_left_as_it_is(tmp_path: Path) -> None:
    path = brewed(tmp_path / "tea.db")
    with (
        pytest.raises(sqlite3.OperationalError),
        begun_anew(path),
        closing(opened(path, KIND)) as database,
    ):
        database.execute("SELECT no_such_column FROM tea")
    assert path.exists()
