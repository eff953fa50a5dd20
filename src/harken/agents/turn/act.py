"""Acting: the calls of one message become results, each call exactly one.

Calls run concurrently where they touch different subtrees or only read; those that change the
world run one at a time; results enter the transcript in the order of the calls. What goes wrong
in an action is its result. Only a failing model call or a failing log goes further up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from harken.agents.action_schemas import ACTIONS, is_action
from harken.agents.hooks.hook import BLOCKED, CombinedVerdict, TurnEnded
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.hooks.notifications import is_spoken_for
from harken.agents.initial_transcript import UNNAMED
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import affected_subtrees, parse_arguments_or_empty
from harken.agents.tree.registry import RUN
from harken.agents.turn.hook_review import judge_call
from harken.agents.turn_lock import TurnLock, woken_ones_done
from harken.context.socket_client import VARIABLE
from harken.core.events import ActionRewritten, TranscriptEntry
from harken.core.messages import FunctionCall
from harken.core.untrusted import content_from_outside
from harken.errors import InvalidEvent
from harken.session.state import OpenCall
from harken.world.result import InvalidArguments, ToolError, ToolResult, run_catching
from harken.world.tool import ToolContext, parse


@dataclass(frozen=True, slots=True)
class CallFootprint:
    """What a call may collide with."""

    subtrees: frozenset[str] | None
    """Names of the subagents that it touches; None where that may be any of them."""
    reads_world: bool = False
    """Whether it is a tool: a tool that changes the world may read it, too."""
    changed_resource: bool = False

    @property
    def is_structural(self) -> bool:
        """Whether it may touch agents."""
        return self.subtrees != frozenset()

    def collides(self, later: CallFootprint) -> bool:
        """Whether a later call has to wait for this one."""
        return self._shares_world(later) or self._shares_agents(later)

    def _shares_world(self, later: CallFootprint) -> bool:
        both = self.reads_world and later.reads_world
        return both and (self.changed_resource or later.changed_resource)

    def _shares_agents(self, later: CallFootprint) -> bool:
        if not (self.is_structural and later.is_structural):
            return False
        if self.subtrees is None or later.subtrees is None:
            return True
        return bool(self.subtrees & later.subtrees)


async def act(agent: ToolAgent, calls: Sequence[OpenCall]) -> None:
    """Run calls that are in the log and log their results, in order.

    Raises ModelError or LogError where a subagent's model or the log fails; results that were
    there by then are logged, the others are left open for a resume.
    """
    if agent.runtime.checkpoints is not None:
        agent.runtime.checkpoints.settle(agent.session, agent.agent_id)
    if len(calls) == 1 and not is_action(agent.tools.get(calls[0].name)):
        log_result(agent, calls[0], await run_call(agent, calls[0]))
    else:
        await _act_together(agent, calls)


async def _act_together(agent: ToolAgent, calls: Sequence[OpenCall]) -> None:
    """Run each call in a task of its own: so the depth of a tree is not that of Python's stack."""
    tasks: list[asyncio.Task[ToolResult]] = []
    ended: list[TurnEnded] = []
    for call, numbers in zip(calls, call_dependencies(agent, calls), strict=True):
        before = [tasks[number] for number in sorted(numbers)]
        tasks.append(asyncio.create_task(_after(before, agent, call, ended)))
    failure: Exception | None = None
    waiting = dict(zip(tasks, calls, strict=True))
    try:
        for running in tasks:
            try:
                result = await running
            except Exception as error:  # noqa: BLE001 - raised below, when all have ended
                failure = failure or error
            else:
                log_result(agent, waiting.pop(running), result)
    finally:
        for running in tasks:
            running.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _log_finished(agent, waiting)
    if failure is not None:
        raise failure


def _log_finished(agent: ToolAgent, waiting: Mapping[asyncio.Task[ToolResult], OpenCall]) -> None:
    """Log what had come of calls that waited for an earlier one when all were cancelled."""
    for running, call in waiting.items():
        if not running.cancelled() and running.exception() is None:
            log_result(agent, call, running.result())


async def _after(
    before: Sequence[asyncio.Task[ToolResult]],
    agent: ToolAgent,
    call: OpenCall,
    ended: list[TurnEnded],
) -> ToolResult:
    """Run a call after those that it depends on; where one of them failed, it is not run.

    ended: filled when a hook takes the agent's place: what has not begun by then is not run.
    """
    await asyncio.gather(*before)
    if ended:
        raise ended[0]
    try:
        return await run_call(agent, call)
    except TurnEnded as error:
        ended.append(error)
        raise


def call_dependencies(agent: ToolAgent, calls: Sequence[OpenCall]) -> list[set[int]]:
    """Return for each call the numbers of those before it that have to end first.

    A structural call also waits for what one before it waits for: who an agent talks with is set
    in the order of the calls, and so is what its hooks are asked.
    """
    prints = [footprint(agent, call) for call in calls]
    found: list[set[int]] = []
    structural: set[int] = set()
    for at, later in enumerate(prints):
        own = {number for number in range(at) if prints[number].collides(later)}
        if later.is_structural:
            structural |= own
            own = set(structural)
        found.append(own)
    return found


