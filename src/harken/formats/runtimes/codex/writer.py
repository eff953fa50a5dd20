"""The writer of rollouts that Codex resumes, for conversations of any runtime.

Items are the input of the model, so they are written as `items_of` returns them. Each is followed
by its display events: without them, the client's list of sessions shows nothing.

Source: docs/formats/codex.md, "Writing".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harken.core import canonical, structs
from harken.core.messages import TextPart, ThinkingPart, UnknownPart, parts_of, text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_count, get_object, get_text
from harken.formats.providers.openai_item_content import CALL_TYPES, DEFAULT_OUTPUT_TYPE
from harken.formats.providers.openai_responses import (
    METADATA_KEY,
    build_items,
    is_instructions,
)
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.codex.resume_request import ABORTED, build_closing_output
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import format_milliseconds, iter_timed
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.sent_requests import StatedRequest
from harken.formats.runtimes.steps import PROMPT
from harken.formats.runtimes.target import Block, TargetRules, has_metadata

_VERSION = "0.169.0"
"""The version of the client that reads this form."""
_COUNT_NAMES = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
_CLOSING_MEMBERS = ("id", "type", "status", "execution")


def write_session(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as a rollout."""
    fit = TargetRules(
        owns=_owns,
        accepts=_accepts,
        is_aside=is_instructions,
        has_system=True,
        has_free_calls=True,
        has_answers_in_a_row=True,
        has_calls_last=True,
        no_result=ABORTED,
    )
    return b"".join(
        map(to_line, _iter_lines(list(_adapt_results(normalize_entries(entries, fit))), session))
    )


def _owns(entry: ConversationEntry) -> bool:
    return has_metadata(entry, METADATA_KEY)


def _accepts(entry: ConversationEntry, part: Block) -> bool:
    is_result_part = isinstance(part, UnknownPart) and entry.message.role == "tool"
    return METADATA_KEY in (part.meta or {}) or (is_result_part and _owns(entry))


def _adapt_results(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries, with results of the types that their calls require."""
    closings: dict[str, Record] = {}
    for entry in entries:
        message = entry.message
        if message.role == "assistant":
            calls = [item for item in build_items([entry]) if get_text(item, "type") in CALL_TYPES]
            closings = {get_text(item, "call_id"): build_closing_output(item) for item in calls}
            yield entry
        elif message.role == "tool":
            yield _adapt_result(entry, closings.get(message.tool_call_id or "", {}))
        else:
            yield entry


def _adapt_result(entry: ConversationEntry, closing_output: Record) -> ConversationEntry:
    """Return a result in the form that its call requires.

    `closing_output` is the output with which Codex closes the call.
    """
    message, metadata = entry.message, get_object(entry.source or {}, METADATA_KEY)
    if message.is_error and message.content == ABORTED:
        metadata = {
            name: closing_output[name] for name in _CLOSING_MEMBERS if name in closing_output
        }
        entry = ConversationEntry(structs.replace(message, is_error=False), entry.time)
    kind = get_text(closing_output, "type")
    if kind == get_text({"type": DEFAULT_OUTPUT_TYPE, **metadata}, "type"):
        return (
            structs.replace(entry, source={**(entry.source or {}), METADATA_KEY: metadata})
            if metadata
            else entry
        )
    return structs.replace(
        entry, source={**(entry.source or {}), METADATA_KEY: {**metadata, "type": kind}}
    )


def _iter_lines(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> Iterator[Record]:
    instructions_text = next(
        (
            text_of(followed_entry.message.content)
            for followed_entry in entries
            if is_instructions(followed_entry)
        ),
        "",
    )
    time = format_milliseconds(session.time)
    yield _build_line(time, "session_meta", _session_meta(session, instructions_text))
    totals, settings = dict.fromkeys(_COUNT_NAMES, 0), Record()
    for index, (entry, time) in enumerate(iter_timed(entries, session)):
        if entry.message.role == "assistant" and _owns(entry):
            entry_settings = _read_settings(entry)
            if entry_settings != settings:
                settings = entry_settings
                yield _build_line(time, "turn_context", _turn_context(settings, session))
        for item in build_items([entry]):
            yield _build_line(time, "response_item", _with_text_arguments(item))
        for event in _display_events(entry):
            yield _build_line(time, "event_msg", event)
        usage = get_object(entry.source or {}, "usage")
        is_followed = [
            followed_entry.message.role for followed_entry in entries[index : index + 2]
        ] == 2 * ["assistant"]
        if usage or is_followed:
            last = {name: get_count(usage, name_) or 0 for name, name_ in _COUNT_NAMES.items()}
            totals = {name: totals[name] + last[name] for name in _COUNT_NAMES}
            yield _build_line(time, "event_msg", _token_count(totals, last))
    if session.model:
        yield _build_line(time, "turn_context", _turn_context({"model": session.model}, session))


def _with_text_arguments(item: Record) -> Record:
    """Return an item that every version reads. Some wrote call arguments as an object."""
    arguments = item.get("arguments", "")
    if item["type"] != "function_call" or isinstance(arguments, str):
        return item
    return {**item, "arguments": canonical.to_json_line(arguments).decode()}


def _build_line(time: str, kind: str, payload: Record) -> Record:
    return {"timestamp": time, "type": kind, "payload": payload}


def _session_meta(session: NewSessionInfo, instructions_text: str) -> Record:
    meta: Record = {
        "id": session.id,
        "timestamp": format_milliseconds(session.time),
        "cwd": session.folder,
        "originator": "codex_cli_rs",
        "cli_version": _VERSION,
        "source": "cli",
    }
    return {**meta, "base_instructions": {"text": instructions_text}} if instructions_text else meta


def _read_settings(entry: ConversationEntry) -> Record:
    """Return the model of an answer, and the effort and summary of its thinking."""
    stated = StatedRequest.from_source(entry.source)
    reasoning = get_object(dict(stated.parameters), "reasoning") if stated is not None else {}
    members: Record = {n: v for n, v in reasoning.items() if n in ("effort", "summary")}
    return {"model": get_text(entry.source or {}, "model"), **members}


def _turn_context(settings: Record, session: NewSessionInfo) -> Record:
    """Return a turn context. When it resumes, Codex reads only the model of it."""
    policy = {"approval_policy": "on-request", "sandbox_policy": {"type": "read-only"}}
    return {"cwd": session.folder, **policy, **settings}


def _display_events(entry: ConversationEntry) -> Iterator[Record]:
    """Yield the display events of an entry."""
    parts = parts_of(entry.message.content)
    if entry.message.role == "user" and (entry.source or {}).get("kind", PROMPT) == PROMPT:
        text = next((part.text for part in parts if isinstance(part, TextPart)), "")
        yield {"type": "user_message", "message": text, "images": []}
    elif entry.message.role == "assistant":
        for part in parts:
            if isinstance(part, TextPart):
                yield {"type": "agent_message", "message": part.text}
            elif isinstance(part, ThinkingPart) and part.text:
                yield {"type": "agent_reasoning", "text": part.text}


def _token_count(total: Record, last: Record) -> Record:
    """Return the tokens of all previous answers.

    A count without growth marks the end of an answer.
    """
    info = {"total_token_usage": _with_total(total), "last_token_usage": _with_total(last)}
    return {"type": "token_count", "info": info, "rate_limits": None}


def _with_total(tokens: Record) -> Record:
    total = tokens["input_tokens"] + tokens["output_tokens"]
    return {**tokens, "total_tokens": total}
