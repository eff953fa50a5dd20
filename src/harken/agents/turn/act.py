"""Acting: run the calls of a message and log exactly one result for each.

Calls run concurrently if they touch different subtrees or only read; calls that change the world
run in sequence. A result is logged as soon as it exists; the context has results in the order of
the calls. An error in an action becomes its result. Only a failing model call or a failing log
propagates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS, is_action
from harken.agents.agent import Agent, get_agent, subagent_ids
from harken.agents.call_result import log_result
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.hooks.notifications import has_user_substitute
from harken.agents.hooks.review import hook_name, review_progress, rewritten_arguments
from harken.agents.tool_agent import ToolAgent, is_idempotent
from harken.agents.tree.actions import affected_subtrees, parse_arguments_or_empty
from harken.agents.tree.moves import MOVES
from harken.agents.tree.registry import RUN
from harken.agents.turn.hook_review import judge_call
from harken.agents.turn_end import TurnEnded
from harken.agents.turn_lock import TurnLock, wait_for_triggered_turns
from harken.context.socket_client import VARIABLE
from harken.core.events import ActionRewritten, ActionStarted
from harken.core.ids import reference_message_id
from harken.core.messages import FunctionCall
from harken.core.secrets.redaction import PLACEHOLDER_PATTERN
from harken.session.state import OpenCall
from harken.world.result import (
    ActionBlocked,
    InvalidArguments,
    ToolError,
    ToolResult,
    error_result,
    run_catching,
)
from harken.world.tool import ToolContext, parse


class CallFootprint(msgspec.Struct, frozen=True):
    """The resources of a call that may conflict with those of other calls."""

    subtrees: frozenset[str] | None
    """Names of the subagents that it touches, or None for any."""
    reads_world: bool = False
    """Whether it is a tool call: a tool that changes the world may also read it."""
    changes_world: bool = False

    @property
    def is_structural(self) -> bool:
        """Whether it may touch agents."""
        return self.subtrees != frozenset()

    def collides(self, later: CallFootprint) -> bool:
        """Whether a later call has to wait for this call."""
        return self._shares_world(later) or self._shares_agents(later)

    def _shares_world(self, later: CallFootprint) -> bool:
        both = self.reads_world and later.reads_world
        return both and (self.changes_world or later.changes_world)

    def _shares_agents(self, later: CallFootprint) -> bool:
        if not (self.is_structural and later.is_structural):
            return False
        if self.subtrees is None or later.subtrees is None:
            return True
        return bool(self.subtrees & later.subtrees)


async def act(agent: ToolAgent, calls: Sequence[OpenCall]) -> None:
    """Run logged calls and log their results.

    Raises ModelError or LogError if a subagent's model or the log fails; the other calls run to
    their end, and those that could not begin stay open for a resume.
    """
    if agent.runtime.checkpoints is not None:
        agent.runtime.checkpoints.publish(agent.session, agent.agent_id)
    if len(calls) == 1 and not is_action(agent.tools.get(calls[0].name)):
        await run_call(agent, calls[0])
    else:
        await _run_concurrently(agent, calls)


async def _run_concurrently(agent: ToolAgent, calls: Sequence[OpenCall]) -> None:
    """Run each call in its own task, so that Python's stack does not limit the depth of a tree."""
    tasks: dict[int, asyncio.Task[None]] = {}
    turn_ends: list[TurnEnded] = []
    dependencies = call_dependencies(agent, calls)
    for index in _starting_order(agent, calls):
        earlier = [tasks[number] for number in sorted(dependencies[index]) if number in tasks]
        tasks[index] = asyncio.create_task(_run_after(earlier, agent, calls[index], turn_ends))
    in_order = [tasks[index] for index in range(len(calls))]
    try:
        results = await asyncio.gather(*in_order, return_exceptions=True)
    finally:
        for running in in_order:
            running.cancel()
        await asyncio.gather(*in_order, return_exceptions=True)
    failure = next((result for result in results if result is not None), None)
    if failure is not None:
        raise failure


