"""Messages of Gemini CLI as entries, and entries as the contents that it sends.

One idea: a message has been written in several shapes over the time: thoughts and calls beside its
content or in it, results in the calls or in a user's message. All of them give the same entries.

Source: docs/formats/gemini-cli.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
)
from harken.formats.runtimes.json_lines import time_of
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import as_object, content_of, in_order, spoken

OWN = "gemini"
INTERRUPTED = "[The previous response was interrupted before it completed.]"
ANY_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini CLI signs a call with whose thoughts it leaves out."""
PRESENT = ("<session_context>", "<hook_context>")
"""How texts in a user's name begin that tell of the present, and are told anew."""
_UNSENT = ("/", "?", *PRESENT)
"""How texts of a user begin that are no part of the conversation."""
_FAILED = ("error", "cancelled")


@dataclass(slots=True)
class AnsweredCalls:
    """The calls that have a result: a later file may say it again, in the user's name."""

    ids: set[str] = field(default_factory=set)


def entries_of(message: Record, answered: AnsweredCalls) -> list[ConversationEntry]:
    """Return what a message says, oldest first: an answer, and the results of its calls."""
    time = time_of(message.get("timestamp"))
    match get_text(message, "type"):
        case "user":
            return _asked(message, time, answered)
        case "gemini":
            calls = get_objects(message, "toolCalls")
            answer = _answer(message, calls, time)
            results = [_result(message, at, call, time) for at, call in enumerate(calls)]
            found = [one for one in results if one is not None]
            answered.ids.update(one.message.tool_call_id or "" for one in found)
            return [answer, *found] if answer is not None else found
    return []


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `contents` that Gemini CLI sends when it resumes there."""
    turns: list[Record] = []
    named: dict[str, str] = {}
    at, before = 0, ""  # the first turn tells of the present
    for entry in entries:
        role = entry.message.role
        for turn in _turns(entry, at + 1, named):
            at += not role == before == "tool"
            before = role
            if turns and turns[-1]["role"] == turn["role"]:
                turns[-1]["parts"] += turn["parts"]
            else:
                turns.append(turn)
    if before == "tool":
        turns.append({"role": "model", "parts": [{"text": INTERRUPTED}]})
    if turns and turns[-1]["role"] == "user" and _is_answered(turns[-1]):
        _sign(turns)  # the prompt is joined to results, and so the last loop still goes on
    for turn in turns:
        turn["parts"] = [_unprefixed(part) for part in turn["parts"]]
    return turns


def _unprefixed(part: Record) -> Record:
    """Return a part whose call is named as its provider named it: the client puts the tool before.

    Of such a call or result, nothing that the client does not know is left.
    """
    for kind, what in (("functionCall", "args"), ("functionResponse", "response")):
        given = get_object(part, kind)
        before = f"{get_text(given, 'name').strip() or 'generic_tool'}__"
        id_ = get_text(given, "id")
        if id_.startswith(before):
            kept = {name: given[name] for name in ("name", what) if name in given}
            part = {**part, kind: {**kept, "id": id_.removeprefix(before)}}
    return part


def _is_answered(turn: Record) -> bool:
    return any(map(_is_response, turn["parts"]))


def _sign(turns: list[Record]) -> None:
    """Sign the first call of each answer since the last prompt that no result stands beside."""
    for turn in reversed(turns):
        said = any(part.get("text") for part in turn["parts"])
        if turn["role"] == "user" and said and not _is_answered(turn):
            return
        call = next((part for part in turn["parts"] if "functionCall" in part), None)
        if turn["role"] == "model" and call is not None:
            call.setdefault("thoughtSignature", ANY_SIGNATURE)


def _asked(message: Record, time: str | None, answered: AnsweredCalls) -> list[ConversationEntry]:
    blocks = _blocks(message.get("content"))
    responses = [get_object(block, "functionResponse") for block in blocks if _is_response(block)]
    found = [
        _responded(get_text(one, "id"), get_text(one, "name"), one, (), time)
        for one in responses
        if get_text(one, "id") not in answered.ids
    ]
    answered.ids.update(get_text(one, "id") for one in responses)
    parts = [_part(block) for block in blocks if not _is_response(block)]
    content = content_of([part for part in parts if not isinstance(part, ToolCall)])
    if content is not None:
        said = text_of(content).strip()
        kind = SYSTEM if said.startswith(PRESENT) else PROMPT
        source = {"kind": kind, **_named(message)}
        found.append(ConversationEntry(Message("user", content), time, source))
    return found


def _answer(message: Record, calls: list[Record], time: str | None) -> ConversationEntry | None:
    blocks = _blocks(message.get("content"))
    said = [_part(block) for block in blocks if block.get("text") != "" or len(block) > 1]
    if not any(isinstance(part, ThinkingPart) for part in said):
        said = [*map(_thought, get_objects(message, "thoughts")), *said]
    if not any(isinstance(part, ToolCall) for part in said):
        said += [_call(message, at, call) for at, call in enumerate(calls)]
    if not said:
        return None
    source = _named(message)
    if get_text(message, "model"):
        source["model"] = get_text(message, "model")
    usage = _usage(get_object(message, "tokens"))
    if usage:
        source["usage"] = usage
    return ConversationEntry(spoken(said), time, source or None)


def _named(message: Record) -> Record:
    return {"id": get_text(message, "id")} if get_text(message, "id") else {}


def _usage(tokens: Record) -> dict[str, int]:
    """Return the counts of an answer as Harken has them: its thoughts are output, too."""
    found = {
        "input_tokens": (get_count(tokens, "input") or 0) + (get_count(tokens, "tool") or 0),
        "output_tokens": (get_count(tokens, "output") or 0) + (get_count(tokens, "thoughts") or 0),
        "cache_read_tokens": get_count(tokens, "cached") or 0,
        "reasoning_tokens": get_count(tokens, "thoughts") or 0,
    }
    return {name: number for name, number in found.items() if number}


def _blocks(content: object) -> list[Record]:
    """Return a content, which may be a text, a part or a list of both, as parts."""
    whole = content if isinstance(content, list) else [content]
    said = [{"text": one} if isinstance(one, str) else one for one in whole]
    return [one for one in said if isinstance(one, dict)]


def _is_response(block: Record) -> bool:
    return isinstance(block.get("functionResponse"), dict)


def _thought(thought: Record) -> ThinkingPart:
    subject, told = get_text(thought, "subject"), get_text(thought, "description")
    return ThinkingPart(f"**{subject}** {told}" if subject else told, {OWN: {}})


def _part(block: Record) -> Part | ToolCall:
    part: Part | ToolCall
    match block:
        case {"functionCall": {"name": str(name)}}:
            call = get_object(block, "functionCall")
            given = canonical.to_json_line(call.get("args") or {}).decode()
            part = ToolCall(get_text(call, "id"), FunctionCall(name, given))
        case {"text": str(said), "thought": thought} if thought:
            part = ThinkingPart(said, {OWN: {}})
        case {"text": str(said)}:
            part = TextPart(said)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind[:6] == "image/":
            part = ImagePart(kind, data)
        case _:
            return UnknownPart(next(iter(block), ""), canonical.to_json_line(block).decode())
    known = ("text", "thought", "functionCall", "inlineData")
    rest = {name: to_safe_json(value) for name, value in block.items() if name not in known}
    return msgspec.structs.replace(part, meta={OWN: rest}) if rest else part


def _call_id(message: Record, at: int, call: Record) -> str:
    """Return the id of a call; old versions gave none, and pair by position."""
    return get_text(call, "id") or f"{get_text(message, 'id')}/{at}"


def _call(message: Record, at: int, call: Record) -> ToolCall:
    given = canonical.to_json_line(call.get("args") or {}).decode()
    function = FunctionCall(get_text(call, "name"), given)
    made = ToolCall(_call_id(message, at, call), function)
    unnamed = {OWN: {"unnamed": get_text(message, "id")}}
    return made if get_text(call, "id") else msgspec.structs.replace(made, meta=unnamed)


def _result(message: Record, at: int, call: Record, time: str | None) -> ConversationEntry | None:
    """Return the result of a call; None: it has none."""
    result, id_, name = call.get("result"), _call_id(message, at, call), get_text(call, "name")
    if isinstance(result, str):
        response = {"response": {"output": result}}
        return _responded(id_, name, response, (), time, failed=get_text(call, "status") in _FAILED)
    blocks = _blocks(result) if result else []
    if not blocks:
        return None
    response = next((get_object(b, "functionResponse") for b in blocks if _is_response(b)), {})
    more = [block for block in blocks if not _is_response(block)]
    time = time_of(call.get("timestamp")) or time
    return _responded(id_, name, response, more, time, failed=get_text(call, "status") in _FAILED)


def _responded(
    id_: str,
    name: str,
    response: Record,
    more: Iterable[Record],
    time: str | None,
    *,
    failed: bool = False,
) -> ConversationEntry:
    said = get_object(response, "response")
    output = said.get("output", said.get("error"))
    is_plain = isinstance(output, str) and len(said) == 1
    shown = (
        output if isinstance(output, str) else canonical.to_json_line(said).decode() if said else ""
    )
    parts = [TextPart(shown), *(_part(block) for block in more)]
    content = content_of([part for part in parts if not isinstance(part, ToolCall)])
    is_error = failed or "error" in said
    message = Message("tool", content, tool_call_id=id_, name=name or None, is_error=is_error)
    rest: Record = (
        {} if is_plain and ("error" in said) == is_error else {"response": to_safe_json(said)}
    )
    nested = {
        n: to_safe_json(v) for n, v in response.items() if n not in ("id", "name", "response")
    }
    rest |= nested
    return ConversationEntry(message, time, {OWN: rest} if rest else None)


def _turns(entry: ConversationEntry, at: int, named: dict[str, str]) -> Iterator[Record]:
    """Yield the content of an entry, if it is sent; `at` is its place.

    named: what calls without an id are called; more are added.
    """
    message = entry.message
    if message.role == "assistant":
        parts = _said(message, at, named)
        if parts is not None:
            yield {"role": "model", "parts": parts}
        return
    if message.role == "tool":
        id_ = message.tool_call_id or ""
        parts = response_of(entry, named.get(id_, id_), message.name or "unknown")
        yield {"role": "user", "parts": parts}
    elif not is_unsent(message):
        yield {"role": "user", "parts": _blocks_of(message.content)}


def is_unsent(message: Message) -> bool:
    """Whether a user's message is not sent: it is empty, or a command, or about the present."""
    blocks = _blocks_of(message.content)
    said = "".join(get_text(block, "text") if "text" in block else "[]" for block in blocks).strip()
    return not said or said.startswith(_UNSENT)


