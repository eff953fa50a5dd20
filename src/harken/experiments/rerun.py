"""`rerun`: from a recorded model call on, the run goes another way, or the same way again.

    point = ForkPoint.find("coffee", events, "-1")
    done = await rerun(point, "again.jsonl", Change(model="openai/gpt-6"), runtime=Runtime())

The context of the call, with what is changed in it, is a commit with which the agent of a new
session begins. Its tool calls are answered from the record where they are the same; others are
refused, or run live where a world is given. The session that it comes from is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.runtime import AgentRuntime
from harken.context.materialize import resolver
from harken.core.messages import FunctionCall, Message
from harken.errors import BudgetExceeded, ConfigError, ModelError
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.forked_agent import SessionForker, check_hooks
from harken.experiments.provider_rules import check_edit, family_of
from harken.experiments.replay.recorded_calls import RecordedCalls
from harken.experiments.replay.recorded_world import RecordedWorld, recorded_actions, recorded_tools
from harken.llm.base import Model
from harken.session.session import Session, SessionOptions
from harken.store.base import Store
from harken.world.world import World

REASON = "rerun"
"""How a session ends that was a rerun and came to its end."""
FAILED = "rerun failed"
"""How one ends whose model failed: it can be resumed."""
_TASTES = frozenset(
    {
        *("max_tokens", "max_output_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "top_k", "seed", "stop", "stop_sequences"),
    }
)
"""Parameters that mean the same to whoever is asked."""
_BY_PREFIX = {"claude": "anthropic", **dict.fromkeys(("gpt", "o1", "o3", "o4"), "openai")}


@dataclass(frozen=True, slots=True)
class RerunResult:
    """How a rerun ended."""

    log: Path
    answer: str | None = None
    """What the agent said in the end; None: its model failed."""
    error: str | None = None
    """How its model failed."""
    differing: Sequence[tuple[str, FunctionCall]] = ()
    """Calls that the record does not have: the agent's name and the call, in order."""


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
    """Take the other road into a new log, until the turn ends; return how it went.

    runtime: gives models and hooks by name; its world is not used. live: runs the calls that the
    record does not have; None: they are refused. follow: what the agent was told later is said
    again, in order. Raises ContextRefused, NameNotFound or ConfigError before anything is asked;
    StoreError, LogError. A failing model is no exception here: the session says so, and so does
    what is returned.
    """
    change = change or Change()
    messages, model = check(point, change, runtime)
    if log.exists() and log.stat().st_size:
        raise ConfigError(f"{log}: there is a session already; a rerun begins a new one")
    world = _world(point, live)
    actions = recorded_actions(point.tools) if point.is_own else runtime.actions
    runtime = replace(runtime, world=world, model=model, actions=actions)
    options = SessionOptions(resolver=None if store is None else resolver(store))
    with Session(log, options=options) as session:
        forking = SessionForker(point, _fitting(point, change), session, runtime, store)
        agent = forking.begin(messages, offered_tools(point, model))
        if not point.is_own:
            agent.hear_with(world, point.told_with())
            agent.take(tool for who, tool, _ in world.calls.by_key if who == point.name)
        inputs = point.inputs_after() if follow else []
        answer, error = await _live(agent, inputs)
        if runtime.checkpoints is not None:
            runtime.checkpoints.finish(session, runtime.notify)
        session.end(REASON if error is None else FAILED)
    return RerunResult(session.path, answer, error, tuple(world.differing))


def check(point: ForkPoint, change: Change, runtime: AgentRuntime) -> tuple[list[Message], Model]:
    """Return the context and the model of a rerun that can begin. Raises as `rerun`."""
    messages = edited(point, change)
    check_hooks(point, change, runtime)
    return messages, model_for(point, change, runtime)


def edited(point: ForkPoint, change: Change) -> list[Message]:
    """Return the context of a fork point as it is changed.

    Raises ContextRefused where its provider would refuse it, NameNotFound for a message that is
    not there, HarkenError where the log lacks some of the context.
    """
    if any(row.loaded for row in point.context) and not point.is_whole:
        raise ConfigError(
            f"{point.session}: what {point.request.message_id} saw is partly in a store that is "
            f"not at hand, or not as it was; open the store that the session was kept in"
        )
    messages = change.context(point.context)
    check_edit(point.messages, messages, family_of(change.model or point.request.model))
    return messages


def model_for(point: ForkPoint, change: Change, runtime: AgentRuntime) -> Model:
    """Return the model to ask: a new one, or the recorded one. Raises ConfigError."""
    name = change.model or point.request.model
    if change.model is None and not point.is_own and "/" not in name and ":" not in name:
        provider = next((p for start, p in _BY_PREFIX.items() if name.startswith(start)), None)
        if provider is None:
            raise ConfigError(f"who answers for the model {name!r}? Say so with --model")
        name = f"{provider}/{name}"
    return runtime.get_model(name)


def offered_tools(point: ForkPoint, model: Model) -> list[dict[str, Any]]:
    """Return the schemas that the agent is offered: the recorded ones.

    What a program offered is not in the files that it keeps. A provider refuses calls of tools that
    are not offered: then those are, of which there is a call, by their names alone.
    """
    if point.is_own or point.request.tools is not None or model.name.startswith("replay:"):
        return point.tools
    made = [call.function.name for row in point.messages for call in row.tool_calls or ()]
    anything = {"type": "object", "additionalProperties": True}
    return [
        {"name": name, "description": "", "parameters": anything} for name in dict.fromkeys(made)
    ]


def _fitting(point: ForkPoint, change: Change) -> Change:
    """Return a change without the parameters that only the program meant that sent them.

    Those of a recorded request are all that its body said. A replay is asked with them, for they
    are a part of the request; another model with what every model understands.
    """
    if point.is_own or (change.model or "").startswith("replay:"):
        return change
    others = {name: None for name in point.parameters if name not in _TASTES}
    return replace(change, parameters={**others, **change.parameters})


def _world(point: ForkPoint, live: World | None) -> RecordedWorld:
    """Return a world that answers as it did after the call."""
    actions = frozenset(ACTIONS) if point.is_own else frozenset[str]()
    calls = RecordedCalls.of(point.stepping.links, point.request.message_id, actions)
    there = {} if live is None else live.tools
    tools = [tool for tool in recorded_tools(point.tools) if tool.name not in there]
    return RecordedWorld(calls, tools=tools, live=live)


async def _live(agent: Agent, inputs: Sequence[Sequence[str]]) -> tuple[str | None, str | None]:
    """Let an agent go on, and hear these inputs; return its last answer, or how it failed."""
    try:
        answer = await agent.response()
        for *before, last in inputs:
            for text in before:
                agent.harken(text)
            answer = await agent.response(last)
    except (ModelError, BudgetExceeded) as error:
        return None, str(error)
    return str(answer), None
