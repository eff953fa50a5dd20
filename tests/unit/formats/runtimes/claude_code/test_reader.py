"""Transcripts of Claude Code as steps: the tree, subagents, compactions, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import ImagePart, ThinkingPart
from harken.errors import FormatError
from harken.formats.runtimes.claude_code.reader import FORMAT, is_session_file
from tests.unit.formats.transcripts import Transcript, lines, read, result, text, thought, use


def cafe() -> Transcript:
    """A prompt, an answer with a call, its result, a last answer."""
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(thought("I look."), id="m1")
    made.answer(text("Let me look."), id="m1")
    made.answer(use("c1", command="ls"), id="m1")
    made.result("c1", "open")
    made.answer(text("It is."), id="m2")
    return made


def test_a_conversation_is_read_as_it_was_said() -> None:
    found = read(cafe())
    assert found.said() == [
        "user: Is the cafe open?",
        "assistant: Let me look. [c1]",
        "tool of c1: open",
        "assistant: It is.",
    ]
    assert [(step.type, step.trigger, len(step.entries)) for step in found.path()] == [
        ("delta", "import", 2),
        ("delta", "import", 2),
    ]


def test_a_response_on_several_lines_is_one_message_with_its_usage_once() -> None:
    made = cafe()
    answer = read(made).entries()[1]
    assert answer.source == {
        "kind": "response",
        "uuids": [record["uuid"] for record in made.records[1:4]],
        "id": "m1",
        "request": "req_m1",
        "model": "claude-opus-4-5-20251101",
        "usage": {"input_tokens": 10, "output_tokens": 3},
    }
    assert answer.time == "2026-01-31T12:00:04.000000Z"


def test_thinking_keeps_its_signature_and_whose_it_is() -> None:
    content = read(cafe()).entries()[1].message.content
    assert isinstance(content, list)
    assert content[0] == ThinkingPart(
        "I look.", {"signature": "c2ln", "model": "claude-opus-4-5-20251101"}
    )


def test_parallel_calls_are_no_fork() -> None:
    made = Transcript()
    made.user("Look at both.")
    first = made.answer(use("c1"), id="m1")
    second = made.answer(use("c2"), id="m1")
    made.result("c1", "one", parent=first)
    made.result("c2", "two", parent=second)
    made.answer(text("Both are there."))
    found = read(made)
    assert found.said()[1:3] == ["assistant:  [c1] [c2]", "tool of c1: one"]
    assert len(found.said()) == 5
    assert found.reading.branches == []


def test_a_result_between_the_lines_of_a_response_does_not_part_it() -> None:
    made = Transcript()
    made.user("Look at both.")
    first = made.answer(use("c1"), id="m1")
    made.result("c1", "one")
    made.answer(use("c2"), id="m1", parent=first)
    made.result("c2", "two")
    made.answer(text("Both are there."))
    found = read(made)
    assert found.said()[1] == "assistant:  [c1] [c2]"
    assert found.reading.branches == []


def test_a_rewind_is_a_branch_and_the_last_one_is_where_it_goes_on() -> None:
    made = Transcript()
    made.user("Hello")
    at = made.answer(text("Hi."))
    made.user("Tea?")
    made.answer(text("Tea."))
    made.user("Coffee?", parent=at)
    made.answer(text("Coffee."))
    found = read(made)
    assert found.said()[2:] == ["user: Coffee?", "assistant: Coffee."]
    ((agent, end),) = found.reading.branches
    assert agent == ""
    assert found.by_id[end].parent == found.path()[0].id


def test_a_second_answer_to_the_same_prompt_parts_after_the_prompt() -> None:
    made = Transcript()
    at = made.user("Hello")
    made.answer(text("Hi."))
    made.answer(text("Good day."), parent=at)
    found = read(made)
    assert found.said() == ["user: Hello", "assistant: Good day."]
    assert len(found.steps) == 3


def test_the_order_of_lines_does_not_matter_for_what_follows_what() -> None:
    made = cafe()
    records = made.records
    mixed = [records[at] for at in (4, 1, 2, 3, 0, 5)]
    assert read(lines(mixed)).said() == read(made).said()


def test_what_is_no_conversation_is_passed_over_and_counted() -> None:
    made = Transcript()
    made.user("Hello")
    made.add("progress", data={"type": "hook_progress"})
    made.add("system", subtype="turn_duration", isMeta=True)
    made.answer(text("Hi."))
    extra = [{"type": "file-history-snapshot", "messageId": "x"}, {"type": "queue-operation"}]
    found = read(made.data + lines(extra))
    assert found.said() == ["user: Hello", "assistant: Hi."]
    assert found.reading.uninterpreted == {
        "progress": 1,
        "system/turn_duration": 1,
        "file-history-snapshot": 1,
        "queue-operation": 1,
    }
    assert len(found.path()) == 1


@pytest.mark.req("S2-70")
def test_records_of_kinds_that_nobody_knows_are_kept() -> None:
    found = read(cafe().data + lines([{"type": "weather", "uuid": "w"}, {"no": "type"}]))
    assert found.reading.uninterpreted == {"weather": 1, "no type": 1}


@pytest.mark.req("S2-74")
def test_sidechains_in_the_file_become_a_chain_each_from_where_they_were_spawned() -> None:
    made = Transcript()
    made.user("Ask Ann and Bob.")
    made.answer(use("c1", "Task", prompt="You are Ann."), id="m1")
    made.answer(use("c2", "Task", prompt="You are Bob."), id="m1")
    main = made._last
    side: dict[str, Any] = {"isSidechain": True}
    ann = made.user("You are Ann.", parent=None, agentId="ann", **side)
    bob = made.user("You are Bob.", parent=None, agentId="bob", **side)
    made.answer(text("I am Ann."), parent=ann, agentId="ann", **side)
    made.answer(text("I am Bob."), parent=bob, agentId="bob", **side)
    made.user([result("c1", "Ann"), result("c2", "Bob")], parent=main)
    made.answer(text("Both were here."))
    found = read(made)
    assert list(found.reading.tips) == ["", "ann", "bob"]
    spawning, begins = found.path("ann")
    assert spawning.id == found.path()[0].id
    assert (begins.type, begins.trigger, begins.agent) == ("snapshot", "spawn", "ann")
    assert found.said("bob")[-2:] == ["user: You are Bob.", "assistant: I am Bob."]
    assert found.said()[-1] == "assistant: Both were here."


@pytest.mark.req("S2-74")
def test_a_sidechain_without_a_name_is_one_chain_too() -> None:
    made = Transcript()
    made.user("Ask Ann.")
    made.answer(use("c1", "Task", prompt="You are Ann."))
    main = made._last
    made.user("You are Ann.", parent=None, isSidechain=True)
    made.answer(text("I am."), isSidechain=True)
    made.result("c1", "Ann", parent=main)
    found = read(made)
    assert list(found.reading.tips) == ["", "line 3"]
    assert [step.trigger for step in found.path("line 3")] == ["import", "spawn"]


def test_a_subagent_with_a_file_of_its_own_is_named_by_the_result_of_its_call() -> None:
    made = Transcript()
    made.user("Ask Ann.")
    made.answer(use("c1", "Task"))
    made.user([result("c1", "done")], toolUseResult={"agentId": "ann"})
    found = read(made)
    assert found.reading.spawned == {"ann": found.path()[0].id}

    own = Transcript(shared={"isSidechain": True, "agentId": "ann"})
    own.user("You are Ann.")
    own.answer(text("I am."))
    (begins,) = read(own).steps
    assert (begins.parent, begins.agent, begins.trigger) == (None, "ann", "spawn")


@pytest.mark.req("S2-76")
def test_a_boundary_and_its_summary_are_one_compaction_with_what_stays() -> None:
    made = Transcript()
    made.user("Hello")
    made.answer(text("Hi."))
    prompt = made.user("Tea?")
    tea = made.answer(text("Tea."))
    made.boundary(tea, kept=[prompt, tea])
    made.summary()
    made.user("And cake?")
    made.answer(text("Cake."))
    before, last, compaction, after = read(made).path()
    assert compaction.type == compaction.trigger == "compaction"
    assert compaction.parent == last.id
    assert [entry.message.role for entry in compaction.entries] == ["user", "user", "assistant"]
    assert compaction.time == "2026-01-31T12:00:06.000000Z"
    assert (before.type, after.type) == ("delta", "delta")


@pytest.mark.req("S2-76")
def test_a_summary_without_a_boundary_is_a_compaction_too() -> None:
    made = Transcript()
    made.user("Hello")
    made.answer(text("Hi."))
    made.user("This session is being continued from ...", parent=None, isCompactSummary=True)
    made.answer(text("Go on."))
    before, compaction, after = read(made).path()
    assert (before.type, compaction.type, after.type) == ("delta", "compaction", "delta")


@pytest.mark.req("S2-76")
def test_seventy_one_compactions_in_a_session_work() -> None:
    made = Transcript()
    for at in range(71):
        made.user(f"Prompt {at}")
        made.boundary(made.answer(text(f"Answer {at}")))
        made.summary(f"Summary {at}")
    found = read(made)
    assert [step.type for step in found.path()].count("compaction") == 71
    assert len(found.path()) == 142


@pytest.mark.req("S2-76")
def test_a_microcompaction_is_kept_and_no_commit() -> None:
    made = cafe()
    made.add("system", subtype="microcompact_boundary", microcompactMetadata={"trigger": "auto"})
    made.user("And?")
    found = read(made)
    assert {step.type for step in found.steps} == {"delta"}
    assert found.reading.uninterpreted == {"system/microcompact_boundary": 1}
    assert found.said()[-1] == "user: And?"


def test_the_title_is_the_last_one_given() -> None:
    titles = [
        {"type": "summary", "summary": "Tea", "leafUuid": "x"},
        {"type": "custom-title", "customTitle": "Tea with Jill"},
    ]
    assert read(lines(titles) + cafe().data).reading.title == "Tea with Jill"


def test_results_keep_their_parts_and_whether_they_failed() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
    }
    made = Transcript()
    made.user("Look")
    made.answer(use("c1"), use("c2"))
    made.user([result("c1", [text("a"), picture]), result("c2", "no", is_error=True)])
    first, second = read(made).entries()[2:]
    assert isinstance(first.message.content, list)
    assert first.message.content[1] == ImagePart("image/png", "AA")
    assert (first.message.is_error, second.message.is_error) == (False, True)


def test_an_orphan_begins_a_conversation_of_its_own() -> None:
    made = Transcript()
    made.user("Nobody has this parent.", parent="not-there")
    made.answer(text("So it begins."))
    assert read(made).path()[0].parent is None


def test_parents_in_a_circle_are_cut_open() -> None:
    made = Transcript()
    made.user("One")
    made.answer(text("Two"))
    made.user("Three")
    made.records[0]["parentUuid"] = made.records[2]["uuid"]
    made.add("progress", parent="p")
    made.records[-1]["uuid"] = "p"
    assert sorted(read(made).said()) == ["assistant: Two", "user: One", "user: Three"]


def test_a_record_that_comes_again_counts_once() -> None:
    made = cafe()
    found = read(made.data + lines(made.records[:2]))
    assert found.said() == read(made).said()
    assert found.reading.uninterpreted == {"user": 1, "assistant": 1}


BAD = {
    "no JSON": b"{nonsense",
    "no object": b'["a list"]',
    "a torn end": b'{"type":"user","mess',
    "bytes": b"\xff\xfe\x00{",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_bad_line_is_reported_with_its_place_and_the_rest_is_read(line: bytes) -> None:
    made = cafe()
    records = made.data.splitlines(keepends=True)
    found = read(b"".join([*records[:3], line, b"\n", *records[3:]]))
    (bad,) = found.reading.bad
    assert (bad.number, bad.start) == (4, len(b"".join(records[:3])))
    assert found.said() == read(made).said()


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
def test_odd_content_is_read_or_reported_and_nothing_else_suffers(content: bytes) -> None:
    made = cafe()
    made.user("PLACE")
    made.answer(text("The end."))
    found = read(made.data.replace(b'"PLACE"', content))
    assert found.said()[-1] == "assistant: The end."
    assert found.reading.lines == 8


def test_a_line_of_which_only_the_outline_can_be_read_is_a_bad_one() -> None:
    made = cafe()
    made.user("And?")
    deep = made.data.replace(b'"version"', b'"deep": ' + b"[" * 5000 + b"]" * 5000 + b', "version"')
    for at in range(7):
        lines_of = made.data.splitlines(keepends=True)
        lines_of[at] = deep.splitlines(keepends=True)[at]
        found = read(b"".join(lines_of))
        assert [bad.number for bad in found.reading.bad] == [at + 1]
        assert (found.reading.lines, found.reading.used_lines) == (7, 6)


HOSTILE = [
    {"type": "user", "message": "no object"},
    {"type": "user", "uuid": 7, "parentUuid": [], "message": {"content": {"a": 1}}},
    {"type": "assistant", "message": {"content": 5, "id": [], "usage": {"n": 10**400}}},
    {"type": "assistant", "uuid": "../../etc", "message": {"model": 7, "content": [text("x")]}},
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"preservedMessages": 3}},
    {"type": "user", "isCompactSummary": 1, "timestamp": "never", "message": {"content": "s"}},
    {"type": "attachment", "attachment": {"type": "queued_command", "prompt": 3}},
    {"type": ["user"], "isSidechain": "yes", "agentId": {}},
    {"type": "user", "uuid": "self", "parentUuid": "self", "message": {"content": "me"}},
    {"type": "api-request", "id": 1, "tail": [1, None]},
    {"type": "summary", "summary": []},
]


@pytest.mark.parametrize("record", HOSTILE, ids=json.dumps)
def test_a_hostile_record_breaks_nothing(record: object) -> None:
    found = read(lines([record]) + cafe().data)
    assert found.said()[-4:] == read(cafe()).said()


def test_all_hostile_records_together_break_nothing() -> None:
    assert read(lines(HOSTILE * 3) + cafe().data).said()[-1] == "assistant: It is."


def test_what_has_no_record_of_a_transcript_is_none() -> None:
    for data in (b"", b"\n\n", b'{"a":1}\n', b"words\n"):
        with pytest.raises(FormatError):
            read(data)


def test_a_transcript_is_told_from_other_files_by_its_beginning() -> None:
    assert is_session_file("x.jsonl", cafe().data)
    assert is_session_file("x.jsonl", b'{"type":"summary","summary":"T","leafUuid":"x"}\n')
    assert not is_session_file(
        "x.jsonl", b'{"timestamp":"...","type":"session_meta","payload":{}}\n'
    )
    assert not is_session_file("x.jsonl", b"")
    assert not is_session_file("sessionId.png", b"\x89PNG")


@pytest.mark.req("S2-54")
def test_joining_deltas_appends_their_lines() -> None:
    whole = cafe().data
    parts = whole.splitlines(keepends=True)
    assert FORMAT.joins is not None
    assert FORMAT.joins(parts) == whole
    assert FORMAT.joins([parts[0].rstrip(b"\n"), parts[1]]) == parts[0] + parts[1]


@pytest.mark.req("S2-54", "S2-55")
def test_the_format_reads_what_the_model_has_at_the_end() -> None:
    made = cafe()
    made.boundary(str(made._last))
    made.summary()
    made.user("Go on")
    assert FORMAT.reads is not None
    found = FORMAT.reads(made.data)
    assert [entry.message.role for entry in found] == ["user", "user"]
    assert FORMAT.reads(cafe().data) == read(cafe()).entries()
