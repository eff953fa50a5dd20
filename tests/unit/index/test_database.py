"""Derived databases: each page has a checksum, and a damaged file is reset, not repaired."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from harken.errors import ConfigError
from harken.index.database import (
    DatabaseSchema,
    find_damage,
    is_temporary,
    open_database,
    reset_database,
    run_with_repair,
)

SCHEMA = DatabaseSchema("the teas", 7, 1, "CREATE TABLE tea (name TEXT) STRICT;")
PAGE = 4096


def create_database(path: Path) -> Path:
    """Create a database of several pages."""
    with closing(open_database(path, SCHEMA)) as database:
        database.executemany("INSERT INTO tea VALUES (?)", [("green" * 100,)] * 100)
    return path


def damage_page(path: Path, page: int) -> None:
    """Change one byte of a page."""
    data = bytearray(path.read_bytes())
    data[page * PAGE + PAGE // 2] ^= 1
    path.write_bytes(data)


def count(path: Path) -> int:
    with closing(open_database(path, SCHEMA)) as database:
        rows = [number for (number,) in database.execute("SELECT count(name) FROM tea")]
    assert isinstance(rows[0], int)
    return rows[0]


def test_file_with_a_damaged_first_page_is_reset_on_open(tmp_path: Path) -> None:
    path = create_database(tmp_path / "tea.db")
    damage_page(path, 0)
    assert count(path) == 0


def test_page_damaged_later_resets_only_its_file(tmp_path: Path) -> None:
    path, other_path = create_database(tmp_path / "tea.db"), create_database(tmp_path / "other.db")
    damage_page(path, 3)
    repaired: list[Path] = []

    def repair(path: Path) -> None:
        repaired.append(path)
        reset_database(path)

    counts = run_with_repair(
        lambda: (count(other_path), count(path)), {other_path: repair, path: repair}
    )
    assert counts == (100, 0)
    assert repaired == [path]


def test_error_without_damage_changes_nothing(tmp_path: Path) -> None:
    path = create_database(tmp_path / "tea.db")

    def read_count() -> None:
        with closing(open_database(path, SCHEMA)) as database:
            database.execute("SELECT no_such_column FROM tea")

    with pytest.raises(apsw.SQLError):
        run_with_repair(read_count, {path: reset_database})
    assert count(path) == 100


def test_damaged_page_is_named(tmp_path: Path) -> None:
    path = create_database(tmp_path / "tea.db")
    assert not [*find_damage(path)]
    damage_page(path, 3)
    assert [*find_damage(path)] == ["page 4 (byte 12288) does not match its checksum"]


def test_database_without_checksums_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "tea.db"
    with closing(apsw.Connection(str(path))) as database:
        database.execute(SCHEMA.sql)
        database.execute("PRAGMA application_id=7; PRAGMA user_version=1")
        database.execute("INSERT INTO tea VALUES ('unchecked')")
    assert [*find_damage(path)]
    assert count(path) == 0


def test_tables_of_another_program_without_id_are_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "tea.db"
    with closing(apsw.Connection(str(path))) as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ConfigError, match="another program"):
        open_database(path, SCHEMA)


def _open_and_add(path: Path) -> None:
    with closing(open_database(path, SCHEMA)) as database:
        database.execute("INSERT INTO tea VALUES ('black')")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "tea.db"
    yield path
    assert not [*find_damage(path)]


def test_concurrent_creation_by_processes_loses_nothing(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_open_and_add, args=(path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert count(path) == 4


def test_concurrent_creation_by_threads_loses_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(30)]
    threads = 6
    barrier = threading.Barrier(threads)

    def open_all() -> None:
        for path in paths:
            barrier.wait(20)
            _open_and_add(path)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(open_all) for _ in range(threads)]:
            future.result()
    assert [count(path) for path in paths] == [threads] * len(paths)


def test_default_vfs_of_apsw_is_unchanged(path: Path) -> None:
    _open_and_add(path)
    assert apsw.vfs_names()[0] != "cksmvfs"


def test_database_without_path_is_temporary(path: Path) -> None:
    with (
        closing(open_database(None, SCHEMA)) as memory,
        closing(open_database(path, SCHEMA)) as file,
    ):
        assert is_temporary(memory)
        assert not is_temporary(file)
