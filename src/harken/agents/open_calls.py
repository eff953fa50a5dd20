"""Open calls of an agent: what a crash, an error or a cancellation left without a result."""

from __future__ import annotations

from harken.agents.agent import Agent
from harken.agents.structure import is_code_call
from harken.agents.unanswered_input import needs_no_answer
from harken.core.logged_string import LoggedString
from harken.errors import TurnStopped


def has_open_calls(agent: Agent) -> bool:
    """Whether an agent owes an answer: its last turn was interrupted.

    A crash, an error or a cancellation interrupts a turn. `await agent.response()` without input
    continues it. An answer that some hooks have not judged is owed, too. A stopped turn has ended.
    """
    if agent.state.stop is not None:
        return False
    return _is_interrupted(agent) or agent._has_unjudged_answer()


def _is_interrupted(agent: Agent) -> bool:
    for message in reversed(agent.session.context(agent.agent_id)):
        if is_code_call(message) and not agent.state.open_calls:
            continue
        if message.role != "user" or not needs_no_answer(message):
            return message.role in ("user", "tool") or bool(agent.state.open_calls)
    return False  # only comments of hooks, and calls of code


async def finish_open_calls(agent: Agent) -> None:
    """Give the interrupted calls of an agent a result before its next input.

    Raises AgentBusy in the middle of a turn, where calls are under way.
    """
    await agent._finish_open_calls()


async def answer_or_stop(agent: Agent, input: str | None = None) -> LoggedString:
    """Return an agent's answer, or the text in place of it if its turn was stopped.

    Raises what `response` raises otherwise.
    """
    try:
        return await agent.response(input)
    except TurnStopped as stop:
        return LoggedString(str(stop), stop.message_id, stop.kind)
