"""Sessions of Pi."""

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
from tests.unit.formats.natives import HOSTILE, context, lines, read, said, source_of, stored

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


def asked(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}], "timestamp": 5}


def answered(*blocks: dict[str, Any] | str, stop: str = "stop") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "m",
        "usage": USAGE,
        "stopReason": stop,
    }


def called(id_: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id_, "name": "read", "arguments": arguments}


def resulted(id_: str, *blocks: dict[str, Any], error: bool = False) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": id_,
        "toolName": "read",
        "content": list(blocks) or [{"type": "text", "text": "ok"}],
        "isError": error,
    }


def tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read(NATIVE, data)
    return context(steps, reading.tips.get(""))


def linear(*messages: dict[str, Any]) -> bytes:
    ids = [f"e{at}" for at in range(len(messages))]
    parents = [None, *ids]
    return lines(HEAD, *map(entry, ids, parents, messages))


THOUGHT = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
HIDDEN = {"type": "thinking", "thinking": "", "thinkingSignature": "x", "redacted": True}
MESSAGES = [
    asked("Look."),
    {"role": "user", "content": "plain"},
    {"role": "user", "content": [IMAGE, {"type": "text", "text": "what?", "textSignature": "s"}]},
    answered(THOUGHT, "I look.", called("c1", path="a", n=1.0), called("c2|fc_+9")),
    answered(called("c1"), "between", called("c3"), HIDDEN),
    answered(stop="aborted"),
    answered({"type": "of the future", "value": [1]}),
    resulted("c1"),
    resulted("c2|fc_+9", IMAGE, error=True),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    assert to_pi_messages(stored(tip(linear(message)))) == [message]


@given(st.lists(st.sampled_from(MESSAGES)))
def test_a_conversation_comes_back_as_it_was(messages: list[dict[str, Any]]) -> None:
    assert to_pi_messages(tip(linear(*messages))) == messages


def test_a_round_is_a_step() -> None:
    data = linear(asked("a"), answered(called("c1")), resulted("c1"), answered("b"), asked("c"))
    steps, reading = read(NATIVE, data)
    assert [len(step.entries) for step in steps] == [3, 1, 1]
    assert [step.id for step in steps] == ["e0", "e3", "e4"]
    assert (reading.session_id, reading.folder, reading.title) == ("pi-1", "/w", "a")
    answer = steps[0].entries[1]
    assert answer.source
    assert answer.source["usage"] == {
        "input_tokens": 14,
        "output_tokens": 3,
        "cache_read_tokens": 5,
        "cache_write_tokens": 7,
    }


def test_the_last_entry_is_the_leaf_and_the_other_ends_are_branches() -> None:
    data = lines(
        HEAD,
        entry("a", None, asked("a")),
        entry("b", "a", answered("b")),
        entry("c", "b", asked("c")),
        entry("d", "c", answered("d")),
        entry("e", "a", answered("e")),
        {"type": "model_change", "id": "m", "parentId": "e", "modelId": "x"},
        entry("f", "m", asked("f")),
    )
    steps, reading = read(NATIVE, data)
    assert [s for _, s in said(context(steps, reading.tips[""]))] == ["a", "e", "f"]
    ((_, branch),) = reading.branches
    assert [s for _, s in said(context(steps, branch))] == ["a", "b", "c", "d"]


def test_a_leaf_in_the_middle_is_read_to_there_and_no_further() -> None:
    label = {"type": "label", "id": "l", "parentId": "a", "targetId": "a", "label": "x"}
    data = lines(HEAD, entry("a", None, asked("a")), entry("b", "a", answered("b")), label)
    steps, reading = read(NATIVE, data)
    assert said(context(steps, reading.tips[""])) == [("user", "a")]
    assert [step for _, step in reading.branches] == ["b"]


def test_who_names_an_unknown_parent_begins_anew() -> None:
    data = lines(HEAD, entry("a", None, asked("a")), entry("b", "gone", asked("b")))
    assert said(tip(data)) == [("user", "b")]


def test_a_compaction_keeps_what_it_says() -> None:
    data = lines(
        HEAD,
        entry("a", None, asked("a")),
        entry("b", "a", answered("b")),
        entry("c", "b", asked("c")),
        entry("d", "c", answered("d")),
        {"type": "compaction", "id": "k", "parentId": "d", "summary": "S", "firstKeptEntryId": "c"},
        entry("e", "k", asked("e")),
        {"type": "compaction", "id": "l", "parentId": "e", "summary": "T", "firstKeptEntryId": "d"},
    )
    steps, reading = read(NATIVE, data)
    compactions = [step for step in steps if step.type == "compaction"]
    assert [step.summary for step in compactions] == ["S", "T"]
    assert [text for _, text in said(compactions[0].entries)][1:] == ["c", "d"]
    assert [text for _, text in said(context(steps, reading.tips[""]))][1:] == ["d", "e"]
    assert "<summary>\nT\n</summary>" in str(said(compactions[1].entries)[0][1])


def test_version_1_has_no_ids_and_counts_lines() -> None:
    def bare(message: dict[str, Any]) -> dict[str, Any]:
        return {"type": "message", "message": message}

    head = {name: value for name, value in HEAD.items() if name != "version"}
    compaction = {"type": "compaction", "summary": "S", "firstKeptEntryIndex": 2}
    data = lines(
        head, bare(asked("a")), bare(answered("b")), b"torn{", compaction, bare(asked("c"))
    )
    assert [text for _, text in said(tip(data))][1:] == ["b", "c"]


def test_what_pi_says_in_the_name_of_the_user_is_what_the_model_reads() -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2}
    cut = {**ran, "output": "", "cancelled": True, "truncated": True, "fullOutputPath": "/o"}
    data = lines(
        HEAD,
        entry("a", None, ran),
        entry("b", "a", cut),
        entry("c", "b", {**ran, "excludeFromContext": True}),
        {"type": "custom_message", "id": "d", "parentId": "c", "customType": "x", "content": "hi"},
        {"type": "custom", "id": "e", "parentId": "d", "customType": "x", "data": {}},
        {"type": "branch_summary", "id": "f", "parentId": "e", "fromId": "a", "summary": "S"},
        entry("g", "f", {"role": "hookMessage", "customType": "y", "content": []}),
    )
    entries = tip(data)
    texts = [text for _, text in said(entries)]
    assert texts[0] == "Ran `ls`\n```\na\n```\n\nCommand exited with code 2"
    assert texts[1] == (
        "Ran `ls`\n(no output)\n\n(command cancelled)\n\n[Output truncated. Full output: /o]"
    )
    assert texts[2] == "hi"
    assert "<summary>\nS</summary>" in str(texts[3])
    assert texts[4:] == [None]
    assert all(entry.source and entry.source["kind"] == "system" for entry in entries)


