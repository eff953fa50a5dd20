"""Conversion between items of OpenAI's Responses protocol and entries.

An entry carries an item like any message; remaining data (ids, encrypted reasoning, phases, unknown
members) is stored beside it and merged back. So `items_of([entry_of(item)]) == [item]`, and a
message of another format becomes an item with default members.

The remaining data is stored below `codex`: in the `meta` of each part and call of an answer, and in
the `source` of the entry for other roles, whose messages are one item each.

Source: docs/formats/codex.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard

import msgspec

from harken.core import canonical
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    parts_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, as_objects, extra_members, get_objects, get_text
from harken.formats.tool_calls import build_assistant_message, iter_items, normalize_content

METADATA_KEY = "codex"
CALL_TYPES = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}
)
DEFAULT_OUTPUT_TYPE = "function_call_output"
OUTPUT_TYPES = frozenset({DEFAULT_OUTPUT_TYPE, "custom_tool_call_output", "tool_search_output"})
HOSTED_TYPES = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary"}
    | {"context_compaction", "agent_message"}
)
"""Items of actions that the provider performed or hides: stored verbatim as parts of an assistant
message."""
ITEM_TYPES = CALL_TYPES | OUTPUT_TYPES | HOSTED_TYPES | {"message", "reasoning"}
OCCURRENCE_MEMBERS = frozenset({"id", "call_id", "status", "encrypted_content", "phase"})
"""Members of items that vary between occurrences of the same content."""
_ERROR_PREFIX = "[error]: "
_TEXT_BLOCK_NAMES = ("type", "text")


def is_answer(item: Record) -> bool:
    """Whether the model produced an item: all but results, and messages of other roles."""
    return get_text(item, "type") not in OUTPUT_TYPES and not (
        _is_message(item) and item.get("role") != "assistant"
    )


def get_call_id(item: Record) -> str | None:
    """Return the id of a call. Return None if the item is no call."""
    if get_text(item, "type") not in CALL_TYPES:
        return None
    return get_text(item, "call_id") or get_text(item, "id")


def parse_input_item(item: Record, time: str | None) -> ConversationEntry:
    """Return the entry of a result, or of a message of another role than the model."""
    if get_text(item, "type") in OUTPUT_TYPES:
        message = _parse_result(item)
    else:
        content = normalize_content(_parse_parts(item.get("content")))
        is_user = get_text(item, "role") not in ("developer", "system")
        message = Message("user" if is_user else "system", content)
    kind = get_text(item, "type")
    remaining = extra_members(item, _build_item(message, kind))
    if kind in OUTPUT_TYPES and kind != DEFAULT_OUTPUT_TYPE:
        remaining["type"] = kind
    return ConversationEntry(message, time, {METADATA_KEY: remaining} if remaining else None)


def build_answer_message(answer: Sequence[Record]) -> Message:
    """Return the assistant message of all items of an answer, in order."""
    return build_assistant_message([part for item in answer for part in _item_parts(item)])


def build_items(entries: Iterable[ConversationEntry]) -> list[Record]:
    """Return the items that Codex stores for entries, also of entries from other formats.

    Thinking of other formats is left out, because a provider refuses thinking that it has not
    signed.
    """
    items: list[Record] = []
    for entry in entries:
        if entry.message.role == "assistant":
            items += _iter_answer_items(entry.message)
        elif not is_instructions(entry):
            metadata = _metadata(entry.source)
            items.append({**_build_item(entry.message, get_text(metadata, "type")), **metadata})
    return items


def build_instructions_entry(text: str, time: str | None) -> ConversationEntry:
    """Return the entry of a client's instructions for the model.

    They are no item, but part of the context.
    """
    return ConversationEntry(Message("system", text), time, {METADATA_KEY: {"is": "instructions"}})


def is_instructions(entry: ConversationEntry) -> bool:
    """Whether an entry was created by `instructions`."""
    return _metadata(entry.source).get("is") == "instructions"


def _is_message(item: Record) -> bool:
    return get_text({"type": "message", **item}, "type") == "message"


def _metadata(meta: object) -> Record:
    metadata = meta.get(METADATA_KEY) if isinstance(meta, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def keep_structure(meta: object) -> dict[str, Any] | None:
    """Return the members of a `meta` for the structure of items and blocks."""
    metadata = _metadata(meta)
    kept: Record = {name: metadata[name] for name in ("is", "more") if name in metadata}
    kind = get_text(_item_members(metadata), "type")
    if kind:
        kept["item"] = {"type": kind}
    return {METADATA_KEY: kept} if kept else None


def _parse_result(item: Record) -> Message:
    id_ = get_text(item, "call_id")
    if item["type"] == "tool_search_output":
        tools = UnknownPart(item["type"], canonical.to_json_line(item.get("tools")).decode())
        return Message("tool", [tools], tool_call_id=id_)
    output = item.get("output")
    if isinstance(output, dict):  # The first versions wrote an object.
        is_error = output.get("success") is False
        return Message("tool", get_text(output, "content"), tool_call_id=id_, is_error=is_error)
    return Message("tool", normalize_content(_parse_parts(output)), tool_call_id=id_)


def _build_item(message: Message, kind: str) -> Record:
    """Return the item of a message of another role than the model.

    `kind` selects the output type.
    """
    if message.role == "tool":
        return _build_output(message, kind if kind in OUTPUT_TYPES else DEFAULT_OUTPUT_TYPE)
    role = "developer" if message.role == "system" else "user"
    return {"type": "message", "role": role, "content": _build_blocks(message, "input_text")}


def _build_output(message: Message, kind: str) -> Record:
    item: Record = {"type": kind, "call_id": message.tool_call_id or ""}
    if kind == "tool_search_output":
        tools = next(
            (p.data for p in parts_of(message.content) if isinstance(p, UnknownPart)), "[]"
        )
        return {**item, "tools": _parse_json(tools)}
    blocks = _build_blocks(message, "input_text")
    is_text = all(
        block.get("type") == "input_text" and len(block) == len(_TEXT_BLOCK_NAMES)
        for block in blocks
    )
    output = "\n\n".join(block["text"] for block in blocks) if is_text else blocks
    if message.is_error and isinstance(output, str) and not output.lower().startswith("err"):
        output = _ERROR_PREFIX + output
    return {**item, "output": output}


def _parse_parts(content: object) -> list[Part]:
    """Return the parts of a content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_parse_part(block) for block in as_objects(content)]