def footprint(agent: ToolAgent, call: OpenCall) -> CallFootprint:
    """Return what a call may collide with, as far as it can be told before it runs."""
    tool = agent.tools.get(call.name)
    if is_action(tool) or (tool is None and call.name in ACTIONS):  # it may have it by then
        named = affected_subtrees(agent, call.name, parse_arguments_or_empty(call.arguments))
        return CallFootprint(subtrees=None if named is None else frozenset(named))
    reads_only = tool is None or tool.reads_only
    return CallFootprint(frozenset(), reads_world=True, changed_resource=not reads_only)


async def run_call(agent: ToolAgent, call: OpenCall) -> ToolResult:
    """Ask the hooks, then run one call; whatever goes wrong in it is its result."""
    judgement = await judge_call(agent, call)
    if judgement.denied is not None:
        return _blocked(judgement)
    arguments = call.arguments
    if judgement.rewritten is not None and judgement.rewriter is not None:
        arguments = judgement.rewritten
        agent.session.append(
            ActionRewritten(
                agent_id=agent.agent_id,
                call=call.reference,
                tool=call.name,
                arguments=arguments,
                cause=judgement.rewriter.message_id,
            )
        )
    return await run_catching(call.name, _run(agent, call, arguments))


def _blocked(judgement: CombinedVerdict) -> ToolResult:
    denied = judgement.denied
    reason = getattr(denied.verdict, "reason", "") if denied else ""
    name = denied.hook if denied else ""
    return ToolResult(BLOCKED.format(name, reason), is_error=True)


async def _run(agent: ToolAgent, call: OpenCall, text: str) -> ToolResult:
    tool = agent.tools.get(call.name)
    if agent.state.place == "gone":
        raise ToolError(f"{call.name} was not run: you have left")
    if tool is None:
        there = ", ".join(agent.tools) or "none"
        raise InvalidArguments(
            f"{agent.name} may not use a tool {call.name!r}; it may use: {there}"
        )
    if is_action(tool):
        arguments = tool.check(parse(call.name, text))
        with ExitStack() as held:
            for gate in await _gates(agent, call.name, arguments):
                held.enter_context(gate.held())
            return await RUN[call.name](agent, call.reference, arguments)
    user = agent.runtime.world.user
    is_nobody = user is None and not is_spoken_for(agent)
    asked = None if is_nobody else LoggedUser(user, agent, call.reference)
    caller = ToolContext(
        agent, call.reference, asked, environment_changes=partial(variables, agent)
    )
    return await agent.runtime.world.call_tool(FunctionCall(call.name, text), caller)


async def _gates(agent: ToolAgent, action: str, arguments: Mapping[str, Any]) -> list[TurnLock]:
    """Return the gates of the subagents that an action may touch, when no event keeps them."""
    named, state, live = (
        affected_subtrees(agent, action, arguments),
        agent.state,
        agent.session.live,
    )
    spoken_with = {*(state.speakers or state.subagents[-1:]), *state.listeners}
    gates = [
        agent.agent_by_id(id_).gate
        for name, id_ in agent.subagent_ids.items()
        if (name in named if named is not None else id_ in spoken_with or id_ in live)
    ]
    if any(gate.woken for gate in gates):
        await woken_ones_done(gates)
    return gates


def variables(agent: ToolAgent) -> Mapping[str, str | None]:
    """Return what programs that an agent runs get in their environment.

    The socket that we ourselves may have been given is not theirs: it speaks for another agent.
    """
    checkpoints = agent.runtime.checkpoints
    try:
        own = {} if checkpoints is None else checkpoints.variables(agent.session, agent.agent_id)
    except OSError as error:
        agent.runtime.notify(f"programs are not told which commit their agent is at: {error}")
        own = {}
    return {**agent.runtime.world.environment, VARIABLE: None, **own}


def log_result(agent: ToolAgent, call: OpenCall, result: ToolResult) -> None:
    """Log the one result of a call; what came from outside cannot begin as a hook's comment."""
    entry = TranscriptEntry(
        agent_id=agent.agent_id,
        role="tool",
        content=content_from_outside(result.content),
        substance=result.substance,
        cause=result.cause if result.substance is None else None,
        tool_call_id=call.id,
        name=call.name or UNNAMED,
        is_error=result.is_error,
    )
    try:
        agent.session.append(entry)
    except InvalidEvent as error:
        if result.substance is not None:
            entry.substance = None  # what a tool says it represents is not there, or is a copy
        elif not isinstance(result.content, str):
            entry.content = f"Error: {call.name} ran, and its result cannot be kept: {error}"
            entry.is_error = True
        else:
            raise
        agent.session.append(entry)
