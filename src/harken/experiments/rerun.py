"""`rerun`: run a session again from a recorded model call, with or without changes.

    point = ForkPoint.find("coffee", events, "-1", log=log)
    change = Change(model="openai/gpt-6")
    result = await rerun(point, Path("again.jsonl"), change, runtime=AgentRuntime())

The new session is a branch of the recorded one, with all of its agents and hooks; for another
program, its agent starts from a commit of the changed context. The agent of the call runs to the
end of its turn; a resume goes on with the agents that wait for it. Tool calls that are equal to
recorded ones get the recorded results; others are refused, or run in a given world. The original
session is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, load_agent
from harken.agents.open_calls import answer_or_stop
from harken.agents.runtime import AgentRuntime
from harken.agents.tool_agent import ToolAgent
from harken.context.materialize import make_resolver
from harken.core import structs
from harken.core.events import ToolsDefined
from harken.core.messages import FunctionCall, Message
from harken.errors import BudgetExceeded, ConfigError, ModelError
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.forked_agent import begin_fork, build_tools, check_hooks
from harken.experiments.provider_rules import check_edit, find_family
from harken.experiments.replay.recorded_calls import RecordedCalls
from harken.experiments.replay.recorded_world import RecordedWorld, recorded_actions, recorded_tools
from harken.experiments.scene_branch import branch_scene
from harken.llm.base import Model
from harken.session.session import Session, SessionOptions
from harken.store.base import Store
from harken.world.world import World

SUCCESS_REASON = "rerun"
"""Reason of the end of a successful rerun's session."""
FAILURE_REASON = "rerun failed"
"""Reason of the end of a session whose model failed. It can be resumed."""
_COMMON_PARAMETERS = frozenset(
    {
        *("max_tokens", "max_output_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "top_k", "seed", "stop", "stop_sequences"),
    }
)
"""Parameters with the same meaning for all providers."""
_PROVIDERS_BY_PREFIX = {"claude": "anthropic", **dict.fromkeys(("gpt", "o1", "o3", "o4"), "openai")}


class RerunResult(msgspec.Struct, frozen=True):
    """The result of a rerun."""

    log: Path
    answer: str | None = None
    """Final answer of the agent, or None if its model failed."""
    error: str | None = None
    """Error of the model, or of the worker that ran it."""
    differing: Sequence[tuple[str, FunctionCall]] = ()
    """Agent name and call of each unrecorded call, in order."""
    waiting: Sequence[str] = ()
    """Names of the agents that wait for the answer. They go on when the session is resumed."""


async def rerun(
    point: ForkPoint,
    log: Path,
    change: Change | None = None,
    *,
    runtime: AgentRuntime,
    store: Store | None = None,
    live: World | None = None,
    follow: bool = False,
) -> RerunResult:
    """Run the agent in a new log until the end of its turn; return the result.

    `runtime` resolves models and hooks by name; its world is not used. `live` runs unrecorded
    calls; without it they are refused. With `follow`, later inputs of the recorded agent are sent
    again, in order. Raises ContextRefused, NameNotFound or ConfigError before the first model call;
    StoreError, LogError. An error of the model is not raised, but returned and logged.
    """
    change = change or Change()
    model = check_rerun(point, change, runtime)
    if log.exists() and log.stat().st_size:
        raise ConfigError(f"{log}: the session exists; a rerun creates a new one")
    world = _build_world(point, live)
    begin = _begin_branch if point.is_run_by_harken else _begin_foreign
    session, agent = begin(
        point, log, change, runtime=replace(runtime, world=world), model=model, store=store
    )
    with session:
        inputs = point.inputs_after() if follow else []
        answer, error = await _run_agent(agent, inputs)
        if runtime.checkpoints is not None:
            runtime.checkpoints.finish(session, runtime.notify)
        session.end(SUCCESS_REASON if error is None else FAILURE_REASON)
        waiting = _find_waiting(session, agent)
    return RerunResult(session.path, answer, error, tuple(world.unrecorded_calls), waiting)


def _find_waiting(session: Session, agent: Agent) -> tuple[str, ...]:
    """Return the names of the other agents with open calls."""
    return tuple(
        state.name or state.id
        for state in session.agents.values()
        if state.open_calls and state.id != agent.agent_id and session.state.is_live(state.id)
    )


def _begin_branch(
    point: ForkPoint,
    log: Path,
    change: Change,
    *,
    runtime: AgentRuntime,
    model: Model,
    store: Store | None,
) -> tuple[Session, Agent]:
    """Branch a session of Harken before the call. Return it with the agent of the call.

    The other agents have the actions that some agent had before; they act when they are asked.
    """
    resolver = point.resolver if store is None else make_resolver(store)
    log.unlink(missing_ok=True)  # an empty file that reserves the name
    options = SessionOptions(resolver=resolver, redact=runtime.redact)
    branch_scene(point, log, change, options=options)
    schemas = [
        schema
        for event in point.steps.links
        if isinstance(event, ToolsDefined)
        for schema in event.tools
    ]
    policy = replace(runtime.policy, actions=recorded_actions(schemas))
    session = Session.load(log, options=options)
    try:
        agent = load_agent(session, point.agent_id, replace(runtime, policy=policy))
        if isinstance(agent, ToolAgent):
            agent.set_tools(build_tools(offered_tools(point, model), is_own=True))
    except BaseException:
        session.close()
        raise
    return session, agent


def _begin_foreign(
    point: ForkPoint,
    log: Path,
    change: Change,
    *,
    runtime: AgentRuntime,
    model: Model,
    store: Store | None,
) -> tuple[Session, Agent]:
    """Begin a session with the agent of another program's call."""
    assert isinstance(runtime.world, RecordedWorld)
    world, schemas = runtime.world, offered_tools(point, model)
    runtime = replace(runtime, model=model)
    change = _without_specific_parameters(point, change)
    resolver = None if store is None else make_resolver(store)
    options = SessionOptions(resolver=resolver, redact=runtime.redact)
    session = Session(log, options=options)
    try:
        agent = begin_fork(point, change, session, runtime=runtime, schemas=schemas, store=store)
    except BaseException:
        session.close()
        raise
    agent.set_recorded_inputs(world, point.inputs_by_result())
    agent.accept_calls(
        tool for agent_name, tool, _ in world.calls.by_key if agent_name == point.name
    )
    return session, agent


def check_rerun(point: ForkPoint, change: Change, runtime: AgentRuntime) -> Model:
    """Return the model of a rerun after checking the change. Raises as `rerun`."""
    edit_context(point, change)
    check_hooks(point, change, runtime)
    return get_rerun_model(point, change, runtime)


def edit_context(point: ForkPoint, change: Change) -> list[Message]:
    """Return the changed context of a fork point.

    Raises ContextRefused if it violates a rule of the provider, NameNotFound for an unknown
    message, HarkenError if the log lacks part of the context.
    """
    if any(row.loaded for row in point.context) and not point.is_complete:
        raise ConfigError(
            f"{point.session}: what {point.request.message_id} saw is partly in a store that is "
            f"not at hand, or not as it was; open the store that the session was kept in"
        )
    messages = change.context(point.context)
    check_edit(point.messages, messages, find_family(change.model or point.request.model))
    return messages


def get_rerun_model(point: ForkPoint, change: Change, runtime: AgentRuntime) -> Model:
    """Return the changed or the recorded model. Raises ConfigError."""
    name = change.model or point.request.model
    if change.model is None and not point.is_run_by_harken and "/" not in name and ":" not in name:
        provider = next(
            (
                prefix_provider
                for prefix, prefix_provider in _PROVIDERS_BY_PREFIX.items()
                if name.startswith(prefix)
            ),
            None,
        )
        if provider is None:
            raise ConfigError(
                f"the provider of the model {name!r} is not known: name it with --model"
            )
        name = f"{provider}/{name}"
    return runtime.get_model(name)


def offered_tools(point: ForkPoint, model: Model) -> list[dict[str, Any]]:
    """Return the tool schemas of the rerun, which are the recorded ones.

    Files of other programs do not contain tool schemas. Providers reject calls of unknown tools, so
    in that case each called tool gets a schema with its name only.
    """
    if (
        point.is_run_by_harken
        or point.request.tools is not None
        or model.name.startswith("replay:")
    ):
        return point.tools
    called_names = [call.function.name for row in point.messages for call in row.tool_calls or ()]
    any_object = {"type": "object", "additionalProperties": True}
    return [
        {"name": name, "description": "", "parameters": any_object}
        for name in dict.fromkeys(called_names)
    ]


def _without_specific_parameters(point: ForkPoint, change: Change) -> Change:
    """Return a change without provider-specific parameters of the recorded request.

    A recorded request of another program has all members of its body as parameters. A replay needs
    all of them, because they are part of the request's identity. Other models get only common
    parameters.
    """
    if (change.model or "").startswith("replay:"):
        return change
    dropped = {name: None for name in point.parameters if name not in _COMMON_PARAMETERS}
    return structs.replace(change, parameters={**dropped, **change.parameters})


def _build_world(point: ForkPoint, live: World | None) -> RecordedWorld:
    """Return a world with the recorded results after the fork point."""
    actions = frozenset(ACTIONS) if point.is_run_by_harken else frozenset[str]()
    calls = RecordedCalls.of(point.steps.links, point.request.message_id, actions)
    live_tools = {} if live is None else live.tools
    tools = [tool for tool in recorded_tools(point.tools) if tool.name not in live_tools]
    return RecordedWorld(calls, tools=tools, live=live)


async def _run_agent(
    agent: Agent, inputs: Sequence[Sequence[str]]
) -> tuple[str | None, str | None]:
    """Run the agent with further inputs. Return its last answer, or its error."""
    try:
        answer = await answer_or_stop(agent)
        for *earlier, last in inputs:
            for text in earlier:
                agent.harken(text)
            answer = await answer_or_stop(agent, last)
    except (ModelError, BudgetExceeded) as error:
        return None, str(error)
    return str(answer), None
