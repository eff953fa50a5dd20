"""Reading Pi sessions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.pi.messages import build_resume_request, to_pi_messages
from harken.formats.runtimes.pi.reader import NATIVE
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.native_kit import (
    HOSTILE,
    encode_lines,
    open_source,
    read_context,
    read_steps,
    store_and_load,
    texts_of_entries,
)

HEAD = {
    "type": "session",
    "version": 3,
    "id": "pi-1",
    "timestamp": "2026-01-31T12:00:00.000Z",
    "cwd": "/w",
}
USAGE = {"input": 2, "output": 3, "cacheRead": 5, "cacheWrite": 7, "totalTokens": 17}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def entry(id_: str, parent: str | None, message: dict[str, Any]) -> dict[str, Any]:
    time = "2026-01-31T12:00:01.000Z"
    return {"type": "message", "id": id_, "parentId": parent, "timestamp": time, "message": message}


def user_message(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}], "timestamp": 5}


def assistant_message(*blocks: dict[str, Any] | str, stop: str = "stop") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "m",
        "usage": USAGE,
        "stopReason": stop,
    }


def tool_call(id_: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id_, "name": "read", "arguments": arguments}


def tool_result(id_: str, *blocks: dict[str, Any], error: bool = False) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": id_,
        "toolName": "read",
        "content": list(blocks) or [{"type": "text", "text": "ok"}],
        "isError": error,
    }


def read_tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read_steps(NATIVE, data)
    return read_context(steps, reading.tips.get(""))


def linear_session(*messages: dict[str, Any]) -> bytes:
    ids = [f"e{index}" for index in range(len(messages))]
    parents = [None, *ids]
    return encode_lines(HEAD, *map(entry, ids, parents, messages))


THOUGHT = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
HIDDEN = {"type": "thinking", "thinking": "", "thinkingSignature": "x", "redacted": True}
MESSAGES = [
    user_message("Look."),
    {"role": "user", "content": "plain"},
    {"role": "user", "content": [IMAGE, {"type": "text", "text": "what?", "textSignature": "s"}]},
    assistant_message(THOUGHT, "I look.", tool_call("c1", path="a", n=1.0), tool_call("c2|fc_+9")),
    assistant_message(tool_call("c1"), "between", tool_call("c3"), HIDDEN),
    assistant_message(stop="aborted"),
    assistant_message({"type": "of the future", "value": [1]}),
    tool_result("c1"),
    tool_result("c2|fc_+9", IMAGE, error=True),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_round_trips(message: dict[str, Any]) -> None:
    assert to_pi_messages(store_and_load(read_tip(linear_session(message)))) == [message]


@given(st.lists(st.sampled_from(MESSAGES)))
def test_conversation_round_trips(messages: list[dict[str, Any]]) -> None:
    assert to_pi_messages(read_tip(linear_session(*messages))) == messages


def test_turn_is_a_step() -> None:
    data = linear_session(
        user_message("a"),
        assistant_message(tool_call("c1")),
        tool_result("c1"),
        assistant_message("b"),
        user_message("c"),
    )
    steps, reading = read_steps(NATIVE, data)
    assert [len(step.entries) for step in steps] == [3, 1, 1]
    assert [step.id for step in steps] == ["1", "2", "3"]
    assert (reading.session_id, reading.folder, reading.title) == ("pi-1", "/w", "a")
    answer = steps[0].entries[1]
    assert answer.source
    assert answer.source["usage"] == {
        "input_tokens": 14,
        "output_tokens": 3,
        "cache_read_tokens": 5,
        "cache_write_tokens": 7,
    }


def test_last_entry_is_the_leaf_and_other_ends_are_branches() -> None:
    data = encode_lines(
        HEAD,
        entry("a", None, user_message("a")),
        entry("b", "a", assistant_message("b")),
        entry("c", "b", user_message("c")),
        entry("d", "c", assistant_message("d")),
        entry("e", "a", assistant_message("e")),
        {"type": "model_change", "id": "m", "parentId": "e", "modelId": "x"},
        entry("f", "m", user_message("f")),
    )
    steps, reading = read_steps(NATIVE, data)
    assert [s for _, s in texts_of_entries(read_context(steps, reading.tips[""]))] == [
        "a",
        "e",
        "f",
    ]
    ((_, branch),) = reading.branches
    assert [s for _, s in texts_of_entries(read_context(steps, branch))] == ["a", "b", "c", "d"]


def test_leaf_in_the_middle_ends_the_context() -> None:
    label = {"type": "label", "id": "l", "parentId": "a", "targetId": "a", "label": "x"}
    data = encode_lines(
        HEAD, entry("a", None, user_message("a")), entry("b", "a", assistant_message("b")), label
    )
    steps, reading = read_steps(NATIVE, data)
    assert texts_of_entries(read_context(steps, reading.tips[""])) == [("user", "a")]
    assert [step for _, step in reading.branches] == [steps[-1].id]


def test_entry_with_an_unknown_parent_starts_a_conversation() -> None:
    data = encode_lines(
        HEAD, entry("a", None, user_message("a")), entry("b", "gone", user_message("b"))
    )
    assert texts_of_entries(read_tip(data)) == [("user", "b")]


def test_compaction_keeps_its_retained_entries() -> None:
    data = encode_lines(
        HEAD,
        entry("a", None, user_message("a")),
        entry("b", "a", assistant_message("b")),
        entry("c", "b", user_message("c")),
        entry("d", "c", assistant_message("d")),
        {"type": "compaction", "id": "k", "parentId": "d", "summary": "S", "firstKeptEntryId": "c"},
        entry("e", "k", user_message("e")),
        {"type": "compaction", "id": "l", "parentId": "e", "summary": "T", "firstKeptEntryId": "d"},
    )
    steps, reading = read_steps(NATIVE, data)
    compactions = [step for step in steps if step.type == "compaction"]
    assert [step.summary for step in compactions] == ["S", "T"]
    assert [text for _, text in texts_of_entries(compactions[0].entries)][1:] == ["c", "d"]
    assert [text for _, text in texts_of_entries(read_context(steps, reading.tips[""]))][1:] == [
        "d",
        "e",
    ]
    assert "<summary>\nT\n</summary>" in str(texts_of_entries(compactions[1].entries)[0][1])


def test_version_1_has_no_ids_and_counts_lines() -> None:
    def bare(message: dict[str, Any]) -> dict[str, Any]:
        return {"type": "message", "message": message}

    head = {name: value for name, value in HEAD.items() if name != "version"}
    compaction = {"type": "compaction", "summary": "S", "firstKeptEntryIndex": 2}
    data = encode_lines(
        head,
        bare(user_message("a")),
        bare(assistant_message("b")),
        b"torn{",
        compaction,
        bare(user_message("c")),
    )
    assert [text for _, text in texts_of_entries(read_tip(data))][1:] == ["b", "c"]


def test_synthetic_user_text_of_pi_is_in_the_model_context() -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2}
    truncated = {**ran, "output": "", "cancelled": True, "truncated": True, "fullOutputPath": "/o"}
    data = encode_lines(
        HEAD,
        entry("a", None, ran),
        entry("b", "a", truncated),
        entry("c", "b", {**ran, "excludeFromContext": True}),
        {"type": "custom_message", "id": "d", "parentId": "c", "customType": "x", "content": "hi"},
        {"type": "custom", "id": "e", "parentId": "d", "customType": "x", "data": {}},
        {"type": "branch_summary", "id": "f", "parentId": "e", "fromId": "a", "summary": "S"},
        entry("g", "f", {"role": "hookMessage", "customType": "y", "content": []}),
    )
    entries = read_tip(data)
    texts = [text for _, text in texts_of_entries(entries)]
    assert texts[0] == "Ran `ls`\n```\na\n```\n\nCommand exited with code 2"
    assert texts[1] == (
        "Ran `ls`\n(no output)\n\n(command cancelled)\n\n[Output truncated. Full output: /o]"
    )
    assert texts[2] == "hi"
    assert "<summary>\nS</summary>" in str(texts[3])
    assert texts[4:] == [None]
    assert all(entry.source and entry.source["kind"] == "system" for entry in entries)


def test_request_closes_calls_and_omits_interrupted_answers() -> None:
    data = linear_session(
        user_message("a"),
        assistant_message(THOUGHT, "b", tool_call("c1", n=1.0), tool_call("c2|fc_+9")),
        tool_result("c2|fc_+9", IMAGE),
        user_message("c \ud800"),
        assistant_message("half", stop="aborted"),
        assistant_message(HIDDEN),
        assistant_message(tool_call("c3")),
    )
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}

    def call(id_: str, arguments: str) -> dict[str, Any]:
        function = {"name": "read", "arguments": arguments}
        return {"id": id_, "type": "function", "function": function}

    assert build_resume_request(store_and_load(read_tip(data))) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {
            "role": "assistant",
            "content": "hmb",
            "tool_calls": [call("c1", '{"n":1}'), call("c2", "{}")],
        },
        {"role": "tool", "content": "(see attached image)", "tool_call_id": "c2"},
        {"role": "tool", "content": "No result provided", "tool_call_id": "c1"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Attached image(s) from tool result:"}, image],
        },
        {"role": "user", "content": [{"type": "text", "text": "c "}]},
        {"role": "assistant", "content": None, "tool_calls": [call("c3", "{}")]},
        {"role": "tool", "content": "No result provided", "tool_call_id": "c3"},
    ]


def test_conversations_of_other_runtimes_can_be_sent() -> None:
    assert len(build_resume_request(plain_conversation())) == len(plain_conversation())
    assert build_resume_request(odd_conversation())


def test_growing_file_changes_only_its_last_step() -> None:
    document = linear_session(
        *MESSAGES, user_message("x"), assistant_message("y"), user_message("z")
    )
    full, _ = read_steps(NATIVE, document)
    for end in range(document.index(b"\n") + 1, len(document), 7):
        steps, _ = read_steps(NATIVE, document[:end])
        assert steps[:-1] == full[: max(0, len(steps) - 1)]


def test_file_without_a_header_is_no_session() -> None:
    with pytest.raises(FormatError):
        read_steps(NATIVE, encode_lines(entry("a", None, user_message("a"))))


def test_session_is_detected_by_its_header() -> None:
    assert NATIVE.is_session_file("x.jsonl", encode_lines(HEAD))
    assert not NATIVE.is_session_file(
        "x.jsonl", b'{"type":"session_meta","payload":{"id":1,"cwd":""}}'
    )


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_rejected_or_reported(data: bytes) -> None:
    for document in (
        data,
        encode_lines(HEAD, data),
        linear_session(user_message("a")) + data + b"\n",
    ):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(open_source(document), reading))
        except FormatError:
            continue
        store_and_load([entry for step in steps for entry in step.entries])


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ["message", "compaction", "label", "session", "branch_summary"]
                ),
                "id": st.sampled_from(["a", "b", "c", "", None]),
                "parentId": st.sampled_from(["a", "b", "c", "x", None, 5]),
                "message": st.sampled_from([*MESSAGES, {}, [], {"role": "user", "content": 5}]),
                "firstKeptEntryId": st.sampled_from(["a", "b", None]),
                "summary": st.sampled_from(["S", None]),
            }
        )
    )
)
def test_any_tree_is_read(entries: list[dict[str, Any]]) -> None:
    steps, _ = read_steps(NATIVE, encode_lines(HEAD, *entries))
    build_resume_request(store_and_load([entry for step in steps for entry in step.entries]))
