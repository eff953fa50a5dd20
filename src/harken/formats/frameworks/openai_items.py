"""`openai-items-v1`: the input items of OpenAI's Responses API, as sessions of its SDK keep them.

A line of JSON for each item, with its members in their order. An item is one message. Files are
joined by concatenation, and each item is read back as an equal JSON value.

Source: docs/formats/openai-items.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.base import ConversationEntry, Format
from harken.formats.client_messages import messages_in, messages_out, read_shape
from harken.formats.frameworks.item_lines import encode_item, join_lines
from harken.formats.frameworks.item_reader import make_reader
from harken.formats.json_records import get_objects, get_text
from harken.formats.providers.openai_responses import build_items

NAME = "openai-items-v1"
_SHAPE = "openai-responses"


def outline_items(items: Iterable[Any]) -> list[Message]:
    """Return the messages of items with their texts and calls only, to summarize and to count them.

    It takes a small part of the time of reading all content of the items.

    >>> items = [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]
    >>> outline_items(items)[0].content
    'Hi'
    """
    return [_outline_item(item if isinstance(item, dict) else {}) for item in items]


def _outline_item(item: dict[str, Any]) -> Message:
    role, text = get_text(item, "role"), _find_text(item.get("content"))
    if role == "user":
        return Message("user", text)
    if role in ("system", "developer"):
        return Message("system", text)
    if "output" in item:
        return Message("tool", _find_text(item["output"]))
    if "arguments" in item or "input" in item:
        arguments = get_text(item, "arguments") or get_text(item, "input")
        call = ToolCall(get_text(item, "call_id"), FunctionCall(get_text(item, "name"), arguments))
        return Message("assistant", text or None, [call])
    return Message("assistant", text)


def _find_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        get_text(block, "text") for block in get_objects({"content": content}, "content")
    )


def _read_item(item: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message) for message in messages_in(item, shape=_SHAPE)]


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    return join_lines(encode_item(item) for entry in entries for item in _iter_items(entry))


def _iter_items(entry: ConversationEntry) -> list[Any]:
    """Return the items of an entry: those that it was read from, or those that an answer needs."""
    if read_shape(entry.message) == _SHAPE:
        return messages_out([entry.message], _SHAPE)
    return build_items([entry])


FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=make_reader(NAME, _read_item),
    writes=_write,
    joins=b"".join,
)
