"""What Codex resumes: the rollout of a new session, whoever had the conversation.

One idea: items are what the model sees, so they are written as `responses.items_of` says them.
Beside each stands what the client shows of it: from items alone, its list of sessions has nothing.

Source: docs/formats/codex.md, "Writing".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from harken.core import canonical
from harken.core.messages import TextPart, ThinkingPart, UnknownPart, text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_count, get_object, get_text
from harken.formats.providers.openai_responses import (
    CALLS,
    OWN,
    PLAIN_OUTPUT,
    is_instructions,
    items_of,
)
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.codex.resume_request import ABORTED, closing
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import milliseconds, timed
from harken.formats.runtimes.normalize import fitted
from harken.formats.runtimes.steps import PROMPT
from harken.formats.runtimes.target import Block, TargetRules, has_own, message_parts

_VERSION = "0.169.0"
"""Of the client that takes what is written here."""
_COUNTS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
_OF_CLOSING = ("id", "type", "status", "execution")


def writes(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as a rollout."""
    fit = TargetRules(
        owns=_owns,
        takes=_takes,
        is_aside=is_instructions,
        has_system=True,
        has_free_calls=True,
        has_answers_in_a_row=True,
        has_calls_last=True,
        no_result=ABORTED,
    )
    return b"".join(map(to_line, _lines(list(_answered(fitted(entries, fit))), session)))


def _owns(entry: ConversationEntry) -> bool:
    return has_own(entry, OWN)


def _takes(entry: ConversationEntry, part: Block) -> bool:
    is_listed = isinstance(part, UnknownPart) and entry.message.role == "tool"
    return OWN in (part.meta or {}) or (is_listed and _owns(entry))


def _answered(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries with results of the kinds that the calls before them have."""
    closings: dict[str, Record] = {}
    for entry in entries:
        message = entry.message
        if message.role == "assistant":
            calls = [item for item in items_of([entry]) if get_text(item, "type") in CALLS]
            closings = {get_text(item, "call_id"): closing(item) for item in calls}
            yield entry
        elif message.role == "tool":
            yield _result(entry, closings.get(message.tool_call_id or "", {}))
        else:
            yield entry


def _result(entry: ConversationEntry, closed: Record) -> ConversationEntry:
    """Return a result as its call has one; `closed` is what Codex itself would close that with."""
    message, own = entry.message, get_object(entry.source or {}, OWN)
    if message.is_error and message.content == ABORTED:
        own = {name: closed[name] for name in _OF_CLOSING if name in closed}
        entry = ConversationEntry(msgspec.structs.replace(message, is_error=False), entry.time)
    kind = get_text(closed, "type")
    if kind == get_text({"type": PLAIN_OUTPUT, **own}, "type"):
        return replace(entry, source={**(entry.source or {}), OWN: own}) if own else entry
    return replace(entry, source={**(entry.source or {}), OWN: {**own, "type": kind}})


def _lines(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> Iterator[Record]:
    told = next((text_of(one.message.content) for one in entries if is_instructions(one)), "")
    time = milliseconds(session.time)
    yield _line(time, "session_meta", _meta(session, told))
    spent, model = dict.fromkeys(_COUNTS, 0), ""
    for at, (entry, time) in enumerate(timed(entries, session)):
        named = get_text(entry.source or {}, "model")
        if named != model and entry.message.role == "assistant" and _owns(entry):
            model = named
            yield _line(time, "turn_context", _context(model, session))
        for item in items_of([entry]):
            yield _line(time, "response_item", _readable(item))
        for event in _shown(entry):
            yield _line(time, "event_msg", event)
        usage = get_object(entry.source or {}, "usage")
        is_followed = [one.message.role for one in entries[at : at + 2]] == 2 * ["assistant"]
        if usage or is_followed:
            last = {name: get_count(usage, ours) or 0 for name, ours in _COUNTS.items()}
            spent = {name: spent[name] + last[name] for name in _COUNTS}
            yield _line(time, "event_msg", _spent(spent, last))
    if session.model:
        yield _line(time, "turn_context", _context(session.model, session))


def _readable(item: Record) -> Record:
    """Return an item as every version reads it: some wrote the arguments of a call as an object."""
    given = item.get("arguments", "")
    if item["type"] != "function_call" or isinstance(given, str):
        return item
    return {**item, "arguments": canonical.to_json_line(given).decode()}


def _line(time: str, kind: str, payload: Record) -> Record:
    return {"timestamp": time, "type": kind, "payload": payload}


def _meta(session: NewSessionInfo, told: str) -> Record:
    meta: Record = {
        "id": session.id,
        "timestamp": milliseconds(session.time),
        "cwd": session.folder,
        "originator": "codex_cli_rs",
        "cli_version": _VERSION,
        "source": "cli",
    }
    return {**meta, "base_instructions": {"text": told}} if told else meta


def _context(model: str, session: NewSessionInfo) -> Record:
    """Return what a turn is about: Codex reads none of it but the model when it resumes."""
    policy = {"approval_policy": "on-request", "sandbox_policy": {"type": "read-only"}}
    return {"cwd": session.folder, **policy, "model": model}


def _shown(entry: ConversationEntry) -> Iterator[Record]:
    """Yield what the client shows of an entry."""
    parts = message_parts(entry.message)
    if entry.message.role == "user" and (entry.source or {}).get("kind", PROMPT) == PROMPT:
        said = next((part.text for part in parts if isinstance(part, TextPart)), "")
        yield {"type": "user_message", "message": said, "images": []}
    elif entry.message.role == "assistant":
        for part in parts:
            if isinstance(part, TextPart):
                yield {"type": "agent_message", "message": part.text}
            elif isinstance(part, ThinkingPart) and part.text:
                yield {"type": "agent_reasoning", "text": part.text}


def _spent(total: Record, last: Record) -> Record:
    """Return the tokens of all answers so far: where they did not grow, an answer ends there."""
    info = {"total_token_usage": _summed(total), "last_token_usage": _summed(last)}
    return {"type": "token_count", "info": info, "rate_limits": None}


def _summed(tokens: Record) -> Record:
    whole = tokens["input_tokens"] + tokens["output_tokens"]
    return {**tokens, "total_tokens": whole}
