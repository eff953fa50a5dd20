"""Commits are converted to the events of a session log."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.fork import fork
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.messages import FunctionCall, Message, Role, ToolCall
from harken.errors import NameNotFound
from harken.formats.base import ConversationEntry
from harken.recording.from_commits.branches import BranchTip
from harken.recording.from_commits.session import retell
from harken.store.memory import MemoryStore
from tests.unit.context.kit import NOON, commit
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block
from tests.unit.recording.from_commits.retelling_kit import (
    check_lawful,
    convert_session,
    import_transcripts,
    outline,
)
from tests.unit.recording.from_commits.retelling_oracle import hash_messages

T = TypeVar("T")


def of(kind: type[T], events: list[ev.Event]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def test_conversation_becomes_events_of_a_log(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Is the cafe open?")
    transcript.answer(text_block("I look."), tool_use_block("c1", "look", at="door"))
    transcript.result("c1", "It is.")
    transcript.answer(text_block("Yes."))
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    assert outline(events) == [
        "- session_started",
        "1 agent_created",
        "1 user: Is the cafe open?",
        "1 llm_request",
        "1 assistant: I look. [c1]",
        "1 llm_response",
        "1 context_committed",
        "1 tool of c1: It is.",
        "1 llm_request",
        "1 assistant: Yes.",
        "1 llm_response",
        "1 context_committed",
    ]
    assert [event.time[17:19] for event in events] == [
        *("01", "01", "01", "01", "02", "02", "02"),
        *("03", "03", "04", "04", "04"),
    ]
    assert [entry.name for entry in of(ev.TranscriptEntry, events)][2] == "look"


def test_answer_has_its_model_and_usage(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    counts = {
        "input_tokens": 3,
        "cache_read_input_tokens": 50,
        "cache_creation_input_tokens": 7,
        "output_tokens": 9,
    }
    transcript.answer(text_block("Hi"), id="r1")
    transcript.answer(text_block("there."), id="r1")
    transcript.records[-1]["message"] |= {"usage": counts, "stop_reason": "end_turn"}
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    (response,) = of(ev.LlmResponse, events)
    assert response.usage == ev.Usage(60, 9, 50, 7)
    assert (response.model, response.stop_reason) == ("claude-opus-4-5-20251101", "end_turn")
    (birth,) = of(ev.AgentCreated, events)
    assert (birth.name, birth.language_model) == ("main", "claude-opus-4-5-20251101")


def test_response_split_across_positions_is_one_model_call(tmp_path: Path) -> None:
    """The first position had only the first line; its entry stays in an abandoned branch."""
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi"), id="r1")
    early = Transcript(records=[*transcript.records])
    transcript.answer(text_block("there."), id="r1")
    events = convert_session(
        *import_transcripts(tmp_path / "files", early=early, late=transcript), tmp_path
    )
    answers = [e for e in of(ev.TranscriptEntry, events) if e.role == "assistant"]
    (response,) = of(ev.LlmResponse, events)
    assert (len(answers), response.entry) == (2, answers[-1].message_id)


@pytest.mark.parametrize("usage", [7, {}, {"input_tokens": -1}, {"output_tokens": 2**70}])
def test_invalid_usage_is_omitted(tmp_path: Path, usage: object) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi"))
    transcript.records[-1]["message"]["usage"] = usage
    (response,) = of(
        ev.LlmResponse,
        convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path),
    )
    assert response.usage is None


def test_model_change_is_logged_when_it_occurs(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi"))
    transcript.user("Again")
    transcript.answer(text_block("Hm"), model="claude-haiku-4-5")
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    (change,) = of(ev.AgentConfigured, events)
    assert change.language_model == "claude-haiku-4-5"
    assert [request.model for request in of(ev.LlmRequest, events)][1] == "claude-haiku-4-5"


def test_provider_error_is_the_outcome_of_a_model_call(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("API Error: 529"), model="<synthetic>", isApiErrorMessage=True)
    transcript.answer(text_block("No response requested."), model="<synthetic>")
    transcript.answer(text_block("Hi"))
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    failed, answer_event = of(ev.LlmResponse, events)
    assert (failed.error, failed.entry, failed.stop_reason) == ("API Error: 529", None, "error")
    assert answer_event.error is None
    assert len(of(ev.LlmRequest, events)) == 2


def family() -> dict[str, Transcript]:
    main = Transcript()
    main.user("Ask Ann and Bob.")
    main.answer(
        tool_use_block("c1", "Task", prompt="You are Ann, who knows about tea."),
        tool_use_block("c2", "Task", prompt="You are Bob, who knows about cake."),
    )
    main.result("c1", [text_block("Tea is good."), text_block("agentId: ann")])
    main.records[-1]["toolUseResult"] = {"agentId": "ann"}
    main.result("c2", "Cake.")
    main.records[-1]["toolUseResult"] = {"agentId": "bob"}
    main.answer(text_block("Tea and cake."))
    shared = {"isSidechain": True}
    ann = Transcript(shared={**shared, "agentId": "ann"})
    ann.user("You are Ann, who knows about tea.")
    ann.answer(text_block("Tea is good."), id="a1")
    bob = Transcript(shared={**shared, "agentId": "bob"})
    bob.user("You are Bob, who knows about cake.")
    bob.answer(text_block("Cake."), id="b1")
    return {"main": main, "agent_ann": ann, "agent_bob": bob}


def test_subagents_are_created_by_their_calls(tmp_path: Path) -> None:
    events = convert_session(*import_transcripts(tmp_path / "files", **family()), tmp_path)
    _, ann, bob = of(ev.AgentCreated, events)
    (call,) = [entry for entry in of(ev.TranscriptEntry, events) if entry.tool_calls]
    assert (ann.name, ann.cause) == ("ann", f"{call.message_id}.c1")
    assert (bob.name, bob.cause) == ("bob", f"{call.message_id}.c2")


def test_messages_between_agents_are_linked(tmp_path: Path) -> None:
    events = convert_session(*import_transcripts(tmp_path / "files", **family()), tmp_path)
    entries = {f"{e.agent_id} {e.role}": e for e in of(ev.TranscriptEntry, events)}
    pieces = of(ev.PieceOfText, events)
    assert entries["agent_002 user"].substance == pieces[0].message_id
    assert [piece.agent_id for piece in pieces] == ["agent_001", "agent_001"]
    results = {e.tool_call_id: e for e in of(ev.TranscriptEntry, events) if e.role == "tool"}
    assert results["c1"].cause == entries["agent_002 assistant"].message_id
    assert results["c2"].substance == entries["agent_003 assistant"].message_id


def test_only_the_first_input_is_the_prompt(tmp_path: Path) -> None:
    files = family()
    files["agent_ann"].user("You are Ann, who knows about tea.")
    events = convert_session(*import_transcripts(tmp_path / "files", **files), tmp_path)
    ann = [e for e in of(ev.TranscriptEntry, events) if e.agent_id == "agent_002"]
    assert [entry.substance is not None for entry in ann if entry.role == "user"] == [True, False]


def test_subagent_without_parent_is_created_beside_it(tmp_path: Path) -> None:
    files = family()
    del files["main"].records[2]["toolUseResult"]
    events = convert_session(*import_transcripts(tmp_path / "files", **files), tmp_path)
    births = {birth.name: birth for birth in of(ev.AgentCreated, events)}
    assert births["ann"].cause == births["main"].message_id
    assert births["main"].relation == "primary"


def test_agents_are_interleaved_by_time(tmp_path: Path) -> None:
    files = family()
    for name, minutes in (("agent_ann", "30"), ("agent_bob", "20")):
        for record in files[name].records:
            record["timestamp"] = record["timestamp"].replace("12:00:", f"12:{minutes}:")
    for record in files["main"].records[2:]:
        record["timestamp"] = record["timestamp"].replace("12:00:", "12:40:")
    events = convert_session(*import_transcripts(tmp_path / "files", **files), tmp_path)
    times = [entry.time for entry in of(ev.TranscriptEntry, events)]
    assert times == sorted(times)
    agent_ids = [entry.agent_id for entry in of(ev.TranscriptEntry, events)]
    assert (
        agent_ids == ["agent_001"] * 2 + ["agent_003"] * 2 + ["agent_002"] * 2 + ["agent_001"] * 3
    )


def test_rewind_is_an_edit_to_an_earlier_entry(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    call_number = transcript.answer(text_block("Hi"), tool_use_block("c0", "look"))
    transcript.result("c0", "nothing")
    transcript.user("Tea?", parent=call_number)
    transcript.answer(tool_use_block("c1", "brew"))
    transcript.user("No, cake.", parent=call_number)
    transcript.answer(text_block("Cake it is."))
    store, ends = import_transcripts(tmp_path / "files", a=transcript)
    assert len(ends) > 1
    events = convert_session(store, ends, tmp_path)
    edits = of(ev.TranscriptEdited, events)
    assert {edit.reason for edit in edits} == {"rewound"}
    assert all(edit.segments[0].start == 0 for edit in edits)
    last = [line for line in outline(events) if "assistant" in line or "user" in line][-2:]
    assert last == ["1 user: No, cake.", "1 assistant: Cake it is."]
    results = [e for e in of(ev.TranscriptEntry, events) if e.tool_call_id == "c1"]
    assert results == [], "the call of the abandoned branch has no result, and gets none"


def test_compaction_is_an_edit_that_keeps_repeated_entries(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(text_block("Hi"))
    kept_ids = [transcript.user("Tea?"), transcript.answer(text_block("Green."))]
    transcript.boundary(kept_ids[-1], kept=kept_ids)
    transcript.summary()
    transcript.user("More.")
    transcript.answer(text_block("Here."))
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    (edit,) = of(ev.TranscriptEdited, events)
    assert edit.reason == "compaction"
    entries = of(ev.TranscriptEntry, events)
    summary = next(e for e in entries if e.message_id == edit.summary)
    assert "They spoke of tea" in str(summary.content)
    assert edit.segments == [ev.Segment(start=4, stop=5), ev.Segment(start=2, stop=4)]
    assert len(entries) == 7
    assert [request.count for request in of(ev.LlmRequest, events)] == [1, 3, 4]


@pytest.mark.parametrize("is_marked", [True, False])
def test_summary_of_a_compaction_is_the_marked_message_or_the_last_new_one(
    tmp_path: Path, is_marked: bool
) -> None:
    store = MemoryStore()
    first = commit(store, None, "Hello", "Hi")
    marked = {"kind": "system", "summary": True} if is_marked else None
    draft = CommitDraft(
        entries=[
            ConversationEntry(Message("user", "Before."), NOON),
            ConversationEntry(Message("user", "They said hello."), NOON, marked),
            ConversationEntry(Message("user", "After."), NOON),
            ConversationEntry(Message("user", "Hello"), NOON),
            ConversationEntry(Message("assistant", "Hi"), NOON),
        ],
        parent=first,
        type="compaction",
        created_at=NOON,
    )
    events = convert_session(store, [BranchTip("main", checkpoint(store, draft))], tmp_path)
    (edit,) = of(ev.TranscriptEdited, events)
    (summary,) = [e for e in of(ev.TranscriptEntry, events) if e.message_id == edit.summary]
    assert summary.content == ("They said hello." if is_marked else "After.")
    assert len(of(ev.TranscriptEntry, events)) == 5


def test_orphaned_result_stays_without_its_call(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.result("gone", "It was open.")
    transcript.answer(text_block("Good."))
    events = convert_session(*import_transcripts(tmp_path / "files", a=transcript), tmp_path)
    assert outline(events)[2:5] == [
        "1 tool of gone: It was open.",
        "1 llm_request",
        "1 assistant: Good.",
    ]
    (request,) = of(ev.LlmRequest, events)
    assert request.count == 1


def entry(message: Message) -> ConversationEntry:
    return ConversationEntry(message, NOON)


def call(*ids: str) -> ConversationEntry:
    tool_calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ids]
    return entry(Message("assistant", None, tool_calls))


def answer(id_: str, words: str = "a door") -> ConversationEntry:
    return entry(Message("tool", words, tool_call_id=id_))


@pytest.mark.parametrize(
    "entries",
    [
        [call("c1"), call("c1"), answer("c1"), answer("c1")],
        [call("c1"), answer("c1"), answer("c1", "again"), call("c1"), answer("c1")],
        [call("c1", "c1"), answer("c1"), answer("c1")],
        [call(""), answer("")],
        [call("c1", "c2"), answer("c3"), answer("c2")],
        [answer("c1"), answer("c1")],
        [entry(Message("system", "Be kind.")), entry(Message("assistant")), call("c~1")],
    ],
)
def test_calls_are_logged_as_they_are(tmp_path: Path, entries: list[ConversationEntry]) -> None:
    """Calls may have no result, results no call, and ids may repeat: nothing is invented."""
    store = MemoryStore()
    ctx = checkpoint(store, CommitDraft(entries=entries, origin=CommitOrigin(principal="ann")))
    events = retell(store, "cafe", [BranchTip("main", ctx)])
    check_lawful(events, tmp_path)
    messages = [message.message for message in entries]
    places = [index for index, message in enumerate(messages) if message.role == "assistant"]
    for request, position in zip(of(ev.LlmRequest, events), places, strict=True):
        assert request.context_hash == hash_messages(messages[:position])
    logged = of(ev.TranscriptEntry, events)
    assert [entry.tool_calls for entry in logged] == [message.tool_calls for message in messages]
    ids = [(message.tool_call_id or "unnamed") for message in messages if message.role == "tool"]
    assert [entry.tool_call_id for entry in logged if entry.role == "tool"] == ids


def test_harken_commit_becomes_events(tmp_path: Path) -> None:
    store = MemoryStore()
    first = commit(store, None, "Hello", "Hi")
    forked = fork(store, first, CommitOrigin(principal="jill"), NOON)
    draft = CommitDraft(messages=[Message("user", "Tea?")], parent=forked, created_at=NOON)
    summed = compact(store, draft, [Message("user", "They said hello."), Message("user", "Tea?")])
    last = commit(store, snapshot(store, summed), "Bye", "Goodbye")
    events = convert_session(store, [BranchTip("main", last)], tmp_path)
    assert [event.ctx for event in of(ev.ContextCommitted, events)][:2] == [first, forked]
    assert {event.model for event in of(ev.LlmRequest, events)} == {"unknown"}
    assert [edit.reason for edit in of(ev.TranscriptEdited, events)] == ["compaction"]


def test_subagent_may_start_with_the_context_of_its_parent(tmp_path: Path) -> None:
    store = MemoryStore()
    first = commit(store, None, "Hello", "Hi")
    snapped = CommitDraft(
        entries=[
            ConversationEntry(Message("user", "Hello")),
            ConversationEntry(Message("assistant", "Hi")),
            ConversationEntry(Message("user", "Go on alone.")),
        ],
        parent=first,
        type="snapshot",
        trigger="spawn",
        created_at=NOON,
    )
    spawned = checkpoint(store, snapped)
    alone = commit(store, first, "And you?", "I stay.")
    ends = [BranchTip("main", first), BranchTip("spawned", spawned), BranchTip("forked", alone)]
    events = convert_session(store, ends, tmp_path)
    own_entries = [e for e in of(ev.TranscriptEntry, events) if e.agent_id != "agent_001"]
    assert sorted(str(e.content) for e in own_entries) == ["And you?", "Go on alone.", "I stay."]
    assert {edit.reason for edit in of(ev.TranscriptEdited, events)} == {"inherited"}


def at(second: int, role: Role, text: str) -> ConversationEntry:
    return ConversationEntry(Message(role, text), f"2026-01-31T12:00:{second:02d}.000000Z")


def spawn(store: MemoryStore, parent: CommitId, *entries: ConversationEntry) -> CommitId:
    draft = CommitDraft(entries=entries, parent=parent, type="snapshot", trigger="spawn")
    return checkpoint(store, draft)


def test_entries_are_inherited_by_message_and_time(tmp_path: Path) -> None:
    store = MemoryStore()
    shared = [at(1, "user", "Hello"), at(2, "assistant", "Hi")]
    first = checkpoint(store, CommitDraft(entries=shared))
    child = spawn(store, first, *shared, at(3, "user", "Go on alone."))
    grandchild = spawn(store, child, *shared, at(3, "user", "Go on alone."), at(4, "user", "Dig."))
    later = spawn(store, first, shared[0], at(9, "assistant", "Hi"))
    ends = [
        BranchTip("main", first),
        BranchTip("child", child),
        BranchTip("grandchild", grandchild),
    ]
    events = convert_session(store, [*ends, BranchTip("later", later)], tmp_path)
    own_texts: dict[str, list[str]] = {}
    names = {birth.agent_id: birth.name or "" for birth in of(ev.AgentCreated, events)}
    for entry_ in of(ev.TranscriptEntry, events):
        own_texts.setdefault(names[entry_.agent_id], []).append(str(entry_.content))
    assert own_texts == {
        "main": ["Hello", "Hi"],
        "child": ["Go on alone."],
        "grandchild": ["Dig."],
        "later": ["Hi"],
    }


@pytest.mark.parametrize(
    ("first", "missing"),
    [
        ("system", ["messages", "tools", "parameters"]),
        ("user", ["messages", "system", "tools", "parameters"]),
    ],
)
def test_system_prompt_is_missing_unless_the_context_begins_with_it(
    tmp_path: Path, first: Role, missing: list[str]
) -> None:
    store = MemoryStore()
    start = checkpoint(store, CommitDraft(entries=[at(1, first, "Hello")]))
    tips = []
    roles: list[tuple[int, Role]] = [(2, "system"), (4, "user")]
    for second, role in roles:
        entries = [at(second, role, "Be kind."), at(second + 1, "assistant", "Hi")]
        tips.append(checkpoint(store, CommitDraft(entries=entries, parent=start)))
    ends = [BranchTip("main", ctx) for ctx in reversed(tips)]
    requests = of(ev.LlmRequest, convert_session(store, ends, tmp_path))
    assert [request.missing for request in requests] == [missing, missing]


def test_call_of_an_abandoned_branch_creates_no_agent(tmp_path: Path) -> None:
    store = MemoryStore()
    start = checkpoint(store, CommitDraft(entries=[at(1, "user", "Hello")]))
    abandoned = checkpoint(store, CommitDraft(entries=[call("c1")], parent=start))
    calling = checkpoint(store, CommitDraft(entries=[call("c2")], parent=start))
    child = spawn(store, calling, at(3, "user", "Go."))
    ends = [BranchTip("main", calling), BranchTip("main", abandoned), BranchTip("child", child)]
    events = convert_session(store, ends, tmp_path)
    calls = {
        entry.tool_calls[0].id: entry
        for entry in of(ev.TranscriptEntry, events)
        if entry.tool_calls
    }
    assert of(ev.AgentCreated, events)[1].cause == calls["c2"].message_id


def test_entries_without_time_have_the_previous_time(tmp_path: Path) -> None:
    store = MemoryStore()
    entries = [
        ConversationEntry(Message("user", "a")),
        ConversationEntry(Message("user", "b"), "2026-01-31T13:30:00+01:00"),
        ConversationEntry(Message("user", "c"), "noon"),
    ]
    ctx = checkpoint(store, CommitDraft(entries=entries, created_at=NOON))
    events = convert_session(store, [BranchTip("main", ctx)], tmp_path)
    later = "2026-01-31T12:30:00.000000Z"
    assert [e.time for e in of(ev.TranscriptEntry, events)] == [later, later, later]


def test_missing_content_is_described() -> None:
    with pytest.raises(NameNotFound):
        retell(MemoryStore(), "cafe", [])
    with pytest.raises(NameNotFound):
        retell(MemoryStore(), "cafe", [BranchTip("main", CommitId("ctx-" + "0" * 64))])