def _starting_order(agent: ToolAgent, calls: Sequence[OpenCall]) -> list[int]:
    """Return the indexes of calls in the order in which their hooks are asked.

    In a resumed turn, interrupted reviews come first; a call that waited for calls with a result
    comes after those that did not wait.
    """
    waits = _count_waits(agent, calls)
    keys = [
        (review_progress(agent, call.reference), waits.get(call.id, 0), index)
        for index, call in enumerate(calls)
    ]
    return [index for *_, index in sorted(keys)]


def _count_waits(agent: ToolAgent, calls: Sequence[OpenCall]) -> dict[str, int]:
    """Return for each call of a resumed message how many calls had to run before it in sequence.

    Empty if no call before these has a result: they wait for each other only.
    """
    if all(call.index == index for index, call in enumerate(calls)):
        return {}
    message_id = reference_message_id(calls[0].reference)
    entries = reversed(agent.state.transcript or ())
    message = next((entry for entry in entries if entry.message_id == message_id), None)
    made = () if message is None else message.tool_calls or ()
    message_calls = [
        OpenCall(call.id, call.function.name, call.function.arguments, message_id) for call in made
    ]
    counts: dict[str, int] = {}
    for call, earlier in zip(message_calls, call_dependencies(agent, message_calls), strict=True):
        counts[call.id] = max((counts[message_calls[i].id] + 1 for i in earlier), default=0)
    return counts


async def _run_after(
    dependencies: Sequence[asyncio.Task[None]],
    agent: ToolAgent,
    call: OpenCall,
    turn_ends: list[TurnEnded],
) -> None:
    """Run a call after the calls that it depends on, unless one of them failed.

    turn_ends: gets an item when a hook takes the agent's place; calls that have not begun are not
    run.
    """
    await asyncio.gather(*dependencies)
    if turn_ends:
        raise turn_ends[0]
    try:
        await run_call(agent, call)
    except TurnEnded as error:
        turn_ends.append(error)
        raise


def call_dependencies(agent: ToolAgent, calls: Sequence[OpenCall]) -> list[set[int]]:
    """Return for each call the indexes of the earlier calls that have to end first.

    A structural call also waits for everything that an earlier structural call waits for:
    interlocutors and hook questions are logged in the order of the calls.
    """
    footprints = [footprint(agent, call) for call in calls]
    dependencies: list[set[int]] = []
    structural: set[int] = set()
    for index, later in enumerate(footprints):
        indexes = {number for number in range(index) if footprints[number].collides(later)}
        if later.is_structural:
            structural |= indexes
            indexes = set(structural)
        dependencies.append(indexes)
    return dependencies


def footprint(agent: ToolAgent, call: OpenCall) -> CallFootprint:
    """Return the resources that a call may touch, as far as known before it runs."""
    tool = agent.tools.get(call.name)
    if is_action(tool) or (
        tool is None and call.name in ACTIONS
    ):  # the agent may have the action by then
        if call.name in MOVES:
            return CallFootprint(subtrees=None, reads_world=True, changes_world=True)
        subtrees = affected_subtrees(agent, call.name, parse_arguments_or_empty(call.arguments))
        return CallFootprint(subtrees=None if subtrees is None else frozenset(subtrees))
    reads_only = tool is None or tool.reads_only
    return CallFootprint(frozenset(), reads_world=True, changes_world=not reads_only)


async def run_call(agent: ToolAgent, call: OpenCall) -> None:
    """Ask the hooks, then run a call, and log its result. Any error in it becomes its result.

    An interrupted call goes on, except one whose tool may have acted: that is closed.
    """
    if call.id not in agent.state.open_calls:
        return  # a move ended the turn
    if call.is_started and not is_idempotent(agent, call):
        agent._close_call(call)
        return
    try:
        arguments = await judged_arguments(agent, call)
    except ActionBlocked as error:
        log_result(agent, call, error_result(str(error), closed=error.closed))
        return
    result = await run_catching(call.name, _run(agent, call, arguments))
    if call.id in agent.state.open_calls:  # an action logs it with its effect
        log_result(agent, call, result)


