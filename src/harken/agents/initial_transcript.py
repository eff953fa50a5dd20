"""`init_prompt`: a transcript to start from, checked and completed before a birth.

It may be any part of any transcript, also of an edited one, or of an agent that is acting now. The
result is a transcript that a provider accepts: every call has exactly one result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

import msgspec

from harken.agents import texts
from harken.core.event_types.message_parser import parse_message
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message
from harken.session.fold import fold, iter_loaded_entries
from harken.session.invariants import check_event, encode_checked_event
from harken.session.session import Session, build_entry
from harken.session.state import AgentState, SessionState

UNNAMED = "(unnamed)"
"""The tool name in the result of a call with an empty tool name: a result must have a name."""

_SCRATCH_AGENT = AgentId("agent_000")


def complete_transcript(
    initial: Sequence[Mapping[str, Any]], *, own_system: bool = False
) -> list[Mapping[str, Any]]:
    """Return the messages to start from, with a result for each open call.

    With a system prompt of its own, an agent does not begin with that of another. Raises ValueError
    if an item is no message, or is not valid in a transcript here.
    """
    state = SessionState(agents={_SCRATCH_AGENT: AgentState(_SCRATCH_AGENT, MessageId(""))})
    messages: list[Mapping[str, Any]] = []
    for message in dropwhile(_is_system, initial) if own_system else initial:
        if message.get("role") != "tool":
            messages += _result_open_calls(state)
        messages.append(_with_tool_name(state, message))
        _add_to_scratch(state, messages[-1])
    return [*messages, *_result_open_calls(state)]


def begin_with(session: Session, agent_id: AgentId, initial: Sequence[Mapping[str, Any]]) -> None:
    """Set the start of an agent's transcript: logged messages by reference, others in full."""
    if not initial:
        return
    before = len(session.context(agent_id))
    existing = _find_entries(session, initial)
    ids: list[MessageId] = []
    for group in _group_results(initial):
        logged = [existing.get(message.get("message_id", "")) for message in group]
        if all(e is not None and _is_same(e, m) for e, m in zip(logged, group, strict=True)):
            ids += [entry.message_id for entry in logged if entry is not None]
        else:  # a call and its results are stored in the same way
            entries = (build_entry(agent_id, parse_message(message)) for message in group)
            ids += [session.append(entry) for entry in entries]
    segments = [Segment(start=0, stop=before), Segment(entries=ids)]
    session.append(TranscriptEdited(agent_id=agent_id, segments=segments, reason="init_prompt"))


def message_dict(message: ChatMessage) -> dict[str, Any]:
    """Return a message as a dict that `init_prompt` accepts."""
    names = ("message_id", "substance", *Message.__struct_fields__)
    data: dict[str, Any] = msgspec.to_builtins({n: getattr(message, n, None) for n in names})
    return {name: value for name, value in data.items() if value not in (None, False)}


def _find_entries(
    session: Session, messages: Sequence[Mapping[str, Any]]
) -> dict[str, TranscriptEntry]:
    """Return this session's entries by id; messages of another session may have the same ids."""
    ids = {message.get("message_id") for message in messages} - {None}
    entries_by_id: dict[str, TranscriptEntry] = {}
    for state in session.agents.values():
        entries_by_id |= {
            e.message_id: e for e in iter_loaded_entries(state) if e.message_id in ids
        }
    for agent_id in session.agents:
        if len(entries_by_id) < len(ids):
            entries = session.agent(agent_id).transcript or ()
            entries_by_id |= {e.message_id: e for e in entries if e.message_id in ids}
    return entries_by_id


def _is_same(entry: TranscriptEntry, message: Mapping[str, Any]) -> bool:
    return parse_message(message_dict(entry)) == parse_message(message)


def _group_results(messages: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group messages: a message with calls together with its results."""
    groups: list[list[Mapping[str, Any]]] = []
    for message in messages:
        if message.get("role") == "tool":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "system"


def _add_to_scratch(state: SessionState, message: Mapping[str, Any]) -> None:
    """Add a message to a scratch transcript, which checks it. Raises ValueError."""
    event = build_entry(_SCRATCH_AGENT, parse_message(message))
    check_event(state, event)
    fold(state, encode_checked_event(event)[1])


def _with_tool_name(state: SessionState, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result with the name of its tool, which some formats omit."""
    call = state.agents[_SCRATCH_AGENT].open_calls.get(message.get("tool_call_id") or "")
    if message.get("role") != "tool" or call is None or message.get("name"):
        return message
    return {**message, "name": call.name or UNNAMED}


def _result_open_calls(state: SessionState) -> list[Mapping[str, Any]]:
    """Return a result for each open call."""
    results: list[Mapping[str, Any]] = [
        {
            "role": "tool",
            "content": texts.INTERRUPTED.format(call.name),
            "tool_call_id": call.id,
            "name": call.name or UNNAMED,
            "is_error": True,
        }
        for call in state.agents[_SCRATCH_AGENT].open_calls.values()
    ]
    for result in results:
        _add_to_scratch(state, result)
    return results
