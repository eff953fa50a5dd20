"""Writing conversations as Claude Code transcripts."""

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
from harken.formats.runtimes.claude_code.resume_request import INTERRUPTED, build_resume_request
from harken.formats.runtimes.claude_code.writer import DEFAULT_MODEL, write_session
from harken.testing import plain_conversation
from tests.unit.formats.transcript_kit import (
    MODEL,
    ReadTranscript,
    Transcript,
    read_transcript,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)

SESSION = NewSessionInfo(
    id="5e551011-0000-4000-8000-0000000000ff", folder="/home/jill", time="2026-01-31T12:00:00Z"
)


def write_records(
    entries: list[ConversationEntry], session: NewSessionInfo = SESSION
) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_session(entries, session).splitlines()]


def write_and_read(transcript: Transcript) -> ReadTranscript:
    """Return the entries read from a written transcript."""
    return read_transcript(write_session(read_transcript(transcript).entries(), SESSION))


def full_transcript() -> Transcript:
    """A transcript with each kind of record."""
    transcript = Transcript()
    transcript.user("Hello", isMeta=True)
    transcript.user([text_block("Look"), text_block("there")])
    transcript.answer(thinking_block("Hm."), id="m1")
    transcript.answer(text_block("I look."), id="m1")
    transcript.answer(tool_use_block("c1", "Task", prompt="x"), tool_use_block("c2"), id="m1")
    transcript.result("c1", [text_block("one")])
    transcript.result("c2", "two", is_error=True)
    transcript.user([tool_result_block("c3", "nobody asked"), text_block("and more")])
    transcript.add("attachment", attachment={"type": "queued_command", "prompt": "Wait"})
    transcript.answer(text_block("API Error"), model="<synthetic>", isApiErrorMessage=True)
    transcript.add("system", subtype="local_command", content="<local-command-stdout>x</a>")
    transcript.answer(tool_use_block("c4"))
    transcript.result("c4", None)
    transcript.answer(text_block("Done."))
    return transcript


def remove_orphan(transcript: Transcript) -> Transcript:
    """Remove an orphan result, which is written as text."""
    for record in transcript.records:
        content = record.get("message", {}).get("content")
        if isinstance(content, list) and len(content) == 2 and content[0]["type"] == "tool_result":
            del content[0]
    return transcript


def test_claude_code_conversation_round_trips_with_ids_times_and_usage() -> None:
    transcript = remove_orphan(full_transcript())
    assert write_and_read(transcript).entries() == read_transcript(transcript).entries()


def test_written_transcript_sends_the_same_request() -> None:
    transcript = remove_orphan(full_transcript())
    assert build_resume_request(write_and_read(transcript).entries()) == build_resume_request(
        read_transcript(transcript).entries()
    )


def test_record_names_its_session_and_its_parent() -> None:
    result = write_records(plain_conversation())
    assert [record["type"] for record in result] == [
        "user",
        "assistant",
        "assistant",
        "user",
        "assistant",
    ]
    assert [record["parentUuid"] for record in result] == [None, *(r["uuid"] for r in result[:-1])]
    assert {record["sessionId"] for record in result} == {SESSION.id}
    assert {record["cwd"] for record in result} == {"/home/jill"}
    assert result[0]["timestamp"] == "2026-01-31T12:00:00.000Z"


def test_each_block_of_an_answer_is_a_record_of_one_response() -> None:
    first, second = write_records(plain_conversation())[1:3]
    assert first["message"]["id"] == second["message"]["id"]
    assert [r["message"]["content"][0]["type"] for r in (first, second)] == ["text", "tool_use"]
    assert first["message"]["model"] == DEFAULT_MODEL
    assert "usage" not in first["message"]


def test_title_and_model_are_those_of_the_session() -> None:
    session = NewSessionInfo(
        id=SESSION.id, folder="/", time="noon", title="Tea", model="claude-haiku-4-5"
    )
    title, request, answer, *_ = write_records(plain_conversation(), session)
    assert title == {"type": "ai-title", "aiTitle": "Tea", "sessionId": SESSION.id}
    assert request["timestamp"] == "2026-01-31T12:00:00.000Z"
    assert answer["message"]["model"] == "claude-haiku-4-5"


def test_signed_thinking_of_claude_is_kept_from_any_runtime() -> None:
    signed = ThinkingPart("Hm.", {"signature": "c2ln", "model": MODEL})
    hidden = UnknownPart(
        "redacted_thinking", '{"type":"redacted_thinking","data":"x"}', {"model": MODEL}
    )
    strange = [
        ThinkingPart("Unsigned.", {"model": MODEL}),
        ThinkingPart("Somebody's.", {"signature": "c2ln", "model": "gpt-6"}),
        ThinkingPart("Nobody's.", {"signature": "c2ln"}),
    ]
    message = Message("assistant", [signed, hidden, *strange, TextPart("Yes.")])
    parsed = read_transcript(
        write_session(
            [ConversationEntry(Message("user", "?")), ConversationEntry(message)], SESSION
        )
    ).entries()
    assert parsed[1].message.content == [signed, hidden, TextPart("Yes.")]
    assert (parsed[1].source or {})["model"] == MODEL


