"""Copies of a torn line on a full disk.

Each retry on a full disk left another, mostly empty `.torn-*` file beside the log: nine for one
log. A copy now gets its name when it is complete, and an equal copy is used again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import LogWriteError
from harken.session.log.file import LogFile
from harken.session.session import Session
from harken.testing import FailingDisk, Fault
from tests.crash.kill_kit import small_file_system
from tests.session_kit import create_agent, log_user_message, session_options

TORN = b'{"event_type":"transcript_ent'


@pytest.fixture
def torn_log(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    with Session(path, options=session_options()) as session:
        log_user_message(session, create_agent(session), "one")
    path.write_bytes(path.read_bytes() + TORN)
    return path


def copies_of(log: Path) -> list[bytes]:
    return [path.read_bytes() for path in log.parent.glob("*.torn-*")]


@pytest.mark.parametrize("fault", ["ENOSPC", "none", "one", "half", "late"])
@pytest.mark.parametrize("step", range(3))
def test_retries_on_a_failing_disk_leave_at_most_one_copy(
    torn_log: Path, step: int, fault: Fault
) -> None:
    """The steps: write the copy, sync it, sync the folder; then the log is cut."""
    before = torn_log.read_bytes()
    for _ in range(9):
        with pytest.raises(LogWriteError):
            Session(
                torn_log, options=session_options(disk=FailingDisk(fail_at=step, fault=fault))
            ).close()
        copies = copies_of(torn_log)
        assert copies in ([], [TORN])
        assert torn_log.read_bytes() == before or copies == [TORN]
    with Session(torn_log, options=session_options()) as session:
        log_user_message(session, next(iter(session.agents)), "two")
    assert copies_of(torn_log) == [TORN]


def test_a_kill_between_the_copy_and_the_cut_leaves_one_copy(torn_log: Path) -> None:
    end = len(torn_log.read_bytes()) - len(TORN)
    torn_log.with_name(f"{torn_log.name}.torn-{end}").write_bytes(TORN)
    torn_log.with_name(f"{torn_log.name}.torn-{end}.part").write_bytes(TORN[:5])
    with Session(torn_log, options=session_options()) as session:
        assert session.torn is not None
    assert copies_of(torn_log) == [TORN]


def test_a_link_in_the_place_of_the_copy_is_not_followed(torn_log: Path, tmp_path: Path) -> None:
    end = len(torn_log.read_bytes()) - len(TORN)
    target = tmp_path / "target"
    target.write_bytes(b"untouched")
    torn_log.with_name(f"{torn_log.name}.torn-{end}.part").symlink_to(target)
    log = LogFile(torn_log)
    with pytest.raises(LogWriteError):
        log.set_aside(end, TORN)
    log.close()
    assert target.read_bytes() == b"untouched"


def test_retries_on_a_disk_that_is_really_full_leave_no_more_files(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "64k") as folder:
        path = folder / "s.jsonl"
        session = Session(path, options=session_options())
        agent = create_agent(session)
        with pytest.raises(LogWriteError):
            while True:
                log_user_message(session, agent, "x" * 1000)
        session.close()
        for _ in range(9):
            with pytest.raises(LogWriteError):
                Session(path, options=session_options())
        assert copies_of(path) == []
