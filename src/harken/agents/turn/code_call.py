"""Calls that code makes: the structural actions as methods of an agent.

A call of code is logged, judged by hooks, run and answered as the call of a model. Its id begins
with `code_`. It always gets its result: a failure of a model that was asked, or a cancellation,
closes it as a crash would, and is raised.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, NoReturn

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, check_free, is_born
from harken.agents.agent_classes import check_registered, kind_name
from harken.agents.call_result import log_result
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.dumb_agent import can_answer
from harken.agents.hooks.hook import check_not_judged
from harken.agents.open_calls import finish_open_calls
from harken.agents.structure import CODE_CALL_PREFIX
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.action_result import ActionResult
from harken.agents.turn.act import judged_arguments, run_action
from harken.agents.turn.hook_review import comment_on_result
from harken.agents.turn.interrupted import describe_interrupted_call
from harken.agents.turn_end import StoppedByHook, TurnEnded
from harken.core import canonical
from harken.core.events import Closed, TranscriptEntry
from harken.core.messages import FunctionCall, ToolCall
from harken.errors import LogError
from harken.session.state import OpenCall
from harken.world.result import ActionBlocked, InvalidArguments, ToolError, ToolResult, run_catching
from harken.world.tool import parse

__all__ = ["call_action", "check_new_agent", "describe_interrupted_call"]

Objects = Mapping[str, tuple[str, object]]
"""Members of a call that are objects of the program: by name, the value to log and the object."""


async def call_action(
    agent: Agent,
    action: str,
    arguments: Mapping[str, Any],
    objects: Objects | None = None,
    call_id: str | None = None,
) -> Any:
    """Log a call of an action, run it, log its result, and return its value; see the module.

    arguments: as a model would write them. call_id: the id of the call (None: a new one). Raises
    what the action raises.
    """
    check_not_judged(agent)
    async with _in_turn(agent):
        if not agent.session.state.is_live(agent.agent_id):
            text = f"{action} was not run: {agent.name} has left"
            raise ToolError(text, closed="refused")
        members = {**arguments, **{name: logged for name, (logged, _) in (objects or {}).items()}}
        text = canonical.to_json_line(members).decode()
        call = _log_call(agent, FunctionCall(action, text), call_id or _new_call_id(agent))
        try:
            value = await _run_call(agent, call, objects or {})
        except BaseException as error:
            if call.id in agent.state.open_calls and not isinstance(error, LogError):
                agent._close_call(call)
            raise
    agent.session.sync()
    return value


def check_new_agent(
    parent: Agent,
    agent: object,
    *,
    has_instructions: bool,
    has_prompt: bool,
    has_model: bool = False,
) -> str:
    """Return the kind of a new agent, or of a class of agents.

    Raises TypeError for what is no agent, for instructions or a model beside an agent that has its
    own, for a prompt to a class that cannot answer, and for a class that is not registered;
    ValueError for an agent that was born, or of another session.
    """
    kind = agent if isinstance(agent, type) else type(agent)
    if not issubclass(kind, Agent):
        raise TypeError(f"agent must be an Agent or a class of agents, not {agent!r}")
    if has_prompt and not can_answer(kind):
        raise TypeError(
            f"{kind.__name__} has no method answer(self, input): create it without a prompt, "
            "or install it as a hook with hook(agent=...)"
        )
    if has_model and not (isinstance(agent, type) and issubclass(kind, ToolAgent)):
        raise TypeError(f"{kind.__name__} has its own model, or none: pass no model")
    if isinstance(agent, Agent):
        if has_instructions:
            raise TypeError(f"{kind.__name__} already has a system prompt: pass only one")
        if agent.session is not parent.session:
            raise ValueError(f"{kind.__name__} belongs to another session")
        if is_born(agent):
            raise ValueError(
                f"{agent.name} is already in a session: pass a new agent, or its class"
            )
    name = kind_name(kind, parent.runtime.library)
    check_registered(kind, name, parent.runtime.library)
    return name


@asynccontextmanager
async def _in_turn(agent: Agent) -> AsyncIterator[None]:
    """Mark an agent as being in a turn.

    A smart agent must be free, and its interrupted calls get their results first; as a hook, it is
    not asked meanwhile. The code of a dumb agent may run several calls at once.
    """
    is_smart = isinstance(agent, ToolAgent)
    is_hook = is_smart and agent.state.place == "hook"
    if is_smart:  # A hook that judges holds its lock, and would wait for this call.
        check_free(agent)
    async with agent._question_lock.current() if is_hook else nullcontext():
        if is_smart:
            check_free(agent)
            await finish_open_calls(agent)
            check_free(agent)
        agent._turn_lock.enter()
        try:
            yield
        finally:
            agent._turn_lock.leave()


def _new_call_id(agent: Agent) -> str:
    """Return an id that no call in the context of the agent has; a dump may have brought some."""
    messages = agent.session.context(agent.agent_id)
    used_ids = {call.id for message in messages for call in message.tool_calls or ()}
    number = agent.session.state.next_message
    while f"{CODE_CALL_PREFIX}{number}" in used_ids:
        number += 1
    return f"{CODE_CALL_PREFIX}{number}"


def _log_call(agent: Agent, function: FunctionCall, call_id: str) -> OpenCall:
    """Log the message that makes the call. Return the open call.

    The cause of a call that a hook makes while it judges is the judged message or call.
    """
    session = agent.session
    if agent.runtime.checkpoints is not None:
        agent.runtime.checkpoints.publish(session, agent.agent_id)
    made = ToolCall(call_id, function)
    session.append(
        TranscriptEntry(
            agent_id=agent.agent_id,
            role="assistant",
            tool_calls=[made],
            cause=agent._judged_subject,
        )
    )
    return agent.state.open_calls[call_id]


async def _run_call(agent: Agent, call: OpenCall, objects: Objects) -> Any:
    """Run a logged call and log its result. Return its value, or raise its error."""
    errors: list[Exception] = []
    result = await run_catching(call.name, _run_judged(agent, call, objects, errors))
    if call.id in agent.state.open_calls:
        log_result(agent, call, result)
    entry = _find_result(agent, call)
    try:
        if entry is not None:
            await comment_on_result(agent, entry)
    except TurnEnded:
        pass  # a hook moved after the action, whose value is the same
    except StoppedByHook as error:
        raise ActionBlocked(f"{call.name} was run, and a hook ended the turn: {error}") from None
    checkpoint_if_due(agent, "tool_call")
    if errors:
        raise errors[0]
    assert isinstance(result, ActionResult)
    return result.value


def _find_result(agent: Agent, call: OpenCall) -> TranscriptEntry | None:
    entries = reversed(agent.state.transcript or ())
    return next((entry for entry in entries if entry.tool_call_id == call.id), None)


async def _run_judged(
    agent: Agent, call: OpenCall, objects: Objects, errors: list[Exception]
) -> ToolResult:
    """Let hooks judge a call, then run it. An error is kept in `errors` and raised."""
    try:
        try:
            text = await judged_arguments(agent, call)
        except TurnEnded:
            _raise_not_run(texts.TAKEN_OVER, call, "moved")
        except StoppedByHook:
            _raise_not_run(texts.STOPPED, call, "stopped")
        arguments = dict(parse(call.name, text))
        for name, (logged, _) in objects.items():
            if arguments.pop(name, None) != logged:
                raise InvalidArguments(f"a hook rewrote {name!r}, which the program made itself")
        checked = ACTIONS[call.name].check(arguments)
        values = {name: value for name, (_, value) in objects.items()}
        return await run_action(agent, call, {**checked, **values})
    except Exception as error:
        errors.append(error)
        raise


def _raise_not_run(template: str, call: OpenCall, closed: Closed) -> NoReturn:
    """Raise the error of a call that a hook kept from running."""
    raise ActionBlocked(template.format(call.name), closed=closed) from None
