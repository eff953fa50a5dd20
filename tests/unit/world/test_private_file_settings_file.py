"""A settings file is read whole, or not at all."""

import os
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.world.private_file import MAX_BYTES, read_settings_file


def test_its_bytes_are_read_and_where_none_is_there_none(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    assert read_settings_file(file) is None
    file.write_bytes(b"x" * MAX_BYTES)
    assert read_settings_file(file) == b"x" * MAX_BYTES


def test_what_no_person_wrote_is_an_error(tmp_path: Path) -> None:
    long, pipe = tmp_path / "long", tmp_path / "pipe"
    long.write_bytes(b"x" * (MAX_BYTES + 1))
    os.mkfifo(pipe)
    for file, problem in (
        (long, "longer than 1 MB"),
        (pipe, "not a regular file"),
        (tmp_path, "not a regular file"),
    ):
        with pytest.raises(ConfigError, match=f"{file}: {problem}"):
            read_settings_file(file)
