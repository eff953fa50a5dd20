"""Codex sends the declared members of an item again. Observed with 0.169.0."""

from __future__ import annotations

from typing import Any

import pytest

from harken.formats.json_records import Record
from harken.formats.runtimes.codex.protocol import declared_item, is_read

UNDECLARED: Record = {
    "metadata": {"turn_id": "t1"},
    "internal_chat_message_metadata_passthrough": {"turn_id": "t1"},
    "member_of_next_year": 1,
}
ITEMS: list[Record] = [
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A", "annotations": [], "logprobs": []}],
        "phase": "commentary",
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "r"}],
        "encrypted_content": None,
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "status": "completed",
        "namespace": "ns",
        "name": "exec_command",
        "arguments": "{}",
        "call_id": "c1",
    },
    {
        "type": "function_call_output",
        "id": "o1",
        "call_id": "c1",
        "name": "n",
        "namespace": "ns",
        "output": [
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "high"}
        ],
    },
    {"type": "custom_tool_call", "name": "apply_patch", "input": "x", "call_id": "c3"},
    {"type": "custom_tool_call_output", "call_id": "c3", "name": "apply_patch", "output": "done"},
    {"type": "tool_search_call", "call_id": "c5", "execution": "client", "arguments": {"q": 1}},
    {"type": "tool_search_output", "call_id": "c5", "execution": "client", "tools": [{"a": 1}]},
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "tea"}},
    {"type": "web_search_call", "action": {"type": "find_in_page", "url": "u", "pattern": "p"}},
    {"type": "image_generation_call", "id": "ig_1", "revised_prompt": "p", "result": "R"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"},
    {
        "type": "agent_message",
        "author": "a",
        "recipient": "b",
        "content": [{"type": "input_text", "text": "hello"}],
    },
    {"type": "additional_tools", "role": "developer", "tools": [{"name": "x", "more": 1}]},
]


def with_undeclared(item: Record) -> Record:
    """Return an item with undeclared members, also in its blocks and its action."""

    def add(value: Any) -> Any:
        return {**value, **UNDECLARED} if isinstance(value, dict) else value

    inner = {
        name: [add(block) for block in value] if isinstance(value, list) else add(value)
        for name, value in item.items()
        if name in ("content", "summary", "output", "action")
    }
    return {**item, **UNDECLARED, **inner}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item["type"]))
def test_only_declared_members_are_sent_again(item: Record) -> None:
    assert is_read(item)
    assert declared_item(item) == item
    assert declared_item(with_undeclared(item)) == item


def test_optional_member_without_a_value_is_not_sent() -> None:
    item: Record = {"type": "message", "id": None, "role": "user", "content": [], "phase": None}
    assert declared_item(item) == {"type": "message", "role": "user", "content": []}


def test_thought_without_content_is_sent_with_both_members() -> None:
    bare: Record = {"type": "reasoning", "summary": []}
    assert declared_item(bare) == {**bare, "content": None, "encrypted_content": None}
    plain = {**bare, "content": [{"type": "text", "text": "r"}], "encrypted_content": "E"}
    assert declared_item(plain) == {**bare, "encrypted_content": "E"}


def test_compaction_summary_is_sent_as_a_compaction() -> None:
    item = {"type": "compaction_summary", "encrypted_content": "E"}
    assert declared_item(item) == {**item, "type": "compaction"}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "ghost_snapshot", "ghost_commit": {}},
        {"type": "item of next year"},
        {"type": "message", "role": "system", "content": []},
        {"type": "message", "role": "user", "content": "text"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal"}]},
        {"type": "message", "role": "user", "id": 5, "content": []},
        {"type": "function_call", "name": "x", "arguments": {"a": 1}, "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": {"content": "x"}},
    ],
    ids=str,
)
def test_item_that_codex_cannot_read_is_not_sent(item: Record) -> None:
    assert not is_read(item)


@pytest.mark.parametrize(
    ("members", "note"),
    [
        ({"image_url": "https://example.com/a.png"}, "remote image URLs are not supported"),
        ({"image_url": "data:image/png;base64,AA", "detail": "low"}, "detail 'low'"),
    ],
)
def test_image_that_codex_does_not_send_is_replaced_by_a_note(members: Record, note: str) -> None:
    block = {"type": "input_image", **members}
    (sent,) = declared_item({"type": "message", "role": "user", "content": [block]})["content"]
    assert sent["type"] == "input_text"
    assert note in sent["text"]
