"""Small files that are replaced in one step, and those that are only their owner's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.world.private_file import read_own_file, replace_file


def read(file: Path) -> bytes:
    return read_own_file(file, 5, what="the key", then="make one")


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_is_replaced_whole_with_its_mode_and_nothing_is_left_beside(
    tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "f"
    before = os.umask(0o077)
    try:
        for data in (b"one", b"two"):
            replace_file(file, data, mode)
    finally:
        os.umask(before)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", mode)
    assert [one.name for one in tmp_path.iterdir()] == ["f"]


def test_what_cannot_be_replaced_stays_and_nothing_is_left_beside(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "f", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["f"]


def test_ones_own_file_is_read_up_to_so_many_bytes(tmp_path: Path) -> None:
    file = tmp_path / "f"
    replace_file(file, b"0123456789")
    assert read(file) == b"01234"
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "not")


def linked(file: Path) -> None:
    replace_file(file.with_name("real"), b"x")
    file.symlink_to("real")


def open_to_others(file: Path) -> None:
    replace_file(file, b"x", 0o644)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (linked, "read failed"),
        (os.mkfifo, "owned by another user: remove it, and make one"),
        (Path.mkdir, "owned by another user"),
        (open_to_others, "other users can read the key: remove it, and make one"),
    ],
)
def test_what_may_be_anothers_is_refused(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "f")
    with pytest.raises(ConfigError, match=why):
        read(tmp_path / "f")
