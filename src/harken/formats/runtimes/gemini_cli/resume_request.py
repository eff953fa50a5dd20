"""The contents that Gemini CLI sends when it resumes a chat.

Source: docs/formats/gemini-cli.md, "Resume request".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from harken.core.messages import Content, Message, ThinkingPart, ToolCall, parts_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_text
from harken.formats.providers.gemini import (
    build_block,
    build_call,
    build_result_parts,
    get_metadata,
    is_response,
)
from harken.formats.runtimes.gemini_cli.messages import ENVIRONMENT_PREFIXES
from harken.formats.tool_calls import iter_items, parse_json_object

INTERRUPTED = "[The previous response was interrupted before it completed.]"
ANY_SIGNATURE = "skip_thought_signature_validator"
"""The placeholder signature of a call whose thoughts Gemini CLI omits."""
_UNSENT_PREFIXES = ("/", "?", *ENVIRONMENT_PREFIXES)
"""Prefixes of user texts that are no part of the conversation."""


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `contents` that Gemini CLI sends when it resumes there."""
    turns: list[Record] = []
    assigned_ids: dict[str, str] = {}
    position, previous_role = 0, ""  # The first turn describes the environment.
    for entry in entries:
        role = entry.message.role
        for turn in _iter_turns(entry, position + 1, assigned_ids):
            position += not role == previous_role == "tool"
            previous_role = role
            if turns and turns[-1]["role"] == turn["role"]:
                turns[-1]["parts"] += turn["parts"]
            else:
                turns.append(turn)
    if previous_role == "tool":
        turns.append({"role": "model", "parts": [{"text": INTERRUPTED}]})
    if turns and turns[-1]["role"] == "user" and _has_response(turns[-1]):
        _sign_calls(turns)  # The prompt is merged with results, so the last loop continues.
    for turn in turns:
        turn["parts"] = [_restore_call_id(part) for part in turn["parts"]]
    return turns


def _restore_call_id(part: Record) -> Record:
    """Restore the provider's id of a call, which the client prefixes with the tool's name.

    Of such a call or result, members that the client does not know are dropped.
    """
    for kind, payload_name in (("functionCall", "args"), ("functionResponse", "response")):
        function = get_object(part, kind)
        prefix = f"{get_text(function, 'name').strip() or 'generic_tool'}__"
        id_ = get_text(function, "id")
        if id_.startswith(prefix):
            members = {name: function[name] for name in ("name", payload_name) if name in function}
            part = {**part, kind: {**members, "id": id_.removeprefix(prefix)}}
    return part


def _has_response(turn: Record) -> bool:
    return any(map(is_response, turn["parts"]))


def _sign_calls(turns: list[Record]) -> None:
    """Sign the first call of each answer since the last prompt without results."""
    for turn in reversed(turns):
        has_text = any(part.get("text") for part in turn["parts"])
        if turn["role"] == "user" and has_text and not _has_response(turn):
            return
        call = next((part for part in turn["parts"] if "functionCall" in part), None)
        if turn["role"] == "model" and call is not None:
            call.setdefault("thoughtSignature", ANY_SIGNATURE)


def _iter_turns(
    entry: ConversationEntry, position: int, assigned_ids: dict[str, str]
) -> Iterator[Record]:
    """Yield the content of an entry at the position `position`, if it is sent.

    assigned_ids: ids of calls without an id; new ones are added.
    """
    message = entry.message
    if message.role == "assistant":
        parts = _build_answer(message, position, assigned_ids)
        if parts is not None:
            yield {"role": "model", "parts": parts}
        return
    if message.role == "tool":
        id_ = message.tool_call_id or ""
        parts = build_result_parts(message, assigned_ids.get(id_, id_), message.name or "unknown")
        yield {"role": "user", "parts": parts}
    elif not is_unsent(message):
        yield {"role": "user", "parts": _build_blocks(message.content)}


def is_unsent(message: Message) -> bool:
    """Whether a user message is not sent: it is empty, a command, or about the environment."""
    blocks = _build_blocks(message.content)
    text = "".join(get_text(block, "text") if "text" in block else "[]" for block in blocks).strip()
    return not text or text.startswith(_UNSENT_PREFIXES)


def _build_blocks(content: Content) -> list[Record]:
    """Return the parts of a user message. A result in it repeats that of a call, sent already."""
    blocks = [block for part in parts_of(content) if (block := build_block(part)) is not None]
    return [block for block in blocks if not is_response(block)]


def _build_answer(
    message: Message, turn_index: int, assigned_ids: dict[str, str]
) -> list[Record] | None:
    """Return the parts of an answer without its thoughts. Return None for an empty answer."""
    parts: list[Record] = []
    has_thinking, position = False, -1
    for position, item in enumerate(iter_items(message)):
        if isinstance(item, ThinkingPart):
            has_thinking = True
        elif isinstance(item, ToolCall):
            parts.append(_build_call(item, turn_index, position, assigned_ids))
        elif (block := build_block(item)) is not None:
            parts.append(block)
    first = next((part for part in parts if "functionCall" in part), None)
    if has_thinking and first is not None:
        first.setdefault("thoughtSignature", ANY_SIGNATURE)
    return parts if position >= 0 else None


def _build_call(call: ToolCall, turn: int, part: int, assigned_ids: dict[str, str]) -> Record:
    unnamed = get_metadata(call.meta).get("unnamed")
    arguments = parse_json_object(call.function.arguments) or {}
    if not isinstance(unnamed, str):
        return build_call(call, call.id, arguments)
    name = "|".join(sorted([unnamed, str(turn), str(part)]))
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
    assigned_ids[call.id] = f"synth_{call.function.name}_{digest}"
    function = {"id": assigned_ids[call.id], "name": call.function.name, "args": arguments}
    return {"functionCall": function}
