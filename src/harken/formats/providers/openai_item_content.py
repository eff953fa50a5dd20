"""The content of items of OpenAI's Responses protocol, without the data of an occurrence.

Two items with equal content are the same message, whatever their ids. A member that is not named
here is content.

Source: docs/formats/wire.md, "openai-responses"; docs/formats/codex.md, "Native data".
"""

from __future__ import annotations

from typing import Any

from harken.formats.json_records import Record, get_text

CALL_TYPES = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}
)
DEFAULT_OUTPUT_TYPE = "function_call_output"
OUTPUT_TYPES = frozenset({DEFAULT_OUTPUT_TYPE, "custom_tool_call_output", "tool_search_output"})
_CONTENT_TYPES = CALL_TYPES | OUTPUT_TYPES | {"message", "reasoning"}
"""The types of items that are messages, thinking, calls and results."""
ITEM_REFERENCE = "item_reference"
"""The type of an item whose content is the id of another item."""
_BOOKKEEPING_MEMBERS = frozenset({"id", "internal_chat_message_metadata_passthrough"})
"""Members of items of any type. Codex copies its own turn ids and times into the second one:
`InternalChatMessageMetadataPassthrough` in `codex-rs/protocol/src/models.rs`."""
OCCURRENCE_MEMBERS = _BOOKKEEPING_MEMBERS | {"call_id", "status", "encrypted_content", "phase"}
"""Members of messages, thinking, calls and results that vary between occurrences."""
_METADATA, _TURN_ID = "metadata", "turn_id"
"""The name of the passthrough member before Codex 0.142, and its only known member."""
_EMPTY: tuple[Any, ...] = (None, [])


def normalize_item(item: Record) -> Record:
    """Return an item with all texts as blocks, without its id, its status and empty members.

    The id of an item that nothing else distinguishes stays.
    """
    members = {name: inner for name, inner in item.items() if inner not in _EMPTY}
    members.pop("status", None)
    if members.get("type") != ITEM_REFERENCE and (
        get_text(members, "call_id") or "role" in members or _has_reasoning(members)
    ):
        members.pop("id", None)
    if "role" in members:
        members.setdefault("type", "message")
    block = "output_text" if members.get("role") == "assistant" else "input_text"
    for name in ("content", "output"):
        if isinstance(members.get(name), str):
            members[name] = [{"type": block, "text": members[name]}]
        elif isinstance(members.get(name), list):
            members[name] = [*map(without_empty, members[name])]
    return members


def _has_reasoning(item: Record) -> bool:
    return get_text(item, "type") == "reasoning" and len(item) > len(("type", "id"))


def without_empty(block: Any) -> Any:
    """Return a block without empty members, such as annotations and logprobs."""
    if not isinstance(block, dict):
        return block
    return {name: inner for name, inner in block.items() if inner not in _EMPTY}


def item_content(item: Record) -> Record:
    """Return a normalized item without ids, encrypted thinking and the client's own data."""
    members = normalize_item(item)
    if get_text(members, "type") not in _CONTENT_TYPES:
        return verbatim_content(members)  # The item is stored as its JSON text.
    members = _without_turn_id(
        {name: inner for name, inner in members.items() if name not in OCCURRENCE_MEMBERS}
    )
    if members.get("role") == "system":
        members["role"] = "developer"
    return members


def verbatim_content(item: Record) -> Record:
    """Return the members of an item of another type, without its id and the client's own data."""
    if get_text(item, "type") == ITEM_REFERENCE:
        return item
    return _without_turn_id(
        {name: inner for name, inner in item.items() if name not in _BOOKKEEPING_MEMBERS}
    )


def _without_turn_id(members: Record) -> Record:
    metadata = members.get(_METADATA)
    if not isinstance(metadata, dict) or _TURN_ID not in metadata:
        return members
    others = {name: inner for name, inner in metadata.items() if name != _TURN_ID}
    remaining = {name: inner for name, inner in members.items() if name != _METADATA}
    return {**remaining, _METADATA: others} if others else remaining
