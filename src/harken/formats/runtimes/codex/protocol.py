"""The members of the items of the Responses protocol that Codex declares.

Codex reads the items of a rollout into its own types, and sends what these types declare: members
of later versions, of OpenAI's service, and of other programs are ignored when it reads. An optional
member without a value is not sent. So an item is sent again as the declared members of its type.

Source: `codex-rs/protocol/src/models.rs` (`ResponseItem`, `ContentItem`), and the requests of
0.169.0 for rollouts with undeclared members in every item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.formats.json_records import Record, get_text

_ITEMS: Mapping[str, tuple[str, ...]] = {
    "message": ("id", "status", "role", "content", "phase"),
    "reasoning": ("id", "summary", "content", "encrypted_content"),
    "function_call": ("id", "status", "namespace", "name", "arguments", "call_id"),
    "function_call_output": ("id", "call_id", "namespace", "name", "output"),
    "custom_tool_call": ("id", "status", "namespace", "name", "input", "call_id"),
    "custom_tool_call_output": ("id", "call_id", "name", "output"),
    "local_shell_call": ("id", "call_id", "status", "action"),
    "tool_search_call": ("id", "call_id", "status", "execution", "arguments"),
    "tool_search_output": ("id", "call_id", "status", "execution", "tools"),
    "web_search_call": ("id", "status", "action"),
    "image_generation_call": ("id", "status", "revised_prompt", "result"),
    "compaction": ("id", "encrypted_content"),
    "context_compaction": ("id", "encrypted_content"),
    "agent_message": ("id", "author", "recipient", "content"),
    "additional_tools": ("id", "role", "tools"),
}
"""The declared members by the type of item. Items of other types are ignored."""
_ALIASES = {"compaction_summary": "compaction"}
"""Types of items that are sent under another type."""
_PARTS: Mapping[str, tuple[str, ...]] = {
    "input_text": ("text",),
    "input_image": ("image_url", "detail"),
    "input_audio": ("input_audio", "audio_url"),
    "output_text": ("text", "annotations", "logprobs"),
    "encrypted_content": ("encrypted_content",),
    "summary_text": ("text",),
    "reasoning_text": ("text",),
    "text": ("text",),
    "exec": ("command", "timeout_ms", "working_directory", "env", "user"),
    "search": ("query", "queries"),
    "open_page": ("url",),
    "find_in_page": ("url", "pattern"),
}
"""The declared members of the blocks and actions of items. Other actions have only a type."""
_BLOCK_TYPES = frozenset({"input_text", "input_image", "input_audio", "output_text"})
"""The types of blocks of a message."""
_TEXT_MEMBERS = ("id", "status", "role", "phase", "namespace", "name", "call_id")
_LOW_DETAIL = (
    "image content omitted because detail 'low' is not supported; use 'high', 'original', or 'auto'"
)
_REMOTE_IMAGE = "image content omitted because remote image URLs are not supported"


def is_read(item: Record) -> bool:
    """Whether Codex reads an item: it knows the type and the types of the required members."""
    kind = _ALIASES.get(get_text(item, "type"), get_text(item, "type"))
    if any(not isinstance(item.get(name, ""), str | None) for name in _TEXT_MEMBERS):
        return False
    if kind == "message":
        return item.get("role") != "system" and _is_message(item.get("content"))
    if kind == "function_call":
        return isinstance(item.get("arguments"), str)
    if kind in ("function_call_output", "custom_tool_call_output"):
        return not isinstance(item.get("output"), Mapping)
    return kind in _ITEMS


def _is_message(content: object) -> bool:
    if not isinstance(content, Sequence) or isinstance(content, str):
        return False
    kinds = {block.get("type") if isinstance(block, dict) else None for block in content}
    return kinds <= _BLOCK_TYPES


def declared_item(item: Record) -> Record:
    """Return an item that Codex reads as it sends it again."""
    kind = _ALIASES.get(get_text(item, "type"), get_text(item, "type"))
    names = ("type", *_ITEMS.get(kind, ()))
    sent = {name: _declared_value(item[name], name) for name in names if name in item}
    sent["type"] = kind
    if kind == "reasoning":
        return {**_without_empty(sent), **_reasoning_members(sent)}
    return _without_empty(sent)


def _reasoning_members(item: Record) -> Record:
    """Return the members of a thought that are sent without a value.

    Contents without a text of reasoning are not sent at all.
    """
    content, encrypted = item.get("content"), item.get("encrypted_content")
    blocks = content if isinstance(content, list) else []
    has_text = any(get_text(block, "type") == "reasoning_text" for block in blocks)
    members: Record = {"encrypted_content": encrypted}
    return {**members, "content": content} if content is None or has_text else members


def _without_empty(item: Record) -> Record:
    is_thought_content = item.get("type") == "reasoning"
    return {
        name: value
        for name, value in item.items()
        if value is not None and not (is_thought_content and name == "content")
    }


def _declared_value(value: Any, name: str) -> Any:
    """Return the value of a member with the declared members of its blocks or action."""
    if name in ("content", "summary", "output") and isinstance(value, list):
        return [_declared_part(block) if isinstance(block, dict) else block for block in value]
    return _declared_part(value) if name == "action" and isinstance(value, dict) else value


def _declared_part(part: Record) -> Record:
    kind = get_text(part, "type")
    url = part.get("image_url")
    if kind == "input_image" and isinstance(url, str) and not url.startswith("data:"):
        return {"type": "input_text", "text": _REMOTE_IMAGE}
    if kind == "input_image" and part.get("detail") == "low":
        return {"type": "input_text", "text": _LOW_DETAIL}
    names = ("type", *_PARTS.get(kind, ()))
    if kind == "exec":
        return {name: part.get(name) for name in names}
    return {name: part[name] for name in names if part.get(name) is not None}
