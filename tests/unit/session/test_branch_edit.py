"""A branch in which a message has another text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import USER, MessageId
from harken.errors import ConfigError
from harken.session.branch import branch_with_edit, change_model
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.session.verify import verify
from tests.session_kit import (
    create_agent,
    log_tool_calls,
    log_user_message,
    new_session,
    session_options,
)
from tests.unit.session.branch_kit import ROOT, bodies, texts, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path)


def test_an_edited_input_takes_the_place_of_the_old_one(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(log, tmp_path / "b.jsonl", "msg_006", "How?", options=session_options())
    assert made.origin.upto == "msg_005"
    assert texts(made.path) == ["Tea or coffee?", "Coffee.", "How?"]
    assert bodies(made.path)[1:6] == bodies(log)[1:6]
    assert [*iter_events(made.path)][-1].message_id == "msg_006"


def test_an_edited_answer_ends_its_request(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(log, tmp_path / "b.jsonl", "msg_004", "Tea.", options=session_options())
    entry, response = [*iter_events(made.path)][-2:]
    assert isinstance(entry, ev.TranscriptEntry)
    assert isinstance(response, ev.LlmResponse)
    assert entry.content == "Tea."
    assert (response.entry, response.stop_reason, response.cost_usd) == ("msg_004", "edited", None)
    assert json.loads(made.path.read_bytes().splitlines()[-2])["more"] is True
    with Session.load(made.path, options=session_options()) as session:
        assert session.state.requests == {}


def test_an_answer_that_was_logged_before_its_response_ends_its_request(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, language_model="m")
        agent = session.agent(ROOT)
        request = session.append(
            ev.LlmRequest(
                agent_id=ROOT, context=agent.segments(), count=0, context_hash="", model="m"
            )
        )
        entry = session.log_transcript_entry(ROOT, {"role": "assistant", "content": "a"})
        session.append(ev.LlmResponse(agent_id=ROOT, request=request, entry=entry))
    made = branch_with_edit(
        session.path, tmp_path / "b.jsonl", entry, "b", options=session_options()
    )
    last = [*iter_events(made.path)][-1]
    assert isinstance(last, ev.LlmResponse)
    assert (last.stop_reason, last.entry) == ("edited", entry)


def test_an_edit_of_another_event_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="msg_003 is an event of type llm_request, not a message"):
        branch_with_edit(log, tmp_path / "b.jsonl", "msg_003", "x")
    assert sorted(tmp_path.iterdir()) == [log]


def test_an_answer_to_a_call_that_has_another_result_is_not_edited(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        main = create_agent(session, name="main")
        calling = log_tool_calls(session, main, "c1")
        asked = session.append(
            ev.TranscriptEntry(agent_id=USER, role="user", content="Which color?", cause=calling)
        )
        reply = session.append(
            ev.TranscriptEntry(agent_id=USER, role="assistant", content="Red.", cause=asked)
        )
    with pytest.raises(ConfigError, match="edit the result of the call"):
        branch_with_edit(
            session.path, tmp_path / "b.jsonl", reply, "Blue.", options=session_options()
        )
    assert not (tmp_path / "b.jsonl").exists()


def ask_user(session: Session, answer: str) -> tuple[str, MessageId]:
    """Log a call whose result is the answer of the user. Return the call, and the answer's id."""
    calling = log_tool_calls(session, ROOT, "c1")
    asked = session.append(
        ev.TranscriptEntry(agent_id=USER, role="user", content="Which color?", cause=calling)
    )
    reply = session.append(
        ev.TranscriptEntry(agent_id=USER, role="assistant", content=answer, cause=asked)
    )
    return calling, reply


def log_result(session: Session, text: str, substance: MessageId | None) -> None:
    session.append(
        ev.TranscriptEntry(
            agent_id=ROOT,
            role="tool",
            tool_call_id="c1",
            name="look",
            content=text,
            substance=substance,
        )
    )


def test_an_edited_answer_to_a_call_gets_its_result(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        _, reply = ask_user(session, "Red.")
        log_result(session, "Red.", reply)
        log_user_message(session, ROOT, "later")
    changed: list[bool] = []
    made = branch_with_edit(
        session.path,
        tmp_path / "b.jsonl",
        reply,
        "Blue.",
        change=lambda session: changed.append(not session.agent(ROOT).open_calls),
        options=session_options(),
    )
    assert texts(made.path)[-2:] == ["Blue.", "Blue."]
    result = [*iter_events(made.path)][-1]
    assert isinstance(result, ev.TranscriptEntry)
    assert (result.role, result.tool_call_id, result.substance) == ("tool", "c1", reply)
    assert changed == [True], "the change is appended after the edited group"
    assert verify(made.path) == []


@pytest.mark.parametrize("has_substance", [True, False])
def test_an_answer_whose_result_has_another_text_is_not_edited(
    tmp_path: Path, has_substance: bool
) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        _, reply = ask_user(session, "Red.")
        log_result(session, "The user said: Red.", reply if has_substance else None)
        session.append(
            ev.TranscriptEntry(agent_id=ROOT, role="user", content="Red.", substance=reply)
        )
    with pytest.raises(ConfigError, match="edit the result of the call"):
        branch_with_edit(session.path, tmp_path / "b.jsonl", reply, "Blue.")


def test_an_edited_answer_in_a_discussion_is_its_last_event(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        ann = create_agent(session, cause="msg_001", name="Ann")
        calling = log_tool_calls(session, ROOT, "c1")
        opened = session.append(
            ev.DiscussionOpened(agent_id=ROOT, speakers=[USER, ann], cause=calling)
        )
        asked = session.append(
            ev.TranscriptEntry(agent_id=USER, role="user", content="Tea?", cause=calling)
        )
        with session.group():
            reply = session.append(
                ev.TranscriptEntry(agent_id=USER, role="assistant", content="Yes.", cause=asked)
            )
            log_user_message(session, ann, "[user]: Yes.")
            session.append(
                ev.DiscussionSpoken(
                    agent_id=ROOT, discussion=opened, speaker=USER, by=USER, said=reply
                )
            )
    made = branch_with_edit(
        session.path, tmp_path / "b.jsonl", reply, "No.", options=session_options()
    )
    assert texts(made.path)[-2:] == ["Tea?", "No."]
    assert not [e for e in iter_events(made.path) if isinstance(e, ev.DiscussionSpoken)]


def test_an_edited_branch_may_be_changed_and_described(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(
        log,
        tmp_path / "b.jsonl",
        "msg_006",
        "How?",
        change=lambda session: change_model(session, "new"),
        changes=["with another model"],
        options=session_options(),
    )
    assert made.origin.changes == ("edited msg_006", "with another model")
    with Session.load(made.path, options=session_options()) as session:
        assert session.agent(ROOT).language_model == "new"