def test_what_is_sent_is_closed_and_says_no_answer_that_broke_off() -> None:
    data = linear(
        asked("a"),
        answered(THOUGHT, "b", called("c1", n=1.0), called("c2|fc_+9")),
        resulted("c2|fc_+9", IMAGE),
        asked("c \ud800"),
        answered("half", stop="aborted"),
        answered(HIDDEN),
        answered(called("c3")),
    )
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}

    def call(id_: str, arguments: str) -> dict[str, Any]:
        function = {"name": "read", "arguments": arguments}
        return {"id": id_, "type": "function", "function": function}

    assert build_resume_request(stored(tip(data))) == [
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


def test_conversations_of_others_can_be_sent() -> None:
    assert len(build_resume_request(plain_conversation())) == len(plain_conversation())
    assert build_resume_request(odd_conversation())


def test_a_growing_file_changes_only_its_last_step() -> None:
    whole = linear(*MESSAGES, asked("x"), answered("y"), asked("z"))
    full, _ = read(NATIVE, whole)
    for end in range(whole.index(b"\n") + 1, len(whole), 7):
        steps, _ = read(NATIVE, whole[:end])
        assert steps[:-1] == full[: max(0, len(steps) - 1)]


def test_a_file_without_a_header_is_none() -> None:
    with pytest.raises(FormatError):
        read(NATIVE, lines(entry("a", None, asked("a"))))


def test_it_is_known_by_its_header() -> None:
    assert NATIVE.is_session_file("x.jsonl", lines(HEAD))
    assert not NATIVE.is_session_file(
        "x.jsonl", b'{"type":"session_meta","payload":{"id":1,"cwd":""}}'
    )


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_refused_or_reported(data: bytes) -> None:
    for whole in (data, lines(HEAD, data), linear(asked("a")) + data + b"\n"):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(source_of(whole), reading))
        except FormatError:
            continue
        stored([entry for step in steps for entry in step.entries])


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
    steps, _ = read(NATIVE, lines(HEAD, *entries))
    build_resume_request(stored([entry for step in steps for entry in step.entries]))
