"""Conversion between items of OpenAI's Responses protocol and entries.

An entry carries an item like any message. Content that no field carries, also of unknown members,
is in the `extra` of its part: that of a block as members, that of the item below `message` in its
first part. It is found by comparison with the item that would be built, so none is lost. All other
data (ids, encrypted reasoning, phases) is stored beside it and merged back. So
`build_items([entry]) == [item]`, and a message of another format becomes an item with default
members.

The other data is stored below `codex`: in the `meta` of each part and call of an answer, and in
the `source` of the entry for other roles, whose messages are one item each.

Source: docs/formats/codex.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard, TypeVar

from harken.core import canonical, structs
from harken.core.event_types.message_parser import (
    MESSAGE_KEY,
    MESSAGE_KEYS,
    block_members,
    decode_extra,
    encode_extra,
)
from harken.core.messages import (
    ChatMessage,
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
from harken.formats.first_part import add_leftover, take_leftover, with_first_part
from harken.formats.json_records import (
    Record,
    apply_members,
    as_objects,
    changed_members,
    equal_json,
    extra_members,
    get_object,
    get_objects,
    get_text,
)
from harken.formats.providers.openai_item_content import (
    CALL_TYPES,
    DEFAULT_OUTPUT_TYPE,
    OCCURRENCE_MEMBERS,
    OUTPUT_TYPES,
    item_content,
    verbatim_content,
    without_empty,
)
from harken.formats.tool_calls import build_assistant_message, iter_items, normalize_content

METADATA_KEY = "codex"
HOSTED_TYPES = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary"}
    | {"context_compaction", "agent_message"}
)
"""Items of actions that the provider performed or hides: stored verbatim as parts of an assistant
message."""
ITEM_TYPES = CALL_TYPES | OUTPUT_TYPES | HOSTED_TYPES | {"message", "reasoning"}
_ERROR_PREFIX = "[error]: "
_TEXT_BLOCK_NAMES = ("type", "text")
_Item = TypeVar("_Item", bound=Part | ToolCall)


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


def find_item_id(message: ChatMessage) -> str:
    """Return the provider's id of the first item of a message. Empty if it has none."""
    for part in (*parts_of(message.content), *(message.tool_calls or ())):
        metadata = (getattr(part, "meta", None) or {}).get(METADATA_KEY)
        item = metadata.get("item") if isinstance(metadata, dict) else None
        id_ = get_text(item, "id") if isinstance(item, dict) else ""
        if id_:
            return id_
    return ""


def parse_input_item(item: Record, time: str | None) -> ConversationEntry:
    """Return the entry of a result, or of a message of another role than the model."""
    kind = get_text(item, "type")
    message = _parse_input_message(item)
    leftover = _find_leftover(_build_item(message, kind), item)
    if leftover:
        message = with_first_part(message)
        leftover = _find_leftover(_build_item(message, kind), item)
    message = add_leftover(message, {MESSAGE_KEY: leftover}) if leftover else message
    remaining = extra_members(item, apply_members(_build_item(message, kind), leftover))
    if kind in OUTPUT_TYPES and kind != DEFAULT_OUTPUT_TYPE:
        remaining["type"] = kind
    is_own = remaining or any(part.extra for part in parts_of(message.content))
    return ConversationEntry(message, time, {METADATA_KEY: remaining} if is_own else None)


def _parse_input_message(item: Record) -> Message:
    if get_text(item, "type") in OUTPUT_TYPES:
        return _parse_result(item)
    content = normalize_content(_parse_parts(item.get("content"), "input_text"))
    is_user = get_text(item, "role") not in ("developer", "system")
    return Message("user" if is_user else "system", content)


def _find_leftover(built: Record, item: Record) -> Record:
    """Return the content of an item that its built item lacks: all of it, if in doubt."""
    if _is_built(built, item):
        return {}
    content = item_content(item)
    changes = changed_members(item_content(built), content)
    return content if changes is None else changes


def _is_built(built: Record, item: Record) -> bool:
    """Whether an item is its built item and data of its occurrence, as most items are."""
    return built.keys() <= item.keys() and all(
        name in OCCURRENCE_MEMBERS or (name in built and equal_json(built[name], value))
        for name, value in item.items()
    )


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
            message, leftover = take_leftover(entry.message)
            built = _build_item(message, get_text(metadata, "type"))
            members = get_object(leftover, MESSAGE_KEY)
            items.append({**apply_members(built, members), **metadata})
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
    kind = get_text(get_object(metadata, "item"), "type")
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
    parts = _parse_parts(output, "input_text")
    return Message("tool", normalize_content(parts), tool_call_id=id_)


def _build_item(message: ChatMessage, kind: str) -> Record:
    """Return the item of a message of another role than the model.

    `kind` selects the output type.
    """
    if message.role == "tool":
        return _build_output(message, kind if kind in OUTPUT_TYPES else DEFAULT_OUTPUT_TYPE)
    role = "developer" if message.role == "system" else "user"
    return {"type": "message", "role": role, "content": _build_blocks(message, "input_text")}


def _build_output(message: ChatMessage, kind: str) -> Record:
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


def _parse_parts(content: object, kind: str) -> list[Part]:
    """Return the parts of a content, which is a text or a list of blocks.

    kind: the default type of a text block.
    """
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_parse_part(block, kind) for block in as_objects(content)]


