"""Claude Code transcripts as import steps: the tree, subagents, compactions and damage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import ImagePart, ThinkingPart
from harken.errors import FormatError
from harken.formats.runtimes.claude_code.reader import FORMAT, is_session_file
from tests.unit.formats.transcript_kit import (
    Transcript,
    encode_lines,
    read_transcript,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)


def cafe_transcript() -> Transcript:
    """A prompt, an answer with a call, its result and a final answer."""
    transcript = Transcript()
    transcript.user("Is the cafe open?")
    transcript.answer(thinking_block("I look."), id="m1")
    transcript.answer(text_block("Let me look."), id="m1")
    transcript.answer(tool_use_block("c1", command="ls"), id="m1")
    transcript.result("c1", "open")
    transcript.answer(text_block("It is."), id="m2")
    return transcript


def test_conversation_is_read_in_order() -> None:
    parsed = read_transcript(cafe_transcript())
    assert parsed.texts() == [
        "user: Is the cafe open?",
        "assistant: Let me look. [c1]",
        "tool of c1: open",
        "assistant: It is.",
    ]
    assert [(step.type, step.trigger, len(step.entries)) for step in parsed.path()] == [
        ("delta", "import", 2),
        ("delta", "import", 2),
    ]


def test_response_on_several_lines_is_one_message_with_one_usage() -> None:
    transcript = cafe_transcript()
    answer = read_transcript(transcript).entries()[1]
    assert answer.source == {
        "kind": "response",
        "uuids": [record["uuid"] for record in transcript.records[1:4]],
        "id": "m1",
        "request": "req_m1",
        "model": "claude-opus-4-5-20251101",
        "usage": {"input_tokens": 10, "output_tokens": 3},
    }
    assert answer.time == "2026-01-31T12:00:04.000000Z"


def test_thinking_keeps_its_signature_and_model() -> None:
    content = read_transcript(cafe_transcript()).entries()[1].message.content
    assert isinstance(content, list)
    assert content[0] == ThinkingPart(
        "I look.", {"signature": "c2ln", "model": "claude-opus-4-5-20251101"}
    )


def test_parallel_calls_are_not_a_branch() -> None:
    transcript = Transcript()
    transcript.user("Look at both.")
    first = transcript.answer(tool_use_block("c1"), id="m1")
    second = transcript.answer(tool_use_block("c2"), id="m1")
    transcript.result("c1", "one", parent=first)
    transcript.result("c2", "two", parent=second)
    transcript.answer(text_block("Both are there."))
    parsed = read_transcript(transcript)
    assert parsed.texts()[1:3] == ["assistant:  [c1] [c2]", "tool of c1: one"]
    assert len(parsed.texts()) == 5
    assert parsed.reading.branches == []


def test_result_between_the_lines_of_a_response_does_not_split_it() -> None:
    transcript = Transcript()
    transcript.user("Look at both.")
    first = transcript.answer(tool_use_block("c1"), id="m1")
    transcript.result("c1", "one")
    transcript.answer(tool_use_block("c2"), id="m1", parent=first)
    transcript.result("c2", "two")
    transcript.answer(text_block("Both are there."))
    parsed = read_transcript(transcript)
    assert parsed.texts()[1] == "assistant:  [c1] [c2]"
    assert parsed.reading.branches == []


def test_rewind_creates_a_branch_and_the_last_one_is_active() -> None:
    transcript = Transcript()
    transcript.user("Hello")
    record_id = transcript.answer(text_block("Hi."))
    transcript.user("Tea?")
    transcript.answer(text_block("Tea."))
    transcript.user("Coffee?", parent=record_id)
    transcript.answer(text_block("Coffee."))
    parsed = read_transcript(transcript)
    assert parsed.texts()[2:] == ["user: Coffee?", "assistant: Coffee."]
    ((agent, end),) = parsed.reading.branches
    assert agent == ""
    assert parsed.by_id[end].parent == parsed.path()[0].id


def test_second_answer_to_the_same_prompt_branches_after_the_prompt() -> None:
    transcript = Transcript()
    record_id = transcript.user("Hello")
    transcript.answer(text_block("Hi."))
    transcript.answer(text_block("Good day."), parent=record_id)
    parsed = read_transcript(transcript)
    assert parsed.texts() == ["user: Hello", "assistant: Good day."]
    assert len(parsed.steps) == 3


def test_order_of_lines_does_not_change_the_tree() -> None:
    transcript = cafe_transcript()
    records = transcript.records
    mixed = [records[index] for index in (4, 1, 2, 3, 0, 5)]
    assert read_transcript(encode_lines(mixed)).texts() == read_transcript(transcript).texts()


def test_records_outside_the_conversation_are_skipped_and_counted() -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.add("progress", data={"type": "hook_progress"})
    transcript.add("system", subtype="turn_duration", isMeta=True)
    transcript.answer(text_block("Hi."))
    extra = [{"type": "file-history-snapshot", "messageId": "x"}, {"type": "queue-operation"}]
    parsed = read_transcript(transcript.data + encode_lines(extra))
    assert parsed.texts() == ["user: Hello", "assistant: Hi."]
    assert parsed.reading.uninterpreted == {
        "progress": 1,
        "system/turn_duration": 1,
        "file-history-snapshot": 1,
        "queue-operation": 1,
    }
    assert len(parsed.path()) == 1


@pytest.mark.req("S2-70")
def test_records_of_unknown_kinds_are_kept() -> None:
    parsed = read_transcript(
        cafe_transcript().data + encode_lines([{"type": "weather", "uuid": "w"}, {"no": "type"}])
    )
    assert parsed.reading.uninterpreted == {"weather": 1, "no type": 1}


@pytest.mark.req("S2-74")
def test_each_sidechain_becomes_a_chain_that_starts_at_its_spawn() -> None:
    transcript = Transcript()
    transcript.user("Ask Ann and Bob.")
    transcript.answer(tool_use_block("c1", "Task", prompt="You are Ann."), id="m1")
    transcript.answer(tool_use_block("c2", "Task", prompt="You are Bob."), id="m1")
    main = transcript._last
    side: dict[str, Any] = {"isSidechain": True}
    ann = transcript.user("You are Ann.", parent=None, agentId="ann", **side)
    bob = transcript.user("You are Bob.", parent=None, agentId="bob", **side)
    transcript.answer(text_block("I am Ann."), parent=ann, agentId="ann", **side)
    transcript.answer(text_block("I am Bob."), parent=bob, agentId="bob", **side)
    transcript.user([tool_result_block("c1", "Ann"), tool_result_block("c2", "Bob")], parent=main)
    transcript.answer(text_block("Both were here."))
    parsed = read_transcript(transcript)
    assert list(parsed.reading.tips) == ["", "ann", "bob"]
    spawning, begins = parsed.path("ann")
    assert spawning.id == parsed.path()[0].id
    assert (begins.type, begins.trigger, begins.agent) == ("snapshot", "spawn", "ann")
    assert parsed.texts("bob")[-2:] == ["user: You are Bob.", "assistant: I am Bob."]
    assert parsed.texts()[-1] == "assistant: Both were here."


@pytest.mark.req("S2-74")
def test_sidechain_without_a_name_is_one_chain() -> None:
    transcript = Transcript()
    transcript.user("Ask Ann.")
    transcript.answer(tool_use_block("c1", "Task", prompt="You are Ann."))
    main = transcript._last
    transcript.user("You are Ann.", parent=None, isSidechain=True)
    transcript.answer(text_block("I am."), isSidechain=True)
    transcript.result("c1", "Ann", parent=main)
    parsed = read_transcript(transcript)
    assert list(parsed.reading.tips) == ["", "line 3"]
    assert [step.trigger for step in parsed.path("line 3")] == ["import", "spawn"]


def test_subagent_in_a_separate_file_is_named_by_the_result_of_its_call() -> None:
    transcript = Transcript()
    transcript.user("Ask Ann.")
    transcript.answer(tool_use_block("c1", "Task"))
    transcript.user([tool_result_block("c1", "done")], toolUseResult={"agentId": "ann"})
    parsed = read_transcript(transcript)
    assert parsed.reading.spawned == {"ann": parsed.path()[0].id}

    sidechain = Transcript(shared={"isSidechain": True, "agentId": "ann"})
    sidechain.user("You are Ann.")
    sidechain.answer(text_block("I am."))
    (begins,) = read_transcript(sidechain).steps
    assert (begins.parent, begins.agent, begins.trigger) == (None, "ann", "spawn")


@pytest.mark.req("S2-76")
def test_boundary_and_summary_are_one_compaction_with_the_retained_messages() -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi."))
    prompt = transcript.user("Tea?")
    tea = transcript.answer(text_block("Tea."))
    transcript.boundary(tea, kept=[prompt, tea])
    transcript.summary()
    transcript.user("And cake?")
    transcript.answer(text_block("Cake."))
    before, last, compaction, after = read_transcript(transcript).path()
    assert compaction.type == compaction.trigger == "compaction"
    assert compaction.parent == last.id
    assert [entry.message.role for entry in compaction.entries] == ["user", "user", "assistant"]
    assert compaction.time == "2026-01-31T12:00:06.000000Z"
    assert (before.type, after.type) == ("delta", "delta")


@pytest.mark.req("S2-76")
def test_summary_without_a_boundary_is_a_compaction() -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi."))
    transcript.user("This session is being continued from ...", parent=None, isCompactSummary=True)
    transcript.answer(text_block("Go on."))
    before, compaction, after = read_transcript(transcript).path()
    assert (before.type, compaction.type, after.type) == ("delta", "compaction", "delta")


@pytest.mark.req("S2-76")
def test_session_with_seventy_one_compactions_is_read() -> None:
    transcript = Transcript()
    for index in range(71):
        transcript.user(f"Prompt {index}")
        transcript.boundary(transcript.answer(text_block(f"Answer {index}")))
        transcript.summary(f"Summary {index}")
    parsed = read_transcript(transcript)
    assert [step.type for step in parsed.path()].count("compaction") == 71
    assert len(parsed.path()) == 142


@pytest.mark.req("S2-76")
def test_microcompaction_is_kept_without_a_commit() -> None:
    transcript = cafe_transcript()
    transcript.add(
        "system", subtype="microcompact_boundary", microcompactMetadata={"trigger": "auto"}
    )
    transcript.user("And?")
    parsed = read_transcript(transcript)
    assert {step.type for step in parsed.steps} == {"delta"}
    assert parsed.reading.uninterpreted == {"system/microcompact_boundary": 1}
    assert parsed.texts()[-1] == "user: And?"


def test_last_title_is_used() -> None:
    titles = [
        {"type": "summary", "summary": "Tea", "leafUuid": "x"},
        {"type": "custom-title", "customTitle": "Tea with Jill"},
    ]
    assert (
        read_transcript(encode_lines(titles) + cafe_transcript().data).reading.title
        == "Tea with Jill"
    )


def test_results_keep_their_parts_and_error_flag() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
    }
    transcript = Transcript()
    transcript.user("Look")
    transcript.answer(tool_use_block("c1"), tool_use_block("c2"))
    transcript.user(
        [
            tool_result_block("c1", [text_block("a"), picture]),
            tool_result_block("c2", "no", is_error=True),
        ]
    )
    first, second = read_transcript(transcript).entries()[2:]
    assert isinstance(first.message.content, list)
    assert first.message.content[1] == ImagePart("image/png", "AA")
    assert (first.message.is_error, second.message.is_error) == (False, True)


def test_orphan_starts_a_conversation() -> None:
    transcript = Transcript()
    transcript.user("Nobody has this parent.", parent="not-there")
    transcript.answer(text_block("So it begins."))
    assert read_transcript(transcript).path()[0].parent is None


def test_cycle_of_parents_is_broken() -> None:
    transcript = Transcript()
    transcript.user("One")
    transcript.answer(text_block("Two"))
    transcript.user("Three")
    transcript.records[0]["parentUuid"] = transcript.records[2]["uuid"]
    transcript.add("progress", parent="p")
    transcript.records[-1]["uuid"] = "p"
    assert sorted(read_transcript(transcript).texts()) == [
        "assistant: Two",
        "user: One",
        "user: Three",
    ]


def test_repeated_record_counts_once() -> None:
    transcript = cafe_transcript()
    parsed = read_transcript(transcript.data + encode_lines(transcript.records[:2]))
    assert parsed.texts() == read_transcript(transcript).texts()
    assert parsed.reading.uninterpreted == {"user": 1, "assistant": 1}


BAD = {
    "no JSON": b"{nonsense",
    "no object": b'["a list"]',
    "a torn end": b'{"type":"user","mess',
    "bytes": b"\xff\xfe\x00{",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_malformed_line_is_reported_with_its_position_and_reading_continues(line: bytes) -> None:
    transcript = cafe_transcript()
    records = transcript.data.splitlines(keepends=True)
    parsed = read_transcript(b"".join([*records[:3], line, b"\n", *records[3:]]))
    (bad,) = parsed.reading.bad
    assert (bad.number, bad.start) == (4, len(b"".join(records[:3])))
    assert parsed.texts() == read_transcript(transcript).texts()


ODD = {
    "a lone surrogate": rb'"\ud800 alone"',
    "a huge integer": b"[{'type':'text','text':'x','n':1".replace(b"'", b'"') + b"0" * 400 + b"}]",
    "a megabyte": b'"' + b"x" * 1_000_000 + b'"',
    "a doubled member": b'"one","content":"two"',
    "a wrong encoding": b'"caf\xe9"',
    "null": b"null",
    "a number": b"7",
    "texts in a list": b'["a", "b"]',
    "deep nesting": b"[" * 3000 + b"]" * 3000,
    "an odd block": b'[{"type": 7}, {"type": "text"}, {"text": null}, null]',
    "an odd result": b'[{"type":"tool_result"},{"type":"tool_result","tool_use_id":[],"content":{}}]',
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_odd_content_is_read_or_reported_without_other_effects(content: bytes) -> None:
    transcript = cafe_transcript()
    transcript.user("PLACE")
    transcript.answer(text_block("The end."))
    parsed = read_transcript(transcript.data.replace(b'"PLACE"', content))
    assert parsed.texts()[-1] == "assistant: The end."
    assert parsed.reading.lines == 8


def test_partially_readable_line_is_malformed() -> None:
    transcript = cafe_transcript()
    transcript.user("And?")
    deep = transcript.data.replace(
        b'"version"', b'"deep": ' + b"[" * 5000 + b"]" * 5000 + b', "version"'
    )
    for index in range(7):
        lines_of = transcript.data.splitlines(keepends=True)
        lines_of[index] = deep.splitlines(keepends=True)[index]
        parsed = read_transcript(b"".join(lines_of))
        assert [bad.number for bad in parsed.reading.bad] == [index + 1]
        assert (parsed.reading.lines, parsed.reading.used_lines) == (7, 6)


HOSTILE = [
    {"type": "user", "message": "no object"},
    {"type": "user", "uuid": 7, "parentUuid": [], "message": {"content": {"a": 1}}},
    {"type": "assistant", "message": {"content": 5, "id": [], "usage": {"n": 10**400}}},
    {
        "type": "assistant",
        "uuid": "../../etc",
        "message": {"model": 7, "content": [text_block("x")]},
    },
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"preservedMessages": 3}},
    {"type": "user", "isCompactSummary": 1, "timestamp": "never", "message": {"content": "s"}},
    {"type": "attachment", "attachment": {"type": "queued_command", "prompt": 3}},
    {"type": ["user"], "isSidechain": "yes", "agentId": {}},
    {"type": "user", "uuid": "self", "parentUuid": "self", "message": {"content": "me"}},
    {"type": "api-request", "id": 1, "tail": [1, None]},
    {"type": "summary", "summary": []},
]


@pytest.mark.parametrize("record", HOSTILE, ids=json.dumps)
def test_hostile_record_does_not_break_the_reader(record: object) -> None:
    parsed = read_transcript(encode_lines([record]) + cafe_transcript().data)
    assert parsed.texts()[-4:] == read_transcript(cafe_transcript()).texts()


def test_all_hostile_records_together_do_not_break_the_reader() -> None:
    assert (
        read_transcript(encode_lines(HOSTILE * 3) + cafe_transcript().data).texts()[-1]
        == "assistant: It is."
    )


def test_file_without_a_transcript_record_is_no_transcript() -> None:
    for data in (b"", b"\n\n", b'{"a":1}\n', b"words\n"):
        with pytest.raises(FormatError):
            read_transcript(data)


def test_transcript_is_detected_by_its_first_lines() -> None:
    assert is_session_file("x.jsonl", cafe_transcript().data)
    assert is_session_file("x.jsonl", b'{"type":"summary","summary":"T","leafUuid":"x"}\n')
    assert not is_session_file(
        "x.jsonl", b'{"timestamp":"...","type":"session_meta","payload":{}}\n'
    )
    assert not is_session_file("x.jsonl", b"")
    assert not is_session_file("sessionId.png", b"\x89PNG")


@pytest.mark.req("S2-54")
def test_joining_deltas_appends_their_lines() -> None:
    document = cafe_transcript().data
    parts = document.splitlines(keepends=True)
    assert FORMAT.joins is not None
    assert FORMAT.joins(parts) == document
    assert FORMAT.joins([parts[0].rstrip(b"\n"), parts[1]]) == parts[0] + parts[1]


@pytest.mark.req("S2-54", "S2-55")
def test_format_reads_the_context_of_the_model_at_the_end() -> None:
    transcript = cafe_transcript()
    transcript.boundary(str(transcript._last))
    transcript.summary()
    transcript.user("Go on")
    assert FORMAT.reads is not None
    result = FORMAT.reads(transcript.data)
    assert [entry.message.role for entry in result] == ["user", "user"]
    assert FORMAT.reads(cafe_transcript().data) == read_transcript(cafe_transcript()).entries()
