"""Hooks: agents above an agent, which comment on, block or rewrite its input and actions.

A hook is asked at four points. Every verdict is an event of the log (`hook_verdict`). A smart hook
also has the question and its answer in its own transcript, since its model reads them; a hook of
code has not. The watched agent has no authority over its hooks. Any agent can be a hook; a `Hook`
judges with code.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ClassVar

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.agent_classes import check_points
from harken.agents.dumb_agent import DumbAgent
from harken.agents.hooks.error_log import log_error
from harken.agents.hooks.options import HookOptions, options_dict, options_from
from harken.agents.open_calls import finish_open_calls
from harken.agents.runtime import AgentRuntime
from harken.agents.turn_end import StoppedByHook, TurnEnded
from harken.core.arguments import check_arguments, format_suggestion
from harken.core.event_types.spec import AgentSpec, HookPoint, Standing
from harken.core.events import Event
from harken.core.ids import AgentId
from harken.core.verdict import (
    BLOCKING_POINTS,
    HOOK_POINTS,
    Deny,
    HookQuestion,
    Ok,
    UnparsableVerdict,
    Verdict,
    check_verdict,
)
from harken.errors import AgentBusy, LogError, ModelError
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import current_task_cancelled


@check_arguments
class Hook(DumbAgent):
    """A hook that judges with code, in its method `judge`. Subclass it and `register` it.

    A kind of hooks that can be had in several ways says so with a class of options:

        class Every(HookOptions, frozen=True):
            requests: int = 10

        @register("reminder")
        class Reminder(Hook):
            Options = Every
            options: Every

    It is made by its registered name and plain JSON values, `Reminder(session, runtime=runtime,
    options={"requests": 5})`, and so is whatever a file or a configuration names. Its birth logs
    them in its spec, `{"kind": "reminder", "options": {"requests": 5}}` (nothing where all are as
    by default), and there they are found again after a resume. Options do not change: what changes
    is state (`dump_state`).
    """

    points: ClassVar[frozenset[HookPoint]] = HOOK_POINTS
    """The points at which it is asked, unless its spec names others."""
    Options: ClassVar[type[HookOptions]] = HookOptions
    """The class of its options."""
    options: HookOptions
    """Its options, set before `begin`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the points of a class. Raises TypeError, and ValueError for an unknown point."""
        super().__init_subclass__(**kwargs)
        check_points(cls)

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: AgentRuntime | None = None,
        options: Mapping[str, Any] | HookOptions | None = None,
    ) -> None:
        """Create a hook, to be installed with `install`; see `Agent`.

        Raises ConfigError, with a single line, for unknown options.
        """
        self.options = options_from(self._kind, self.Options, options or {})
        super().__init__(session, system_prompt, init_prompt, runtime=runtime)

    def _load_spec(self, state: AgentState) -> None:
        """Load the options from its birth.

        Raises ConfigError for options that this kind does not have.
        """
        self.options = options_from(self._kind, self.Options, state.spec.options or {})

    def _spec(self) -> AgentSpec:
        """Return the spec of the birth: the kind, the points, options that are not the defaults."""
        options = options_dict(self.options) or None
        standing = Standing(points=sorted(self.points))
        return super()._spec().merge(AgentSpec(options=options, standing=standing))

    @property
    def watched(self) -> Agent | None:
        """The agent that it watches, or None if it is not installed."""
        watched = self.state.parent
        return None if watched is None else get_agent(self, watched)

    def _check_kind(self) -> None:
        """Raise TypeError if the class is not registered, or has no usable `judge`."""
        super()._check_kind()
        cls = type(self)
        if cls._judge_question is not Hook._judge_question:
            return
        if cls.judge is Hook.judge:
            hint = format_suggestion("judge", vars(cls))
            raise TypeError(f"{cls.__name__} has no method judge(self, question){hint}")
        try:
            inspect.signature(self.judge).bind(None)
        except TypeError:
            raise TypeError(f"{cls.__name__}.judge must take (self, question)") from None

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether to ask this hook a question; if not, it counts as OK and is not logged.

        Override it in a hook that rarely comments. If it raises, the hook is asked.
        """
        return True

    def judge(self, question: HookQuestion) -> Verdict | Awaitable[Verdict]:
        """Return the verdict; an exception denies at a guarded point and is ignored elsewhere.

        May be `async def`, for a hook that awaits other agents or services.
        """
        raise NotImplementedError

    async def _judge(self, question: HookQuestion) -> Any:
        """Return the value of `judge`."""
        value: Any = self.judge(question)
        if isinstance(value, Verdict) or not isinstance(value, Awaitable):
            return value  # The check for Awaitable is slow.
        return await value

    def _check_verdict(self, value: Any, point: HookPoint) -> Verdict:
        """Return the verdict that `judge` returned. Raises TypeError for any other value."""
        return check_verdict(value, point)

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a new hook, with a state of its own, for a new subagent, or None for no hook.

        It has the same options. The subagent is not born yet: if this fails, it never will be.
        """
        return type(self)(agent.session, runtime=agent.runtime, options=self.options)

    def _copy_for(self, agent: Agent) -> Agent | None:
        return self.copy_for(agent)


def hook_points(hook: Agent) -> frozenset[HookPoint]:
    """Return the points at which an agent is asked while it is a hook."""
    points = hook.state.spec.standing.points
    return HOOK_POINTS if points is None else frozenset(points)


_judged_agents: ContextVar[frozenset[tuple[Session, AgentId | None]]] = ContextVar(
    "agents about which a hook is asked", default=frozenset()
)


def check_not_judged(agent: Agent) -> None:
    """Raise AgentBusy if the caller is the judgment of a hook about this agent.

    Such a call would ask the same hook, which waits for it.
    """
    if (agent.session, agent.agent_id) in _judged_agents.get():
        raise AgentBusy(agent.name)


async def ask_hook(hook: Agent, watched: AgentId, question: HookQuestion) -> None:
    """Ask a hook a question; its verdict is logged.

    Concurrent calls are judged in sequence, since a hook may count them. A waiting hook may have
    left, or another agent may have its place, which is asked then. Raises TurnEnded if the hook
    took the place of the watched agent.
    """
    while True:
        async with hook._question_lock.current():
            if hook.state.place == "gone":
                return
            if _find_replacement(watched, hook) is hook:
                token = _judged_agents.set(_judged_agents.get() | {(hook.session, watched)})
                try:
                    await _ask(hook, watched, question)
                    return
                except TurnEnded:
                    pass  # it moved: ask the agent in its place, if any
                finally:
                    _judged_agents.reset(token)
        taker = _find_replacement(watched, hook)
        if taker is None or taker is hook:
            raise TurnEnded
        hook = taker


def _find_replacement(watched: AgentId | None, hook: Agent) -> Agent | None:
    """Return the agent now in this hook's place, or None if the hook replaced `watched`."""
    agents = hook.session.agents
    state = hook.state
    for _ in agents:
        if state.parent == watched:
            return get_agent(hook, state.id) if state.place == "hook" else None
        if state.parent is None:
            return None
        state = agents[state.parent]
    return None


