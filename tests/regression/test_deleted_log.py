"""A log that is deleted while a session writes it.

The error said "everything acknowledged before is safe", which is true of a full disk and not of a
deleted file. It has its own class and says that the messages are lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import LogDeleted
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message, session_options


def test_a_deleted_log_is_not_called_safe(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl", options=session_options(durability="turn"))
    agent = create_agent(session)
    session.path.unlink()
    log_user_message(session, agent, "one")
    for _ in range(2):  # every later call fails in the same way
        with pytest.raises(LogDeleted, match="deleted while this session wrote it") as error:
            session.sync()
        assert "safe" not in str(error.value)
        assert "messages are lost" in str(error.value)
    with pytest.raises(LogDeleted):
        log_user_message(session, agent, "two")
    with pytest.raises(LogDeleted):
        session.close()
