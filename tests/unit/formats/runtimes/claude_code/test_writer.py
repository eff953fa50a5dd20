"""Conversations as transcripts of Claude Code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import (
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.alternation import EMPTY_TURN_TEXT
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.claude_code.reader import FORMAT
from harken.formats.runtimes.claude_code.resume_request import (
    DEFAULT_MODEL,
    INTERRUPTED,
    build_resume_request,
)
from harken.formats.runtimes.claude_code.writer import write_session
from harken.testing import plain_conversation
from tests.unit.formats.transcripts import (
    MODEL,
    Read,
    Transcript,
    read,
    result,
    text,
    thought,
    use,
)

SESSION = NewSessionInfo(
    id="5e551011-0000-4000-8000-0000000000ff", folder="/home/jill", time="2026-01-31T12:00:00Z"
)


def records(
    entries: list[ConversationEntry], session: NewSessionInfo = SESSION
) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_session(entries, session).splitlines()]


def again(made: Transcript) -> Read:
    """Return what is read of a transcript that was read and written."""
    return read(write_session(read(made).entries(), SESSION))


def everything() -> Transcript:
    """A transcript of a conversation with all that stands in one."""
    made = Transcript()
    made.user("Hello", isMeta=True)
    made.user([text("Look"), text("there")])
    made.answer(thought("Hm."), id="m1")
    made.answer(text("I look."), id="m1")
    made.answer(use("c1", "Task", prompt="x"), use("c2"), id="m1")
    made.result("c1", [text("one")])
    made.result("c2", "two", is_error=True)
    made.user([result("c3", "nobody asked"), text("and more")])
    made.add("attachment", attachment={"type": "queued_command", "prompt": "Wait"})
    made.answer(text("API Error"), model="<synthetic>", isApiErrorMessage=True)
    made.add("system", subtype="local_command", content="<local-command-stdout>x</a>")
    made.answer(use("c4"))
    made.result("c4", None)
    made.answer(text("Done."))
    return made


def without_orphan(made: Transcript) -> Transcript:
    """Take away a result that nobody asked for: it is told, as what it says."""
    for record in made.records:
        content = record.get("message", {}).get("content")
        if isinstance(content, list) and len(content) == 2 and content[0]["type"] == "tool_result":
            del content[0]
    return made


def test_what_claude_code_said_comes_back_with_its_names_times_and_usage() -> None:
    made = without_orphan(everything())
    assert again(made).entries() == read(made).entries()


def test_it_is_sent_as_it_was() -> None:
    made = without_orphan(everything())
    assert build_resume_request(again(made).entries()) == build_resume_request(read(made).entries())


def test_a_record_names_its_session_and_the_record_above() -> None:
    found = records(plain_conversation())
    assert [record["type"] for record in found] == [
        "user",
        "assistant",
        "assistant",
        "user",
        "assistant",
    ]
    assert [record["parentUuid"] for record in found] == [None, *(r["uuid"] for r in found[:-1])]
    assert {record["sessionId"] for record in found} == {SESSION.id}
    assert {record["cwd"] for record in found} == {"/home/jill"}
    assert found[0]["timestamp"] == "2026-01-31T12:00:00.000Z"


def test_each_block_of_an_answer_is_a_record_of_one_response() -> None:
    first, second = records(plain_conversation())[1:3]
    assert first["message"]["id"] == second["message"]["id"]
    assert [r["message"]["content"][0]["type"] for r in (first, second)] == ["text", "tool_use"]
    assert first["message"]["model"] == DEFAULT_MODEL
    assert "usage" not in first["message"]


def test_the_title_and_the_model_are_those_of_the_session() -> None:
    session = NewSessionInfo(
        id=SESSION.id, folder="/", time="noon", title="Tea", model="claude-haiku-4-5"
    )
    title, asked, answer, *_ = records(plain_conversation(), session)
    assert title == {"type": "ai-title", "aiTitle": "Tea", "sessionId": SESSION.id}
    assert asked["timestamp"] == "2026-01-31T12:00:00.000Z"
    assert answer["message"]["model"] == "claude-haiku-4-5"


def test_thoughts_of_claude_that_are_signed_stay_whoever_kept_them() -> None:
    signed = ThinkingPart("Hm.", {"signature": "c2ln", "model": MODEL})
    hidden = UnknownPart(
        "redacted_thinking", '{"type":"redacted_thinking","data":"x"}', {"model": MODEL}
    )
    strange = [
        ThinkingPart("Unsigned.", {"model": MODEL}),
        ThinkingPart("Somebody's.", {"signature": "c2ln", "model": "gpt-6"}),
        ThinkingPart("Nobody's.", {"signature": "c2ln"}),
    ]
    said = Message("assistant", [signed, hidden, *strange, TextPart("Yes.")])
    found = read(
        write_session([ConversationEntry(Message("user", "?")), ConversationEntry(said)], SESSION)
    ).entries()
    assert found[1].message.content == [signed, hidden, TextPart("Yes.")]
    assert (found[1].source or {})["model"] == MODEL


def test_a_call_that_nobody_answered_gets_what_the_client_itself_would_say() -> None:
    made = Transcript()
    made.user("Go")
    made.answer(use("c1"))
    before = read(made).entries()
    assert build_resume_request(again(made).entries()) == build_resume_request(before)
    assert again(made).said()[-1] == f"tool of c1: {INTERRUPTED}"


def test_a_summary_at_the_beginning_is_one_again_and_what_follows_follows() -> None:
    made = Transcript()
    made.user("Go")
    kept = made.answer(text("Gone."))
    made.boundary(kept, kept=[kept])
    made.summary()
    made.user("And now?")
    steps = read(made).path()
    entries = [entry for step in steps[1:] for entry in step.entries]
    found = read(write_session(entries, SESSION))
    assert found.path()[0].type == "compaction"
    assert [e.message for e in found.entries()] == [entry.message for entry in entries]
    assert build_resume_request(found.entries()) == build_resume_request(entries)


def test_what_another_runtime_said_in_the_users_name_is_no_prompt() -> None:
    said = ConversationEntry(Message("user", "Be kind."), source={"kind": "system"})
    (record,) = records([said])
    assert record["isMeta"] is True
    (entry,) = read(write_session([said], SESSION)).entries()
    assert (entry.source or {})["kind"] == "system"


def test_a_name_that_comes_twice_or_is_none_is_given_anew() -> None:
    uuid = "5e551011-0000-4000-8000-000000000001"
    sources: list[dict[str, Any]] = [
        {"uuid": uuid},
        {"uuid": uuid},
        {"uuid": "../../x"},
        {"uuid": 5},
    ]
    entries = [ConversationEntry(Message("user", "Hi"), source=source) for source in sources]
    uuids = [record["uuid"] for record in records(entries)]
    assert uuids[0] == uuid
    assert len({*uuids}) == 4
    assert all(len(one) == 36 for one in uuids)


@pytest.mark.parametrize("uuids", [5, [None, 5], ["x"], []])
def test_hostile_facts_of_an_answer_do_no_harm(uuids: object) -> None:
    source = {"uuids": uuids, "id": 5, "blocks": [True, "x", -1], "usage": [], "kind": 7}
    odd = {**source, "stop_reason": {}, "model": 5, "request": 1}
    said = ConversationEntry(
        Message("assistant", "Hi", [ToolCall("a", FunctionCall("f", "{"))]), source=odd
    )
    found = read(write_session([ConversationEntry(Message("user", "?")), said], SESSION))
    assert found.said()[:2] == ["user: ?", "assistant: Hi [a]"]


def test_an_id_that_the_client_takes_for_another_one_is_given_anew() -> None:
    entries = [Message("user", "?")]
    for id_ in ("a", "a_2", "a", "b_2"):
        entries.append(Message("assistant", None, [ToolCall(id_, FunctionCall("look", "{}"))]))
        entries.append(Message("tool", id_, tool_call_id=id_))
    found = read(write_session([ConversationEntry(one) for one in entries], SESSION)).entries()
    ids = [call.id for entry in found for call in entry.message.tool_calls or ()]
    assert (ids[0], ids[3]) == ("a", "b_2")
    assert {len(id_) for id_ in ids[1:3]} == {30}
    assert [entry.message.tool_call_id for entry in found if entry.message.role == "tool"] == ids


def test_calls_of_others_stand_after_their_words() -> None:
    call = ToolCall("a", FunctionCall("look", "{}"))
    said = Message("assistant", [ToolCallSlot("a"), TextPart("So.")], [call])
    entries = [Message("user", "?"), said, Message("tool", "x", tool_call_id="a")]
    blocks = [r["message"]["content"] for r in records([ConversationEntry(one) for one in entries])]
    assert [block[0]["type"] for block in blocks[1:]] == ["text", "tool_use", "tool_result"]


def test_where_nothing_was_said_there_is_a_transcript_in_which_nothing_is_said() -> None:
    assert read(write_session([], SESSION)).steps == []


@pytest.mark.req("S2-54")
def test_what_is_exported_may_follow_what_was_exported_before() -> None:
    assert FORMAT.writes
    assert FORMAT.joins
    first = [ConversationEntry(Message("user", "Is somebody at the door?"))]
    more = [
        ConversationEntry(Message("assistant", "Nobody.")),
        ConversationEntry(Message("user", "Jill?")),
    ]
    whole = FORMAT.joins([FORMAT.writes(first) or b"", FORMAT.writes(more) or b""])
    assert read(whole).said() == [
        "user: Is somebody at the door?",
        f"user: {EMPTY_TURN_TEXT}",
        "assistant: Nobody.",
        "user: Jill?",
    ]