def own_of(meta: Any) -> Record:
    """Return what only Gemini knows of a part, a call or an entry."""
    own = meta.get(OWN) if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else {}


def _kept(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(content)]
    return [part for part in content or () if not isinstance(part, ToolCallSlot)]


def _blocks_of(content: Content) -> list[Record]:
    return [block for part in _kept(content) if (block := block_of(part)) is not None]


def block_of(part: Part) -> Record | None:
    """Return a part as Gemini has it; None: it has none for it."""
    match part:
        case TextPart():
            return {"text": part.text, **own_of(part.meta)}
        case ImagePart(data=str(data), media_type=kind):
            return {"inlineData": {"mimeType": kind or "", "data": data}, **own_of(part.meta)}
        case UnknownPart():
            value = as_object(part.data)
            if value is not None and next(iter(value), "") == part.kind:
                return value
    return None


def _said(message: Message, at: int, named: dict[str, str]) -> list[Record] | None:
    """Return an answer without its thoughts; None: there was nothing in it."""
    parts: list[Record] = []
    is_thought_of, position = False, -1
    for position, item in enumerate(in_order(message)):
        if isinstance(item, ThinkingPart):
            is_thought_of = True
        elif isinstance(item, ToolCall):
            parts.append(_called(item, at, position, named))
        elif (block := block_of(item)) is not None:
            parts.append(block)
    first = next((part for part in parts if "functionCall" in part), None)
    if is_thought_of and first is not None:
        first.setdefault("thoughtSignature", ANY_SIGNATURE)
    return parts if position >= 0 else None


def _called(call: ToolCall, turn: int, part: int, named: dict[str, str]) -> Record:
    meta = own_of(call.meta)
    given = as_object(call.function.arguments)
    function = {"id": call.id, "name": call.function.name, "args": given or {}}
    if not isinstance(meta.get("unnamed"), str):
        return {"functionCall": function, **meta}
    name = "|".join(sorted([meta["unnamed"], str(turn), str(part)]))
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
    named[call.id] = f"synth_{call.function.name}_{digest}"
    return {"functionCall": {**function, "id": named[call.id]}}


def response_of(entry: ConversationEntry, id_: str | None, name: str) -> list[Record]:
    """Return the parts that say a result; `id_` and `name` are those of its call."""
    message = entry.message
    rest = dict(own_of(entry.source))
    first, *more = _kept(message.content) or [TextPart("")]
    shown = first.text if isinstance(first, TextPart) else ""
    response = rest.pop("response", {"error" if message.is_error else "output": shown})
    told_of = {"name": name} if id_ is None else {"id": id_, "name": name}
    told: list[Record] = [{"functionResponse": {**told_of, "response": response, **rest}}]
    left = more if isinstance(first, TextPart) else [first, *more]
    return told + [block for part in left if (block := block_of(part)) is not None]