def _parse_part(block: Record) -> Part:
    part: Part
    match block:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            part = TextPart(text)
        case {"type": "input_image", "image_url": str(url)}:
            head, comma, data = url.partition(";base64,")
            is_inline = bool(comma) and head.startswith("data:")
            part = ImagePart(head[len("data:") :], data) if is_inline else ImagePart(url=url)
        case _:
            data = canonical.to_json_line(block).decode()
            return UnknownPart(get_text(block, "type"), data, {METADATA_KEY: {"is": "block"}})
    remaining = extra_members(block, _block(part, str(block["type"])))
    return (
        msgspec.structs.replace(part, meta={METADATA_KEY: {"block": remaining}})
        if remaining
        else part
    )


def _build_blocks(message: Message, kind: str) -> list[Record]:
    return [block for part in parts_of(message.content) for block in _iter_blocks(part, kind)]


def _iter_blocks(part: Part, kind: str) -> Iterator[Record]:
    if isinstance(part, UnknownPart):
        block = _parse_json(part.data) if _metadata(part.meta).get("is") == "block" else None
        if isinstance(block, dict):
            yield block
        elif kind == "input_text":
            note = f"[a block of the kind {part.kind!a} that cannot be shown]"
            yield {"type": kind, "text": note}
    elif not isinstance(part, ThinkingPart):
        remaining = _metadata(part.meta).get("block")
        yield {**_block(part, kind), **(remaining if isinstance(remaining, dict) else {})}


def _block(part: Part, kind: str) -> Record:
    if isinstance(part, ImagePart):
        inline = f"data:{part.media_type};base64,{part.data}"
        return {"type": "input_image", "image_url": part.url if part.data is None else inline}
    return {"type": kind, "text": part.text if isinstance(part, TextPart) else ""}


