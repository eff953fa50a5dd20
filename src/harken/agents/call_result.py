"""Results of calls: one for each call, in one group with the effect of a structural action."""

from __future__ import annotations

from typing import TypeVar

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.initial_transcript import UNNAMED
from harken.core.events import Reference, TranscriptEntry
from harken.core.untrusted import escape_content_hook_markers
from harken.errors import InvalidEvent
from harken.session.state import OpenCall
from harken.world.result import ToolResult, error_result

Result = TypeVar("Result", bound=ToolResult)


def answer_call(agent: Agent, call: Reference, result: Result) -> Result:
    """Log the result of an action, in the group of its effect, and return it.

    So a crash leaves both or none. A user's command has no call, and its result is not logged here.
    """
    for open_call in agent.state.open_calls.values():
        if open_call.reference == call:
            log_result(agent, open_call, result)
            break
    return result


def close_moved_call(agent: Agent, call: OpenCall) -> None:
    """Give a call that has not begun a result: another agent has taken the agent's place."""
    log_result(agent, call, error_result(texts.TAKEN_OVER.format(call.name), closed="moved"))


def log_result(agent: Agent, call: OpenCall, result: ToolResult) -> None:
    """Log the result of a call. Text from outside cannot begin like a hook's comment."""
    entry = TranscriptEntry(
        agent_id=agent.agent_id,
        role="tool",
        content=escape_content_hook_markers(result.content),
        substance=result.substance,
        cause=result.cause if result.substance is None else None,
        tool_call_id=call.id,
        name=call.name or UNNAMED,
        is_error=result.is_error,
        closed=result.closed,
    )
    try:
        agent.session.append(entry)
    except InvalidEvent as error:
        if result.substance is not None:
            entry.substance = None  # its message does not exist, or is a copy
        elif not isinstance(result.content, str):
            entry.content = texts.RESULT_LOST.format(call.name, error)
            entry.is_error = True
        else:
            raise
        agent.session.append(entry)