async def judged_arguments(agent: Agent, call: OpenCall) -> str:
    """Let hooks judge a call. Return its arguments, as rewritten by them.

    Raises ActionBlocked, TurnEnded, StoppedByHook.
    """
    if call.reference in agent.session.state.rounds:  # it goes on, and was judged before
        return rewritten_arguments(agent, call.reference) or call.arguments
    verdicts = await judge_call(agent, call)
    if verdicts.denial is not None:
        name = hook_name(agent, verdicts.denial)
        reason = texts.ACTION_BLOCKED.format(name, verdicts.denial.text or "")
        raise ActionBlocked(reason, closed="denied")
    if verdicts.replacement is None:
        return call.arguments
    arguments, cause = verdicts.replacement.text or "", verdicts.replacement.message_id
    if call.rewritten_by != cause:
        event = ActionRewritten(
            agent_id=agent.agent_id,
            call=call.reference,
            tool=call.name,
            arguments=arguments,
            cause=cause,
        )
        agent.session.append(event)
    return arguments


async def _run(agent: ToolAgent, call: OpenCall, text: str) -> ToolResult:
    tool = agent.tools.get(call.name)
    if agent.state.place == "gone":
        raise ToolError(f"{call.name} was not run: you have left", closed="refused")
    if tool is None:
        available = ", ".join(agent.tools) or "none"
        text = f"{agent.name} may not use a tool {call.name!r}; it may use: {available}"
        raise InvalidArguments(text, closed="refused")
    if is_action(tool):
        return await run_action(agent, call, tool.check(parse(call.name, text)))
    _check_placeholders(agent, call, text)
    user = agent.runtime.world.user
    has_no_user = user is None and not has_user_substitute(agent)
    logged_user = None if has_no_user else LoggedUser(user, agent, call.reference)
    world, log_start = agent.runtime.world, partial(_log_start, agent, call)
    caller = ToolContext(
        agent,
        call.reference,
        logged_user,
        environment_changes=partial(program_variables, agent),
        log_start=log_start,
    )
    if not (world.logs_starts or tool.idempotent):
        log_start()
    return await world.call_tool(FunctionCall(call.name, text), caller)


def _check_placeholders(agent: Agent, call: OpenCall, text: str) -> None:
    """Raise ToolError if a session without credentials would act with a placeholder of one.

    A file that is read and written back would lose the credential.
    """
    placeholder = PLACEHOLDER_PATTERN.search(text)
    if placeholder is not None and agent.session.options.redact is not None:
        reason = texts.PLACEHOLDER_REFUSED.format(call.name, placeholder[0])
        raise ToolError(reason, closed="refused")


def _log_start(agent: Agent, call: OpenCall) -> None:
    """Log that the tool of a call begins to act, once."""
    current = agent.state.open_calls.get(call.id)
    if current is not None and not current.is_started:
        agent.session.append(ActionStarted(agent_id=agent.agent_id, call=call.reference))


async def run_action(agent: Agent, call: OpenCall, arguments: Mapping[str, Any]) -> ToolResult:
    """Run a structural action while no subagent that it may touch begins a turn by itself."""
    with ExitStack() as stack:
        for gate in await _turn_locks(agent, call.name, arguments):
            stack.enter_context(gate.locked())
        return await RUN[call.name](agent, call.reference, arguments)


async def _turn_locks(agent: Agent, action: str, arguments: Mapping[str, Any]) -> list[TurnLock]:
    """Return the locks of the subagents that an action may touch, when no trigger holds them."""
    names, state, live = (
        affected_subtrees(agent, action, arguments),
        agent.state,
        agent.session.live,
    )
    interlocutors = {*(state.speakers or state.subagents[-1:]), *state.listeners}
    gates = [
        get_agent(agent, id_)._turn_lock
        for name, id_ in subagent_ids(agent).items()
        if (name in names if names is not None else id_ in interlocutors or id_ in live)
    ]
    if any(gate.is_triggered for gate in gates):
        await wait_for_triggered_turns(gates)
    return gates


def program_variables(agent: ToolAgent) -> Mapping[str, str | None]:
    """Return environment variables for programs that an agent runs.

    The socket of this process itself is removed: it belongs to another agent.
    """
    checkpoints = agent.runtime.checkpoints
    try:
        socket_variables = (
            {} if checkpoints is None else checkpoints.variables(agent.session, agent.agent_id)
        )
    except OSError as error:
        agent.runtime.notify(f"programs cannot query the commit of their agent: {error}")
        socket_variables = {}
    return {**agent.runtime.world.environment, VARIABLE: None, **socket_variables}