def test_unanswered_call_gets_the_result_that_the_client_would_write() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.answer(tool_use_block("c1"))
    before = read_transcript(transcript).entries()
    assert build_resume_request(write_and_read(transcript).entries()) == build_resume_request(
        before
    )
    assert write_and_read(transcript).texts()[-1] == f"tool of c1: {INTERRUPTED}"


def test_leading_summary_stays_a_summary_with_its_successors() -> None:
    transcript = Transcript()
    transcript.user("Go")
    retained = transcript.answer(text_block("Gone."))
    transcript.boundary(retained, kept=[retained])
    transcript.summary()
    transcript.user("And now?")
    steps = read_transcript(transcript).path()
    entries = [entry for step in steps[1:] for entry in step.entries]
    parsed = read_transcript(write_session(entries, SESSION))
    assert parsed.path()[0].type == "compaction"
    assert [e.message for e in parsed.entries()] == [entry.message for entry in entries]
    assert build_resume_request(parsed.entries()) == build_resume_request(entries)


def test_synthetic_user_text_of_another_runtime_is_no_prompt() -> None:
    message = ConversationEntry(Message("user", "Be kind."), source={"kind": "system"})
    (record,) = write_records([message])
    assert record["isMeta"] is True
    (entry,) = read_transcript(write_session([message], SESSION)).entries()
    assert (entry.source or {})["kind"] == "system"


def test_duplicate_or_invalid_id_is_replaced() -> None:
    uuid = "5e551011-0000-4000-8000-000000000001"
    sources: list[dict[str, Any]] = [
        {"uuid": uuid},
        {"uuid": uuid},
        {"uuid": "../../x"},
        {"uuid": 5},
    ]
    entries = [ConversationEntry(Message("user", "Hi"), source=source) for source in sources]
    uuids = [record["uuid"] for record in write_records(entries)]
    assert uuids[0] == uuid
    assert len({*uuids}) == 4
    assert all(len(item) == 36 for item in uuids)


@pytest.mark.parametrize("uuids", [5, [None, 5], ["x"], []])
def test_hostile_metadata_of_an_answer_is_harmless(uuids: object) -> None:
    source = {"uuids": uuids, "id": 5, "blocks": [True, "x", -1], "usage": [], "kind": 7}
    unusual = {**source, "stop_reason": {}, "model": 5, "request": 1}
    entry = ConversationEntry(
        Message("assistant", "Hi", [ToolCall("a", FunctionCall("f", "{"))]), source=unusual
    )
    parsed = read_transcript(
        write_session([ConversationEntry(Message("user", "?")), entry], SESSION)
    )
    assert parsed.texts()[:2] == ["user: ?", "assistant: Hi [a]"]


def test_id_that_the_client_would_misinterpret_is_replaced() -> None:
    entries = [Message("user", "?")]
    for id_ in ("a", "a_2", "a", "b_2"):
        entries.append(Message("assistant", None, [ToolCall(id_, FunctionCall("look", "{}"))]))
        entries.append(Message("tool", id_, tool_call_id=id_))
    parsed = read_transcript(
        write_session([ConversationEntry(new_entry) for new_entry in entries], SESSION)
    ).entries()
    ids = [call.id for entry in parsed for call in entry.message.tool_calls or ()]
    assert (ids[0], ids[3]) == ("a", "b_2")
    assert {len(id_) for id_ in ids[1:3]} == {30}
    assert [entry.message.tool_call_id for entry in parsed if entry.message.role == "tool"] == ids


def test_calls_of_other_runtimes_follow_their_text() -> None:
    call = ToolCall("a", FunctionCall("look", "{}"))
    message = Message("assistant", [ToolCallSlot("a"), TextPart("So.")], [call])
    entries = [Message("user", "?"), message, Message("tool", "x", tool_call_id="a")]
    blocks = [
        r["message"]["content"]
        for r in write_records([ConversationEntry(entry) for entry in entries])
    ]
    assert [block[0]["type"] for block in blocks[1:]] == ["text", "tool_use", "tool_result"]


def test_empty_conversation_becomes_a_transcript_without_messages() -> None:
    assert read_transcript(write_session([], SESSION)).steps == []


@pytest.mark.req("S2-54")
def test_export_may_follow_an_earlier_export() -> None:
    assert FORMAT.writes
    assert FORMAT.joins
    first = [ConversationEntry(Message("user", "Is somebody at the door?"))]
    additional = [
        ConversationEntry(Message("assistant", "Nobody.")),
        ConversationEntry(Message("user", "Jill?")),
    ]
    document = FORMAT.joins([FORMAT.writes(first) or b"", FORMAT.writes(additional) or b""])
    assert read_transcript(document).texts() == [
        "user: Is somebody at the door?",
        f"user: {EMPTY_TURN_TEXT}",
        "assistant: Nobody.",
        "user: Jill?",
    ]