def _parse_part(block: Record, kind: str) -> Part:
    part: Part
    match block:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            part = TextPart(text)
        case {"type": "input_image", "image_url": str(url)}:
            head, comma, data = url.partition(";base64,")
            is_inline = bool(comma) and head.startswith("data:")
            part = ImagePart(head[len("data:") :], data) if is_inline else ImagePart(url=url)
        case _:
            return _unknown_block(block)
    stated = without_empty(block)
    changes = changed_members(_block(part, kind), stated)
    if changes is None or not MESSAGE_KEYS.isdisjoint(changes):
        return _unknown_block(block)
    empty = {name: value for name, value in block.items() if name not in stated}
    meta = {METADATA_KEY: {"block": empty}} if empty else None
    return structs.replace(part, meta=meta, extra=encode_extra(changes))


def _unknown_block(block: Record) -> UnknownPart:
    data = canonical.to_json_line(block).decode()
    return UnknownPart(get_text(block, "type"), data, {METADATA_KEY: {"is": "block"}})


def _build_blocks(message: ChatMessage, kind: str) -> list[Record]:
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
        block = apply_members(_block(part, kind), block_members(part.extra))
        yield {**block, **get_object(_metadata(part.meta), "block")}


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
    """Return the parts and calls of one item of an answer.

    The first one stores the members that no part carries.
    """
    kind = get_text(item, "type")
    first, *other_parts = _parse_item(item, kind)
    built = next(_iter_answer_items(build_assistant_message([first, *other_parts])), {})
    leftover = _find_leftover(built, item)
    occurrence = extra_members(item, apply_members(built, leftover))
    if isinstance(first, ToolCall) and kind in ("local_shell_call", "tool_search_call"):
        occurrence["type"] = kind
    if leftover:
        extra: Any = encode_extra({**decode_extra(first.extra), MESSAGE_KEY: leftover})
        first = structs.replace(first, extra=extra)
    return [_with_metadata(first, {"item": occurrence}), *other_parts]


def _parse_item(item: Record, kind: str) -> Sequence[Part | ToolCall]:
    """Return the parts of an item, with metadata of its structure only."""
    if kind in CALL_TYPES:
        return [_parse_call(item, kind)]
    if kind == "reasoning":
        return [ThinkingPart(_reasoning_text(item), {METADATA_KEY: {"is": "item"}})]
    if not _is_message(item):
        return [_parse_verbatim(item, kind)]
    first, *other_parts = _parse_parts(item.get("content"), "output_text") or [TextPart("")]
    return [first, *(_with_metadata(part, {"more": True}) for part in other_parts)]


def _parse_verbatim(item: Record, kind: str) -> UnknownPart:
    content = verbatim_content(item)
    data = canonical.to_canonical_bytes(content).decode()
    metadata = {"is": "item", "item": extra_members(item, content)}
    return _with_metadata(UnknownPart(kind, data), metadata)


def _with_metadata(part: _Item, metadata: Record) -> _Item:
    """Return a part with added metadata, unless the metadata is empty."""
    metadata = {
        **_metadata(part.meta),
        **{name: value for name, value in metadata.items() if value},
    }
    return structs.replace(part, meta={METADATA_KEY: metadata}) if metadata else part


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
    is_usual = kind in ("function_call", "custom_tool_call")
    return call if is_usual else _with_metadata(call, {"item": {"type": kind}})


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
    blocks: list[Record] = []
    first: Part | None = None
    for part in iter_items(message):
        metadata = _metadata(part.meta)
        if _is_in_message(part, metadata):
            if first is not None and not metadata.get("more"):
                yield _restore_item(_build_message(blocks), first)
                first = None
            if first is None:
                first, blocks = part, []
            blocks += _iter_blocks(part, "output_text")
            continue
        if first is not None:
            yield _restore_item(_build_message(blocks), first)
            first = None
        yield from _iter_lone_items(part, metadata)
    if first is not None:
        yield _restore_item(_build_message(blocks), first)


def _restore_item(built: Record, first: Part | ToolCall) -> Record:
    """Return an item with the members that its first part stores."""
    leftover = get_object(decode_extra(first.extra), MESSAGE_KEY)
    return {**apply_members(built, leftover), **get_object(_metadata(first.meta), "item")}


def _is_in_message(part: Part | ToolCall, metadata: Record) -> TypeGuard[Part]:
    if isinstance(part, UnknownPart):
        return metadata.get("is") == "block"
    return isinstance(part, TextPart | ImagePart)


def _iter_lone_items(part: Part | ToolCall, metadata: Record) -> Iterator[Record]:
    """Yield the item of a part outside of messages, or no item if Codex could not send it."""
    match part:
        case ToolCall(type=type_):
            default_type = "custom_tool_call" if type_ == "custom" else "function_call"
            kind = get_text(get_object(metadata, "item"), "type") or default_type
            yield _restore_item(_build_call_item(part, kind), part)
        case ThinkingPart() if metadata.get("is") == "item":
            yield _restore_item(_build_reasoning(part), part)
        case UnknownPart(data=data) if metadata.get("is") == "item":
            value = _parse_json(data)
            if isinstance(value, dict):
                yield _restore_item(value, part)
