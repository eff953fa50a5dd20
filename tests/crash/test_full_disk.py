"""A really full disk: a small tmpfs. Needs Linux and root; skipped elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.ids import AgentId
from harken.errors import LogWriteError
from harken.session.session import Durability, Session
from tests.crash.kill_kit import small_file_system
from tests.session_kit import create_agent, log_user_message, read_message_ids, session_options

ROOT = AgentId("agent_001")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB."""
    with small_file_system(tmp_path / "small", "64k") as mounted:
        yield mounted


def fill(session: Session, agent: AgentId) -> list[str]:
    """Log entries until the disk is full. Return the acknowledged ids."""
    acknowledged: list[str] = []
    with pytest.raises(LogWriteError, match="free disk space") as refused:
        while True:
            acknowledged.append(log_user_message(session, agent, "x" * 1000))
            session.sync()
    assert "disk" in str(refused.value) or "space" in str(refused.value)
    return acknowledged


@pytest.mark.req("D-01")
@pytest.mark.parametrize("durability", ["turn", "always", "none"])
def test_full_disk_loses_nothing_and_the_session_continues_later(
    small_disk: Path, durability: Durability
) -> None:
    path = small_disk / "s.jsonl"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 16_000)
    session = Session(path, options=session_options(durability=durability))
    acknowledged = fill(session, create_agent(session))
    assert len(acknowledged) > 20
    refuses(session)
    assert read_message_ids(path)[2:] == acknowledged
    ballast.unlink()
    with Session(path, options=session_options()) as resumed:
        assert [e.message_id for e in resumed.agent(ROOT).transcript or ()] == acknowledged
        assert resumed.torn is not None
        next_id = log_user_message(resumed, ROOT, "there is room")
    assert read_message_ids(path)[2:] == [*acknowledged, next_id]


def refuses(session: Session) -> None:
    with pytest.raises(LogWriteError):
        log_user_message(session, ROOT, "x")
    try:
        session.close()
    except LogWriteError:
        session.close()


def test_torn_log_on_a_full_disk_is_readable_but_not_opened(small_disk: Path) -> None:
    path = small_disk / "s.jsonl"
    session = Session(path, options=session_options(durability="turn"))
    acknowledged = fill(session, create_agent(session))
    refuses(session)
    data_before = path.read_bytes()
    with pytest.raises(LogWriteError):
        Session(path, options=session_options())
    assert path.read_bytes() == data_before
    assert read_message_ids(path)[2:] == acknowledged


def test_session_on_a_full_disk_is_refused(small_disk: Path) -> None:
    with pytest.raises(OSError, match="space"):
        (small_disk / "ballast").write_bytes(b"x" * 100_000)
    with pytest.raises(LogWriteError, match="free disk space"):
        Session(small_disk / "s.jsonl", options=session_options())
    (small_disk / "ballast").unlink()
    with Session(small_disk / "s.jsonl", options=session_options()) as session:
        assert create_agent(session) == ROOT
