"""Sessions that a program forgets to close.

A process may have 1,024 open files on most machines. The log of a session that was garbage-collected
stayed open and locked, so a program that ran many sessions, such as our own tests, ended with "too
many open files".
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from harken import Session

OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="no list of open files here")
def test_a_forgotten_session_releases_its_log(tmp_path: Path) -> None:
    for number in range(3):
        Session(tmp_path / f"{number}.jsonl")
    session = Session(tmp_path / "last.jsonl")
    gc.collect()
    names = [str(path.readlink()) for path in OPEN_FILES.iterdir() if path.is_symlink()]
    assert [name for name in names if name.startswith(str(tmp_path))] == [str(session.path)]
    session.close()


def test_a_forgotten_session_can_be_opened_again(tmp_path: Path) -> None:
    Session(tmp_path / "log.jsonl")
    gc.collect()
    Session(tmp_path / "log.jsonl").close()
