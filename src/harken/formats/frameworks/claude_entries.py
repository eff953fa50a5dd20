"""`claude-entries-v1`: entries of a transcript of Claude Code, as its SDK for agents mirrors them.

A line of JSON for each entry, with its members in their order. They are the lines of a transcript
(`claude-code-v1`), but a commit has only some of them, or none with a message.

Source: docs/formats/framework-items.md, "Entries of the Claude Agent SDK".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format
from harken.formats.frameworks.item_lines import encode_item
from harken.formats.frameworks.item_reader import iter_items
from harken.formats.json_records import get_object, get_objects, get_text
from harken.formats.runtimes.claude_code.reader import FORMAT as TRANSCRIPT

NAME = "claude-entries-v1"


def outline_entries(entries: Iterable[Any]) -> list[Message]:
    """Return the messages of entries with their texts and calls only, to summarize and to count."""
    return [
        message
        for entry in entries
        if isinstance(entry, dict) and entry.get("type") in ("user", "assistant")
        for message in _outline_entry(entry)
    ]


def _outline_entry(entry: dict[str, Any]) -> list[Message]:
    content = get_object(entry, "message").get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    by_type: dict[str, list[dict[str, Any]]] = {}
    for block in get_objects({"blocks": blocks}, "blocks"):
        by_type.setdefault(get_text(block, "type"), []).append(block)
    text = "\n".join(get_text(block, "text") for block in by_type.get("text", ()))
    if entry["type"] == "assistant":
        calls = [
            ToolCall(
                get_text(block, "id"),
                FunctionCall(
                    get_text(block, "name"),
                    encode_item(block.get("input")).decode("utf-8", "replace"),
                ),
            )
            for block in by_type.get("tool_use", ())
        ]
        return [Message("assistant", text or None, calls or None)]
    results = [Message("tool", "") for _ in by_type.get("tool_result", ())]
    is_prompt = entry.get("isMeta") is not True
    return [*results, *([Message("user", text)] if text and is_prompt else [])]


def _read(data: bytes) -> list[ConversationEntry]:
    try:
        assert TRANSCRIPT.reads is not None
        return TRANSCRIPT.reads(data)
    except FormatError:
        for _ in iter_items(NAME, data):
            pass
        return []  # Modes, titles and snapshots of files only.


FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=_read,
    writes=TRANSCRIPT.writes,
    joins=b"".join,
)
