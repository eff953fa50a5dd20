"""Disk operations of a session, their timing, and failing disks."""

from pathlib import Path

import pytest

from harken.core.clock import system_clock
from harken.core.ids import AgentId
from harken.errors import (
    LogWriteError,
)
from harken.session.session import Durability, Session, SessionOptions
from harken.testing import FailingDisk, RecordingDisk
from tests.session_kit import (
    context_texts,
    create_agent,
    log_turn,
    log_user_message,
    new_session,
    reload_session,
    session_options,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


def syncs(durability: Durability, tmp_path: Path) -> tuple[list[int], int]:
    """Return the number of lines before each sync of a one-turn session, and the total.

    Lines 1 to 6: start, agent, input, request, calls, response; then a sync; 7 to 10: result,
    request, answer, response; then a sync; 11: one later event.
    """
    disk = RecordingDisk()
    session = new_session(tmp_path, durability=durability, disk=disk)
    create_agent(session)
    log_turn(session, ROOT, 1)
    log_user_message(session, ROOT, "unsettled")
    session.close()
    session.close()
    assert disk.folders == ([] if durability == "none" else [tmp_path])
    return disk.synced, len(disk.writes)


@pytest.mark.req("S0-34")
def test_durability_turn_syncs_before_tools_and_answers(
    tmp_path: Path,
) -> None:
    assert syncs("turn", tmp_path) == ([1, 6, 10, 11], 11)


@pytest.mark.req("S0-34")
def test_durability_always_syncs_every_event(tmp_path: Path) -> None:
    assert syncs("always", tmp_path) == (list(range(1, 12)), 11)


@pytest.mark.req("S0-34")
def test_durability_none_never_syncs(tmp_path: Path) -> None:
    assert syncs("none", tmp_path) == ([], 11)


@pytest.mark.req("S0-34")
def test_durability_default_is_turn() -> None:
    assert SessionOptions().durability == "turn"
    assert SessionOptions().clock is system_clock


def test_second_sync_without_new_events_is_skipped(tmp_path: Path) -> None:
    disk = RecordingDisk()
    with new_session(tmp_path, durability="turn", disk=disk) as session:
        create_agent(session)
        session.sync()
        session.sync()
    assert disk.synced == [1, 2]


@pytest.mark.req("S0-34")
def test_unsynced_events_of_a_killed_process_are_synced_later(tmp_path: Path) -> None:
    """Its lines are read from the page cache, so a reader must sync them before it acts on them.

    The same holds for the file name: the process may have died before the sync of the folder.
    """
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT)
    disk = RecordingDisk()
    resumed = Session.load(session.path, options=session_options(durability="turn", disk=disk))
    resumed.sync()
    assert disk.writes == []
    assert disk.synced == [0]
    assert disk.folders == [tmp_path]
    resumed.close()


def test_append_and_sync_after_a_failed_write_are_refused(tmp_path: Path) -> None:
    session = new_session(tmp_path, durability="turn", disk=FailingDisk(fail_at=5, fault="half"))
    create_agent(session)
    log_user_message(session, ROOT, "one")
    state = session.state.describe()
    with pytest.raises(LogWriteError):
        log_user_message(session, ROOT, "two")
    assert session.state.describe() == state
    for attempt in (lambda: log_user_message(session, ROOT), session.sync, session.close):
        with pytest.raises(LogWriteError):
            attempt()
    session.close()
    resumed = Session.load(session.path, options=session_options())
    assert context_texts(resumed, ROOT) == ["one"]
    assert resumed.torn is not None
    resumed.close()


class Interrupted(RecordingDisk):
    """A disk whose third write, or third sync, is interrupted by Ctrl-C."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def write(self, fd: int, data: bytes) -> int:
        written_bytes = super().write(fd, data)
        if self.where == "write" and len(self.writes) == 3:
            raise KeyboardInterrupt
        return written_bytes

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.where == "sync" and len(self.synced) == 3:
            raise KeyboardInterrupt


def test_append_after_an_interrupted_append_is_refused(tmp_path: Path) -> None:
    """Otherwise the next event would get the same id and a wrong sum."""
    session = new_session(tmp_path, disk=Interrupted("write"))
    create_agent(session)
    with pytest.raises(KeyboardInterrupt):
        log_user_message(session, ROOT, "one")
    with pytest.raises(LogWriteError, match="broken off"):
        log_user_message(session, ROOT, "two")
    session.close()
    resumed = Session.load(session.path, options=session_options())
    assert context_texts(resumed, ROOT) == ["one"]
    resumed.close()


def test_session_continues_after_an_interrupted_sync(tmp_path: Path) -> None:
    session = new_session(tmp_path, durability="always", disk=Interrupted("sync"))
    create_agent(session)
    with pytest.raises(KeyboardInterrupt):
        log_user_message(session, ROOT, "one")
    log_user_message(session, ROOT, "two")
    state = session.state.describe()
    assert context_texts(session, ROOT) == ["one", "two"]
    session = reload_session(session)
    assert session.state.describe() == state
    session.close()
