"""`init_prompt`: a transcript to start from, checked and made whole before a birth.

It may be any stretch of any transcript, also an edited one, also one of an agent that acts right
now. What comes out is one that a provider takes: every call has its one result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from harken.core.ids import AgentId, MessageId
from harken.core.messages import message_from
from harken.session.fold import fold
from harken.session.rules import as_written, check
from harken.session.session import entry_of
from harken.session.state import AgentState, SessionState

INTERRUPTED = (
    "Error: interrupted before {} gave a result. "
    "It may or may not have acted: check before you do it again."
)

UNNAMED = "(unnamed)"
"""How the result of a call is named whose tool has an empty name: a result has a name."""

_NOBODY = AgentId("agent_000")


def whole(
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


def groups(messages: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
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
