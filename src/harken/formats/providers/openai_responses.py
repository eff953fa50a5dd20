"""Items of OpenAI's Responses protocol as entries, and entries as items.

One idea: an entry says an item as any message would be said; what that leaves unsaid (ids,
encrypted reasoning, phases, members that nobody knows yet) is kept beside it, and put back. So
`items_of([entry_of(item)]) == [item]`, and an item of a message from elsewhere is a plain one.

What is kept stands below `codex`: in the `meta` of each part and call of an answer, and in the
`source` of the entry for everybody else, whose messages are one item each.

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
    ToolCallSlot,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_objects, get_text, members_not_in
from harken.formats.tool_calls import content_of, in_order, spoken

OWN = "codex"
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
PLAIN_OUTPUT = "function_call_output"
OUTPUTS = frozenset({PLAIN_OUTPUT, "custom_tool_call_output", "tool_search_output"})
HOSTED = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary"}
    | {"context_compaction", "agent_message"}
)
"""What the provider did itself, or hid: kept verbatim, and said by an assistant."""
ITEMS = CALLS | OUTPUTS | HOSTED | {"message", "reasoning"}
_ERROR = "[error]: "
_TEXT = ("type", "text")


def is_answer(item: Record) -> bool:
    """Whether a model said it: all but results, and messages of others."""
    return get_text(item, "type") not in OUTPUTS and not (
        _is_message(item) and item.get("role") != "assistant"
    )


def call_id(item: Record) -> str | None:
    """Return the id of a call; None: it is none."""
    if get_text(item, "type") not in CALLS:
        return None
    return get_text(item, "call_id") or get_text(item, "id")


def heard(item: Record, time: str | None) -> ConversationEntry:
    """Return the entry of a result, or of a message that no model said."""
    if get_text(item, "type") in OUTPUTS:
        message = _result(item)
    else:
        content = content_of(_parts(item.get("content")))
        is_user = get_text(item, "role") not in ("developer", "system")
        message = Message("user" if is_user else "system", content)
    kind = get_text(item, "type")
    rest = members_not_in(item, _heard_item(message, kind))
    if kind in OUTPUTS and kind != PLAIN_OUTPUT:
        rest["type"] = kind
    return ConversationEntry(message, time, {OWN: rest} if rest else None)


def said(answer: Sequence[Record]) -> Message:
    """Return the message that says all items of an answer, in their order."""
    return spoken([part for item in answer for part in _said(item)])


def items_of(entries: Iterable[ConversationEntry]) -> list[Record]:
    """Return what Codex keeps of entries, also of those that others wrote.

    Of these, thinking is left out: a provider refuses what it has not signed.
    """
    found: list[Record] = []
    for entry in entries:
        if entry.message.role == "assistant":
            found += _answer(entry.message)
        elif not is_instructions(entry):
            rest = _own(entry.source)
            found.append({**_heard_item(entry.message, get_text(rest, "type")), **rest})
    return found


def instructions(told: str, time: str | None) -> ConversationEntry:
    """Return the entry of what a client instructs its model with: no item, but read, too."""
    return ConversationEntry(Message("system", told), time, {OWN: {"is": "instructions"}})


def is_instructions(entry: ConversationEntry) -> bool:
    """Whether an entry is of `instructions`."""
    return _own(entry.source).get("is") == "instructions"


def _is_message(item: Record) -> bool:
    return get_text({"type": "message", **item}, "type") == "message"


def _own(meta: object) -> Record:
    own = meta.get(OWN) if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else {}


def _result(item: Record) -> Message:
    id_ = get_text(item, "call_id")
    if item["type"] == "tool_search_output":
        tools = UnknownPart(item["type"], canonical.to_json_line(item.get("tools")).decode())
        return Message("tool", [tools], tool_call_id=id_)
    output = item.get("output")
    if isinstance(output, dict):  # as the first versions had it
        failed = output.get("success") is False
        return Message("tool", get_text(output, "content"), tool_call_id=id_, is_error=failed)
    return Message("tool", content_of(_parts(output)), tool_call_id=id_)


def _heard_item(message: Message, kind: str) -> Record:
    """Return the item of a message that no model said; `kind` says which, where there are more."""
    if message.role == "tool":
        return _output(message, kind if kind in OUTPUTS else PLAIN_OUTPUT)
    role = "developer" if message.role == "system" else "user"
    return {"type": "message", "role": role, "content": _blocks(message, "input_text")}


def _output(message: Message, kind: str) -> Record:
    item: Record = {"type": kind, "call_id": message.tool_call_id or ""}
    if kind == "tool_search_output":
        tools = next((p.data for p in _kept(message) if isinstance(p, UnknownPart)), "[]")
        return {**item, "tools": _value(tools)}
    blocks = _blocks(message, "input_text")
    is_text = all(
        block.get("type") == "input_text" and len(block) == len(_TEXT) for block in blocks
    )
    output = "\n\n".join(block["text"] for block in blocks) if is_text else blocks
    if message.is_error and isinstance(output, str) and not output.lower().startswith("err"):
        output = _ERROR + output
    return {**item, "output": output}


def _kept(message: Message) -> list[Part]:
    content = message.content
    if isinstance(content, str):
        return [TextPart(content)]
    return [part for part in content or () if not isinstance(part, ToolCallSlot)]


def _parts(content: object) -> list[Part]:
    """Return the parts of a content: a text, or a list of blocks."""
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_part(block) for block in get_objects({"": content}, "")]


def _part(block: Record) -> Part:
    part: Part
    match block:
        case {"type": "input_text" | "output_text" | "text", "text": str(said_)}:
            part = TextPart(said_)
        case {"type": "input_image", "image_url": str(url)}:
            head, comma, data = url.partition(";base64,")
            is_inline = bool(comma) and head.startswith("data:")
            part = ImagePart(head[len("data:") :], data) if is_inline else ImagePart(url=url)
        case _:
            data = canonical.to_json_line(block).decode()
            return UnknownPart(get_text(block, "type"), data, {OWN: {"is": "block"}})
    rest = members_not_in(block, _block(part, str(block["type"])))
    return msgspec.structs.replace(part, meta={OWN: {"block": rest}}) if rest else part


def _blocks(message: Message, kind: str) -> list[Record]:
    return [block for part in _kept(message) for block in _written(part, kind)]


def _written(part: Part, kind: str) -> Iterator[Record]:
    if isinstance(part, UnknownPart):
        block = _value(part.data) if _own(part.meta).get("is") == "block" else None
        if isinstance(block, dict):
            yield block
        elif kind == "input_text":
            note = f"[a block of the kind {part.kind!a} that cannot be shown]"
            yield {"type": kind, "text": note}
    elif not isinstance(part, ThinkingPart):
        rest = _own(part.meta).get("block")
        yield {**_block(part, kind), **(rest if isinstance(rest, dict) else {})}


def _block(part: Part, kind: str) -> Record:
    if isinstance(part, ImagePart):
        inline = f"data:{part.media_type};base64,{part.data}"
        return {"type": "input_image", "image_url": part.url if part.data is None else inline}
    return {"type": kind, "text": part.text if isinstance(part, TextPart) else ""}


def _value(data: str) -> Any:
    try:
        return canonical.from_json(data.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _said(item: Record) -> list[Part | ToolCall]:
    """Return the parts and the call of one item; the first holds what they do not say of it."""
    kind = get_text(item, "type")
    if kind in CALLS:
        return [_call(item, kind)]
    if kind == "reasoning":
        thought = ThinkingPart(_thought(item))
        rest = members_not_in(item, _reasoning(thought))
        return [_with(thought, {"is": "item", "item": rest})]
    if not _is_message(item):
        rest = {"id": item["id"]} if isinstance(item.get("id"), str) else {}
        told = {name: value for name, value in item.items() if name not in rest}
        data = canonical.to_canonical_bytes(told).decode()
        return [_with(UnknownPart(kind, data), {"is": "item", "item": rest})]
    parts = _parts(item.get("content")) or [TextPart("")]
    blocks = [block for part in parts for block in _written(part, "output_text")]
    first, *more = parts
    rest = members_not_in(item, _message(blocks))
    return [_with(first, {"item": rest}), *(_with(part, {"more": True}) for part in more)]


def _with(part: Part, own: Record) -> Part:
    """Return a part with more of its own kept; nothing is kept where there is nothing to keep."""
    own = {**_own(part.meta), **{name: value for name, value in own.items() if value}}
    return msgspec.structs.replace(part, meta={OWN: own}) if own else part


def _message(blocks: list[Record]) -> Record:
    return {"type": "message", "role": "assistant", "content": blocks}


def _thought(item: Record) -> str:
    shown = get_objects(item, "summary") or get_objects(item, "content")
    return "\n\n".join(get_text(block, "text") for block in shown)


def _reasoning(part: ThinkingPart) -> Record:
    shown = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": shown}


def _call(item: Record, kind: str) -> ToolCall:
    is_custom = kind == "custom_tool_call"
    given = item.get("input" if is_custom else _given(kind))
    written = given if isinstance(given, str) else canonical.to_json_line(given or {}).decode()
    name = get_text(item, "name") or kind.removesuffix("_call")
    call = ToolCall(
        call_id(item) or "", FunctionCall(name, written), "custom" if is_custom else "function"
    )
    rest = members_not_in(item, _call_item(call, kind))
    if kind not in ("function_call", "custom_tool_call"):
        rest["type"] = kind
    return msgspec.structs.replace(call, meta={OWN: {"item": rest}}) if rest else call


def _given(kind: str) -> str:
    return "action" if kind == "local_shell_call" else "arguments"


def _call_item(call: ToolCall, kind: str) -> Record:
    given, name = call.function.arguments, call.function.name
    item: Record = {"type": kind, "call_id": call.id}
    if kind == "custom_tool_call":
        return {**item, "name": name, "input": given}
    if kind == "function_call":
        return {**item, "name": name, "arguments": given}
    return {**item, _given(kind): _value(given)}


def _answer(message: Message) -> Iterator[Record]:
    """Yield the items of an answer; parts that were one message are one again."""
    open_: Record | None = None
    for part in in_order(message):
        own = _own(part.meta)
        if not _is_in_message(part, own):
            if open_ is not None:
                yield open_
            open_ = None
            yield from _alone(part, own)
        elif open_ is not None and own.get("more"):
            open_["content"] += _written(part, "output_text")
        else:
            if open_ is not None:
                yield open_
            open_ = {**_message([*_written(part, "output_text")]), **_item(own)}
    if open_ is not None:
        yield open_


def _is_in_message(part: Part | ToolCall, own: Record) -> TypeGuard[Part]:
    if isinstance(part, UnknownPart):
        return own.get("is") == "block"
    return isinstance(part, TextPart | ImagePart)


def _item(own: Record) -> Record:
    rest = own.get("item")
    return rest if isinstance(rest, dict) else {}


def _alone(part: Part | ToolCall, own: Record) -> Iterator[Record]:
    """Yield the item of what is in no message: none, where Codex could not send it."""
    rest = _item(own)
    match part:
        case ToolCall(type=type_):
            named = "custom_tool_call" if type_ == "custom" else "function_call"
            yield {**_call_item(part, get_text(rest, "type") or named), **rest}
        case ThinkingPart() if own.get("is") == "item":
            yield {**_reasoning(part), **rest}
        case UnknownPart(data=data) if own.get("is") == "item":
            value = _value(data)
            if isinstance(value, dict):
                yield {**value, **rest}
