"""A finished file gets its name once."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.session.log.disk import move_durably


def test_file_gets_its_name(tmp_path: Path) -> None:
    (tmp_path / "partial").write_bytes(b"x")
    move_durably(tmp_path / "partial", tmp_path / "final")
    assert (tmp_path / "final").read_bytes() == b"x"


def test_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "partial").write_bytes(b"x")
    (tmp_path / "final").write_bytes(b"y")
    with pytest.raises(FileExistsError):
        move_durably(tmp_path / "partial", tmp_path / "final")
    assert (tmp_path / "final").read_bytes() == b"y"
    assert (tmp_path / "partial").exists()


def test_missing_file_has_no_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        move_durably(tmp_path / "partial", tmp_path / "final")
    assert not (tmp_path / "final").exists()