async def _ask(hook: Agent, watched: AgentId, question: HookQuestion) -> None:
    """Let a hook judge. A failure is logged as its verdict.

    Calls that were left open for another question are given up. Raises TurnEnded if that moved the
    hook.
    """
    if hook.state.open_calls and question.subject not in hook.state.questions:
        await finish_open_calls(hook)
        if _find_replacement(watched, hook) is not hook:
            raise TurnEnded
    try:
        await hook._judge_question(question)
    except (LogError, ModelError, TurnEnded, StoppedByHook):
        raise  # no failure of this hook: the caller handles it
    except asyncio.CancelledError as error:
        if current_task_cancelled():
            raise
        _log_failure(hook, question, error)
    except Exception as error:  # noqa: BLE001 - the border: a hook's failure is a verdict
        _log_failure(hook, question, error)


def _log_failure(hook: Agent, question: HookQuestion, error: BaseException) -> None:
    if not isinstance(error, UnparsableVerdict):  # caused by a model, not by code
        log_error(hook, f"at {question.point} of {question.agent}", error)
    reason = (
        str(error) if isinstance(error, UnparsableVerdict) else f"{type(error).__name__}: {error}"
    )
    changes: list[Event] = []
    if isinstance(hook, DumbAgent):
        with suppress(Exception):  # the state may be what failed
            changes = hook._changed_state()
    verdict = Deny(texts.HOOK_FAILED.format(reason)) if is_guarded(question.point) else Ok()
    with hook.session.group():
        hook._log_verdict(question, verdict, failed=reason)
        hook.session.append_all(changes)


def is_guarded(point: HookPoint) -> bool:
    """Whether the failure of a hook blocks at a point."""
    return point in BLOCKING_POINTS


def is_to_be_asked(hook: Agent, question: HookQuestion) -> bool:
    """Whether a hook is to be asked; a hook whose check fails is asked."""
    try:
        return not isinstance(hook, Hook) or hook.should_ask(question)
    except Exception as error:  # noqa: BLE001 - the border: a hook's failure is no answer
        log_error(hook, "in should_ask", error)
        return True
