"""The names of the first version work on a current log."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from harken import LoggedString, Session
from harken.session import MessageString, SessionLogger
from harken.session.log.reader import LogReadReport, iter_events

pytestmark = pytest.mark.req("S1-04")


def test_message_string_is_a_logged_string_with_older_names() -> None:
    text = MessageString("Hello", content_id="msg_015", caused_by="msg_011")
    assert isinstance(text, LoggedString)
    assert (text, text.content_id, text.message_id, text.caused_by) == (
        "Hello",
        "msg_015",
        "msg_015",
        "msg_011",
    )


@pytest.mark.parametrize("copied", [copy.copy, lambda text: pickle.loads(pickle.dumps(text))])
def test_message_string_ids_survive_a_copy(copied: object) -> None:
    text = MessageString("Hello", "msg_015", "msg_011")
    assert callable(copied)
    same = copied(text)
    assert (same, same.content_id, same.caused_by) == ("Hello", "msg_015", "msg_011")


def test_session_logger_writes_a_current_log(tmp_path: Path) -> None:
    logger = SessionLogger(tmp_path / "old.jsonl")
    logger.log_agent_created("agent_root", language_model="m")
    arguments = '{"name": "Jack"}'
    call = {"id": "c1", "type": "function", "function": {"name": "task", "arguments": arguments}}
    response_record = logger.log_transcript_entry(
        "agent_root", {"role": "assistant", "tool_calls": [call]}
    )
    logger.log_agent_created("agent_jack", name="Jack")
    piece = logger.log_piece_of_text("Introduce yourself", caused_by=response_record)
    message = {"role": "user", "content": "Introduce yourself"}
    input_record = logger.log_transcript_entry("agent_jack", message, content_id=piece)
    logger.close()

    reading = LogReadReport()
    by_id = {event.message_id: event for event in iter_events(logger.session_file, reading)}
    assert reading.sealed
    assert by_id[piece].agent_id == "agent_root"
    assert getattr(by_id[piece], "cause", None) == response_record
    assert getattr(by_id[input_record], "substance", None) == piece
    with Session.load(logger.session_file) as session:
        assert session.agents["agent_jack"].parent == "agent_root"  # type: ignore[index]


def test_session_logger_resumes_its_file(tmp_path: Path) -> None:
    first = SessionLogger(tmp_path / "old.jsonl")
    first.log_agent_created("agent_root")
    first.close()
    second = SessionLogger(tmp_path / "old.jsonl")
    assert second.log_transcript_entry("agent_root", {"role": "user", "content": "Hi"}) == "msg_002"
    second.close()
