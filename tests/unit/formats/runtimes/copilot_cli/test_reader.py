"""Reading Copilot CLI sessions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import ImagePart, TextPart, ThinkingPart
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.copilot_cli.reader import NATIVE
from tests.unit.formats.native_kit import (
    HOSTILE,
    encode_lines,
    open_source,
    read_context,
    read_steps,
    store_and_load,
    texts_of_entries,
)

START = {"sessionId": "0199-a", "copilotVersion": "1.0.64", "context": {"cwd": "/w"}}


class EventNumbering:
    """Number events."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str, data: dict[str, Any], **options: Any) -> dict[str, Any]:
        before = f"e{self.count}" if self.count else None
        self.count += 1
        time = f"2026-01-31T12:00:{self.count % 60:02}.000Z"
        event = {"type": kind, "data": data, "id": f"e{self.count}", "timestamp": time}
        return {**event, "parentId": before, **options}


def session(
    *events: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], dict[str, Any]],
) -> bytes:
    event = EventNumbering()
    created = [event(item[0], item[1], **(item[2] if len(item) > 2 else {})) for item in events]
    return encode_lines(event("session.start", START), *created)


def read_tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read_steps(NATIVE, data)
    return read_context(steps, reading.tips.get(""))


ASKED = (
    "user.message",
    {"content": "Look.", "transformedContent": "<now/>\n\nLook.", "attachments": []},
)
CALLED = (
    "assistant.message",
    {
        "messageId": "m1",
        "model": "m",
        "content": "I look.",
        "toolRequests": [
            {
                "toolCallId": "c1",
                "name": "bash",
                "arguments": {"command": "ls"},
                "type": "function",
            },
            {"toolCallId": "c2", "name": "patch", "arguments": "*** Begin", "type": "custom"},
        ],
        "reasoningText": "hm",
        "reasoningOpaque": "gAAA",
        "outputTokens": 7,
    },
)
SEEN = (
    "tool.execution_complete",
    {"toolCallId": "c1", "success": True, "result": {"content": "a.txt", "detailedContent": "..."}},
)
FAILED = (
    "tool.execution_complete",
    {"toolCallId": "c2", "success": False, "error": {"message": "no", "code": "failure"}},
)
DONE = ("assistant.message", {"messageId": "m2", "content": "Done."})


def test_turn_is_a_step() -> None:
    data = session(("system.message", {"content": "Be."}), ASKED, CALLED, SEEN, FAILED, DONE, ASKED)
    steps, reading = read_steps(NATIVE, data)
    assert [[entry.message.role for entry in step.entries] for step in steps] == [
        ["system", "user", "assistant", "tool", "tool"],
        ["assistant"],
        ["user"],
    ]
    assert (reading.session_id, reading.folder, reading.version) == ("0199-a", "/w", "1.0.64")
    assert reading.title == "Look."
    _, request, answer, shown_part, failed = store_and_load(steps[0].entries)
    assert request.message.content == "<now/>\n\nLook."
    assert request.source
    assert (request.source["kind"], request.source["typed"]) == ("prompt", "Look.")
    assert isinstance(answer.message.content, list)
    assert answer.message.content[0] == ThinkingPart("hm", {"copilot": {"reasoningOpaque": "gAAA"}})
    assert [
        (call.id, call.type, call.function.name, call.function.arguments)
        for call in answer.message.tool_calls or ()
    ] == [
        ("c1", "function", "bash", '{"command":"ls"}'),
        ("c2", "custom", "patch", "*** Begin"),
    ]
    assert answer.source
    assert (answer.source["model"], answer.source["usage"]) == ("m", {"output_tokens": 7})
    assert (shown_part.message.content, shown_part.message.is_error) == ("a.txt", False)
    assert (failed.message.content, failed.message.is_error) == ("no", True)


def test_repeated_system_message_is_read_once() -> None:
    instructions = ("system.message", {"role": "system", "content": "Be."})
    second = ("system.message", {"role": "system", "content": "Be more."})
    data = session(instructions, ASKED, DONE, instructions, ASKED, DONE, second, ASKED)
    assert [content for role, content in texts_of_entries(read_tip(data)) if role == "system"] == [
        "Be.",
        "Be more.",
    ]
    assert read_steps(NATIVE, data)[1].uninterpreted["system.message"] == 1


