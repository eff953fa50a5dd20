"""`init_prompt`: a transcript to start from, checked and made whole before a birth.

It may be any stretch of any transcript, also an edited one, also one of an agent that acts right
now. What comes out is one that a provider takes: every call has its one result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

import msgspec

from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, message_from
from harken.session.fold import fold, held
from harken.session.invariants import as_written, check
from harken.session.session import Session, entry_of
from harken.session.state import AgentState, SessionState

INTERRUPTED = (
    "Error: interrupted before {} gave a result. "
    "It may or may not have acted: check before you do it again."
)

UNNAMED = "(unnamed)"
"""How the result of a call is named whose tool has an empty name: a result has a name."""

_NOBODY = AgentId("agent_000")


def complete_transcript(
    initial: Sequence[Mapping[str, Any]], *, own_system: bool = False
) -> list[Mapping[str, Any]]:
    """Return the messages to start from; calls without a result get one that says so.

    With a system prompt of its own, an agent does not begin with that of another. Raises
    ValueError where something is no message, or could not stand in a transcript here.
    """
    state = SessionState(agents={_NOBODY: AgentState(_NOBODY, MessageId(""))})
    taken: list[Mapping[str, Any]] = []
    for given in dropwhile(_is_system, initial) if own_system else initial:
        if given.get("role") != "tool":
            taken += _close(state)
        taken.append(_named(state, given))
        _try(state, taken[-1])
    return [*taken, *_close(state)]


def begin_with(session: Session, agent_id: AgentId, initial: Sequence[Mapping[str, Any]]) -> None:
    """Let an agent begin with a transcript: by reference where it is in the log, else in full."""
    if not initial:
        return
    before = len(session.context(agent_id))
    known = _known(session, initial)
    ids: list[MessageId] = []
    for group in _groups(initial):
        there = [known.get(message.get("message_id", "")) for message in group]
        if all(e is not None and _same(e, m) for e, m in zip(there, group, strict=True)):
            ids += [entry.message_id for entry in there if entry is not None]
        else:  # a result without its call would answer nothing
            entries = (entry_of(agent_id, message_from(message)) for message in group)
            ids += [session.append(entry) for entry in entries]
    segments = [Segment(start=0, stop=before), Segment(entries=ids)]
    session.append(TranscriptEdited(agent_id=agent_id, segments=segments, reason="init_prompt"))


def message_dict(message: ChatMessage) -> dict[str, Any]:
    """Return a message as the dict that `init_prompt` takes again."""
    names = ("message_id", "substance", *Message.__struct_fields__)
    data: dict[str, Any] = msgspec.to_builtins({n: getattr(message, n, None) for n in names})
    return {name: value for name, value in data.items() if value not in (None, False)}


def _known(session: Session, messages: Sequence[Mapping[str, Any]]) -> dict[str, TranscriptEntry]:
    """Return this session's entries with the ids of these: another's may have them too."""
    wanted = {message.get("message_id") for message in messages} - {None}
    found: dict[str, TranscriptEntry] = {}
    for state in session.agents.values():
        found |= {e.message_id: e for e in held(state) if e.message_id in wanted}
    for agent_id in session.agents:
        if len(found) < len(wanted):
            entries = session.agent(agent_id).transcript or ()
            found |= {e.message_id: e for e in entries if e.message_id in wanted}
    return found


def _same(entry: TranscriptEntry, message: Mapping[str, Any]) -> bool:
    return message_from(message_dict(entry)) == message_from(message)


def _groups(messages: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the same messages, each that makes calls together with their results."""
    found: list[list[Mapping[str, Any]]] = []
    for message in messages:
        if message.get("role") == "tool":
            found[-1].append(message)
        else:
            found.append([message])
    return found


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "system"


def _try(state: SessionState, message: Mapping[str, Any]) -> None:
    """Let a message enter a transcript that nobody has."""
    event = entry_of(_NOBODY, message_from(message))
    check(state, event)
    fold(state, as_written(event)[1])


def _named(state: SessionState, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result with the name of its tool, which other formats leave out."""
    call = state.agents[_NOBODY].open_calls.get(message.get("tool_call_id") or "")
    if message.get("role") != "tool" or call is None or message.get("name"):
        return message
    return {**message, "name": call.name or UNNAMED}


def _close(state: SessionState) -> list[Mapping[str, Any]]:
    """Return a result for each open call."""
    results: list[Mapping[str, Any]] = [
        {
            "role": "tool",
            "content": INTERRUPTED.format(call.name),
            "tool_call_id": call.id,
            "name": call.name or UNNAMED,
            "is_error": True,
        }
        for call in state.agents[_NOBODY].open_calls.values()
    ]
    for result in results:
        _try(state, result)
    return results