def _parse_json(data: str) -> Any:
    try:
        return canonical.from_json(data.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _item_parts(item: Record) -> list[Part | ToolCall]:
    """Return the parts and calls of one item.

    The first one stores the members that they do not carry.
    """
    kind = get_text(item, "type")
    if kind in CALL_TYPES:
        return [_parse_call(item, kind)]
    if kind == "reasoning":
        thinking = ThinkingPart(_reasoning_text(item))
        remaining = extra_members(item, _build_reasoning(thinking))
        return [_with_metadata(thinking, {"is": "item", "item": remaining})]
    if not _is_message(item):
        remaining = {"id": item["id"]} if isinstance(item.get("id"), str) else {}
        members = {name: value for name, value in item.items() if name not in remaining}
        data = canonical.to_canonical_bytes(members).decode()
        return [_with_metadata(UnknownPart(kind, data), {"is": "item", "item": remaining})]
    parts = _parse_parts(item.get("content")) or [TextPart("")]
    blocks = [block for part in parts for block in _iter_blocks(part, "output_text")]
    first, *other_parts = parts
    remaining = extra_members(item, _build_message(blocks))
    return [
        _with_metadata(first, {"item": remaining}),
        *(_with_metadata(part, {"more": True}) for part in other_parts),
    ]


def _with_metadata(part: Part, metadata: Record) -> Part:
    """Return a part with added metadata, unless the metadata is empty."""
    metadata = {
        **_metadata(part.meta),
        **{name: value for name, value in metadata.items() if value},
    }
    return msgspec.structs.replace(part, meta={METADATA_KEY: metadata}) if metadata else part


def _build_message(blocks: list[Record]) -> Record:
    return {"type": "message", "role": "assistant", "content": blocks}


def _reasoning_text(item: Record) -> str:
    blocks = get_objects(item, "summary") or get_objects(item, "content")
    return "\n\n".join(get_text(block, "text") for block in blocks)


def _build_reasoning(part: ThinkingPart) -> Record:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": summary}


def _parse_call(item: Record, kind: str) -> ToolCall:
    is_custom = kind == "custom_tool_call"
    raw = item.get("input" if is_custom else _arguments_name(kind))
    arguments = raw if isinstance(raw, str) else canonical.to_json_line(raw or {}).decode()
    name = get_text(item, "name") or kind.removesuffix("_call")
    call = ToolCall(
        get_call_id(item) or "",
        FunctionCall(name, arguments),
        "custom" if is_custom else "function",
    )
    remaining = extra_members(item, _build_call_item(call, kind))
    if kind not in ("function_call", "custom_tool_call"):
        remaining["type"] = kind
    return (
        msgspec.structs.replace(call, meta={METADATA_KEY: {"item": remaining}})
        if remaining
        else call
    )


def _arguments_name(kind: str) -> str:
    return "action" if kind == "local_shell_call" else "arguments"


def _build_call_item(call: ToolCall, kind: str) -> Record:
    arguments, name = call.function.arguments, call.function.name
    item: Record = {"type": kind, "call_id": call.id}
    if kind == "custom_tool_call":
        return {**item, "name": name, "input": arguments}
    if kind == "function_call":
        return {**item, "name": name, "arguments": arguments}
    return {**item, _arguments_name(kind): _parse_json(arguments)}


def _iter_answer_items(message: Message) -> Iterator[Record]:
    """Yield the items of an answer. Parts that came from one message form one message again."""
    open_message: Record | None = None
    has_own_content = False
    for part in iter_items(message):
        metadata = _metadata(part.meta)
        if not _is_in_message(part, metadata):
            if open_message is not None:
                yield open_message
            open_message = None
            yield from _iter_lone_items(part, metadata)
        elif open_message is not None and metadata.get("more"):
            if not has_own_content:
                blocks = _iter_blocks(part, "output_text")
                open_message["content"] = [*open_message["content"], *blocks]
        else:
            if open_message is not None:
                yield open_message
            members = _item_members(metadata)
            has_own_content = "content" in members
            blocks = _iter_blocks(part, "output_text")
            open_message = {**_build_message([*blocks]), **members}
    if open_message is not None:
        yield open_message


def _is_in_message(part: Part | ToolCall, metadata: Record) -> TypeGuard[Part]:
    if isinstance(part, UnknownPart):
        return metadata.get("is") == "block"
    return isinstance(part, TextPart | ImagePart)


def _item_members(metadata: Record) -> Record:
    members = metadata.get("item")
    return members if isinstance(members, dict) else {}


def _iter_lone_items(part: Part | ToolCall, metadata: Record) -> Iterator[Record]:
    """Yield the item of a part outside of messages, or no item if Codex could not send it."""
    members = _item_members(metadata)
    match part:
        case ToolCall(type=type_):
            default_type = "custom_tool_call" if type_ == "custom" else "function_call"
            yield {**_build_call_item(part, get_text(members, "type") or default_type), **members}
        case ThinkingPart() if metadata.get("is") == "item":
            yield {**_build_reasoning(part), **members}
        case UnknownPart(data=data) if metadata.get("is") == "item":
            value = _parse_json(data)
            if isinstance(value, dict):
                yield {**value, **members}