def test_subagent_has_its_own_conversation() -> None:
    of_agent = {"parentToolCallId": "c1"}
    data = session(
        ASKED,
        CALLED,
        ("subagent.started", {"toolCallId": "c1", "agentName": "explore"}),
        ("user.message", {"content": "Explore.", **of_agent}),
        ("assistant.message", {"content": "I explore.", **of_agent}),
        ("assistant.message", {"content": "Other."}, {"agentId": "b"}),
        SEEN,
        DONE,
    )
    steps, reading = read_steps(NATIVE, data)
    assert list(reading.tips) == ["", "c1", "b"]
    first = next(step for step in steps if step.agent == "c1")
    assert (first.type, first.trigger, first.parent) == ("snapshot", "spawn", steps[0].id)
    assert texts_of_entries(read_context(steps, reading.tips["c1"])) == [
        ("user", "Explore."),
        ("assistant", "I explore."),
    ]
    assert [role for role, _ in texts_of_entries(read_context(steps, reading.tips[""]))] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_compaction_leaves_its_summary() -> None:
    result = ("session.compaction_complete", {"success": True, "summaryContent": "S"})
    failed = ("session.compaction_complete", {"success": False, "error": "x"})
    data = session(ASKED, DONE, failed, ASKED, DONE, result, ASKED)
    steps, _ = read_steps(NATIVE, data)
    assert [step.type for step in steps] == ["delta", "delta", "compaction", "delta"]
    assert [content for _, content in texts_of_entries(read_tip(data))] == ["S", "<now/>\n\nLook."]


def test_sender_that_acts_for_the_user_is_recorded() -> None:
    image = {"type": "blob", "mimeType": "image/png", "data": "AAAA"}
    data = session(
        (
            "user.message",
            {"content": "See.", "attachments": [image, {"type": "file", "path": "/a"}]},
        ),
        ("user.message", {"content": "Go on.", "source": "schedule"}),
        ("system.notification", {"content": "<system_notification/>", "kind": {}}),
    )
    entries = read_tip(data)
    assert isinstance(entries[0].message.content, list)
    assert entries[0].message.content[1] == ImagePart("image/png", "AAAA")
    assert [entry.source and entry.source["kind"] for entry in entries] == [
        "prompt",
        "system",
        "system",
    ]


def test_all_other_events_are_counted() -> None:
    data = session(
        ("hook.start", {}), ("abort", {"reason": "user"}), ASKED, ("session.shutdown", {})
    )
    _, reading = read_steps(NATIVE, data + b"torn{\n")
    assert dict(reading.uninterpreted) == {
        "session.start": 1,
        "hook.start": 1,
        "abort": 1,
        "session.shutdown": 1,
    }
    assert len(reading.bad) == 1


def test_session_is_detected_by_its_first_event() -> None:
    assert NATIVE.is_session_file("events.jsonl", session())
    assert not NATIVE.is_session_file("events.jsonl", b'{"type":"session","id":"a"}')
    with pytest.raises(FormatError):
        read_steps(NATIVE, b'{"type":"user"}\n')


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_rejected_or_reported(data: bytes) -> None:
    for document in (data, session(ASKED) + data + b"\n"):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(open_source(document), reading))
        except FormatError:
            continue
        store_and_load([entry for step in steps for entry in step.entries])


VALUE = st.sampled_from([None, 5, "x", [], {}, [5], {"a": 5}, [{"type": 5}], True])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ASKED[0], CALLED[0], SEEN[0], "system.message", "session.start"]),
            st.dictionaries(
                st.sampled_from([*CALLED[1], *SEEN[1], "error", "attachments", "parentToolCallId"]),
                VALUE,
            ),
            st.fixed_dictionaries({"id": VALUE, "agentId": VALUE}),
        )
    )
)
def test_event_may_contain_any_json(
    events: list[tuple[str, dict[str, Any], dict[str, Any]]],
) -> None:
    steps, _ = read_steps(NATIVE, session(*events))
    store_and_load([entry for step in steps for entry in step.entries])


def test_result_may_have_images() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    contents = [image, {**image, "data": ""}, {"type": "text", "text": "x"}, {"type": "image"}]
    result = {"content": "a picture", "contents": contents}
    seen = ("tool.execution_complete", {"toolCallId": "c1", "success": True, "result": result})
    entries = read_tip(session(ASKED, CALLED, seen, FAILED))
    assert entries[2].message.content == [
        TextPart("a picture"),
        ImagePart("image/png", "aGk="),
    ]
