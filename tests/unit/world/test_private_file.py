"""Small files that are replaced atomically, and private files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.world.private_file import read_own_file, replace_file


def read(file: Path) -> bytes:
    return read_own_file(file, 5, what="the key", then="make one")


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_file_is_replaced_atomically_with_its_mode_and_no_leftovers(
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
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_failed_replacement_keeps_the_file_and_leaves_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "f", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_private_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "f"
    replace_file(file, b"0123456789")
    assert read(file) == b"01234"
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "not")


def add_hard_link(file: Path) -> None:
    replace_file(file.with_name("real"), b"x")
    file.symlink_to("real")


def make_world_readable(file: Path) -> None:
    replace_file(file, b"x", 0o644)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (add_hard_link, "read failed"),
        (os.mkfifo, "owned by another user: remove it, and make one"),
        (Path.mkdir, "owned by another user"),
        (make_world_readable, "other users can read the key: remove it, and make one"),
    ],
)
def test_file_that_another_user_may_control_is_rejected(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "f")
    with pytest.raises(ConfigError, match=why):
        read(tmp_path / "f")
