"""A folder of PATH that this user may not look into stops no chat.

PATH of a service or of `su` may name folders of another user. Looking for a Python environment
beside such a folder raised PermissionError, and every chat ended with exit code 2.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harken.world.shell.sandbox import _programs


def test_a_folder_of_path_that_cannot_be_looked_into_is_kept(tmp_path: Path) -> None:
    unusable = Path(f"/{'x' * 300}/bin")  # the system refuses the name, whoever asks
    folders = [*_programs({"PATH": f"{unusable}:/usr/bin"}, tmp_path)]
    assert folders == [unusable, Path("/usr/bin")]


@pytest.mark.skipif(os.geteuid() == 0, reason="no folder is closed to root")
def test_a_folder_of_path_that_is_closed_is_kept(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert [*_programs({"PATH": f"{closed}/bin"}, tmp_path)] == [closed / "bin"]
