"""Verdicts by a call: while it is asked, the model of a hook can call the tool `verdict`.

A valid call ends the hook's turn without another model call. It stays open until the verdict
counts, so a resumed hook goes on with it: its own hooks judge it at `response`, as the text that a
model without tools would write, and its result is in one group with the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS, VERDICT
from harken.agents.agent import Agent
from harken.agents.call_result import log_result
from harken.agents.hooks.notes import check_note
from harken.core.event_types.spec import HookPoint
from harken.core.events import (
    Closed,
    HookLeaving,
    NoteKept,
    Reference,
    TranscriptEntry,
)
from harken.core.ids import reference_message_id
from harken.core.messages import text_of
from harken.core.verdict import (
    ALLOWED_VERDICTS,
    Comment,
    Deny,
    Ok,
    Rewrite,
    Verdict,
    format_verdict,
)
from harken.session.state import OpenCall
from harken.world.result import InvalidArguments, ToolResult
from harken.world.tool import parse

VERDICT_NAMES = {Ok: "accept", Comment: "comment", Deny: "deny", Rewrite: "rewrite"}
"""The argument `verdict` for each class of verdicts."""


class _Arguments(msgspec.Struct):
    verdict: str
    text: str | None = None
    note: str | None = None
    leave: bool = False


async def run_verdict(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Refuse a verdict of an agent that is asked nothing. Raises InvalidArguments.

    The verdict of a hook that is asked is no action: its turn ends with the call.
    """
    raise InvalidArguments(texts.VERDICT_UNASKED)


def pending_verdict_call(hook: Agent) -> OpenCall | None:
    """Return the open call with the verdict of a hook, or None if it has made none."""
    if not hook.state.open_calls or not hook.state.questions or not hook._has_verdict_tool():
        return None
    return next(_iter_verdict_calls(hook), None)


def refuse_invalid_verdict_calls(hook: Agent, point: HookPoint | None) -> None:
    """Give each call of `verdict` that is no valid verdict an error as its result.

    point: where the hook is asked, or None if that is not known yet. Two verdicts are none.
    """
    if not hook._has_verdict_tool():
        return
    calls = [*_iter_verdict_calls(hook)]
    for call in calls:
        try:
            if not hook.state.questions:
                raise InvalidArguments(texts.VERDICT_UNASKED)
            if len(calls) > 1:
                raise InvalidArguments(texts.VERDICT_AMBIGUOUS)
            _check_arguments(_parse_arguments(call), point)
        except InvalidArguments as error:
            close_verdict_call(hook, call, f"Error: {error}", is_error=True)


def verdict_of_call(call: OpenCall) -> Verdict:
    """Return the verdict of a valid call."""
    return _build_verdict(_parse_arguments(call))


def is_verdict_result(hook: Agent, entry: TranscriptEntry) -> bool:
    """Whether a result is that of a verdict: no tool returned it, and no model reads it next."""
    return entry.name == VERDICT and not entry.is_error and hook._has_verdict_tool()


def answer_text(agent: Agent, entry: TranscriptEntry) -> str:
    """Return the text of an answer; for a call of `verdict`, its text form."""
    call = pending_verdict_call(agent) if entry.tool_calls else None
    return text_of(entry.content) if call is None else format_verdict(verdict_of_call(call))


def pending_verdict_entry(hook: Agent) -> TranscriptEntry | None:
    """Return the message with the pending call of `verdict`, or None."""
    call = pending_verdict_call(hook)
    if call is None:
        return None
    message_id = reference_message_id(call.reference)
    entries = reversed(hook.state.transcript or ())
    return next((entry for entry in entries if entry.message_id == message_id), None)


def close_verdict_call(
    hook: Agent,
    call: OpenCall,
    text: str,
    *,
    is_error: bool = False,
    closed: Closed | None = None,
) -> None:
    """Give a call of `verdict` its result. is_error: it does not count."""
    log_result(hook, call, ToolResult(text, is_error=is_error, closed=closed))


def accept_verdict_call(hook: Agent) -> None:
    """Log the result of the pending call of `verdict`, its note, and that the hook leaves."""
    call = pending_verdict_call(hook)
    if call is None:
        return
    arguments = _parse_arguments(call)
    if arguments.note is not None:
        note = NoteKept(
            agent_id=hook.agent_id, text=check_note(arguments.note), cause=call.reference
        )
        hook.session.append(note)
    if arguments.leave and hook.state.leaving is None:
        hook.session.append(HookLeaving(agent_id=hook.agent_id, cause=call.reference))
    close_verdict_call(hook, call, texts.VERDICT_NOTED)


def _iter_verdict_calls(hook: Agent) -> Iterator[OpenCall]:
    return (call for call in hook.state.open_calls.values() if call.name == VERDICT)


def _parse_arguments(call: OpenCall) -> _Arguments:
    """Return the arguments of a call. Raises InvalidArguments."""
    arguments = ACTIONS[VERDICT].check(parse(call.name, call.arguments))
    return msgspec.convert(arguments, _Arguments)


def _check_arguments(arguments: _Arguments, point: HookPoint | None) -> None:
    """Raise InvalidArguments if a verdict has no text, or is not allowed at a point."""
    if arguments.verdict != "accept" and not (arguments.text or "").strip():
        raise InvalidArguments(texts.VERDICT_WITHOUT_TEXT.format(arguments.verdict))
    if arguments.note is not None:
        check_note(arguments.note)
    if point is None:
        return
    names = [VERDICT_NAMES[kind] for kind in ALLOWED_VERDICTS[point]]
    if arguments.verdict not in names:
        allowed = ", ".join(names)
        raise InvalidArguments(texts.VERDICT_NOT_ALLOWED.format(arguments.verdict, point, allowed))


def _build_verdict(arguments: _Arguments) -> Verdict:
    text = (arguments.text or "").strip()
    match arguments.verdict:
        case "accept":
            return Ok()
        case "comment":
            return Comment(text)
        case "deny":
            return Deny(text)
        case _:
            return Rewrite(text)
