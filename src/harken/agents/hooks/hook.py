"""Hooks: agents above an agent, which comment on, block or rewrite what it hears and does.

A hook is asked at four points. The question and its answer stand in the hook's own transcript,
in words (`OK`, `COMMENT: ...`, `DENY: ...`, `REWRITE: ...`), so that every intervention can be
read. The watched agent has no authority over it. Any agent can stand there; a `Hook` is one
whose judgement is code.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from harken.agents.agent import Agent
from harken.agents.dumb_agent import DumbAgent
from harken.agents.hooks.options import HookOptions, options_dict, options_from
from harken.agents.runtime import AgentRuntime
from harken.core.arguments import check_arguments, nearest
from harken.core.events import AgentConfigured, AgentMoved, Event, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.core.untrusted import from_outside
from harken.core.verdict import (
    FAILED,
    GUARDED,
    Comment,
    Deny,
    HookQuestion,
    HookVerdict,
    Ok,
    Rewrite,
    UnparsableVerdict,
    Verdict,
    checked,
    format_verdict,
    parse_verdict_entry,
)
from harken.errors import LogError, ModelError
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import current_task_cancelled

_logger = logging.getLogger(__name__)

BLOCKED = "Error: Action blocked by hook '{}': {}"
"""The result of an action that a hook denied: which hook, and why."""


LEAVES = "leaves"
"""The member of a spec that says to which question a hook gives its last verdict."""


class TurnEnded(Exception):
    """A move took an agent out of its place in the middle of a turn: somebody else answers now."""


class TurnStopped(Exception):
    """A hook ended the turn of the agent that it watches; the text says why, to whoever asked."""


@check_arguments
class Hook(DumbAgent):
    """A dumb hook: `judge` is code. Subclass it and `register` it.

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

    Options: ClassVar[type[HookOptions]] = HookOptions
    """What may be chosen."""
    options: HookOptions
    """What was chosen; there from `begin` on."""
    _leaves = False

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: AgentRuntime | None = None,
        options: Mapping[str, Any] | HookOptions | None = None,
    ) -> None:
        """Make a hook, to be put in its place by `install`; see `Agent`.

        Raises ConfigError, on one line, for options that it does not have.
        """
        self.options = options_from(self.kind, self.Options, options or {})
        super().__init__(session, system_prompt, init_prompt, runtime=runtime)

    def load_spec(self, state: AgentState) -> None:
        """Take the options of its birth.

        Raises ConfigError where the log has options that this kind does not have.
        """
        self.options = options_from(self.kind, self.Options, state.spec.get("options") or {})

    def spec(self) -> dict[str, Any]:
        """Return what the birth records: kind, and the options that are not as by default."""
        chosen = options_dict(self.options)
        return {**super().spec(), "options": chosen} if chosen else super().spec()

    @property
    def watched(self) -> Agent | None:
        """The agent that it watches; None for one that stands nowhere."""
        watched = self.state.parent
        return None if watched is None else self.agent_by_id(watched)

    def check_kind(self) -> None:
        """Raise TypeError if the class was not registered, or has no usable `judge`."""
        super().check_kind()
        made = type(self)
        if made.judge_question is not Hook.judge_question:
            return
        if made.judge is Hook.judge:
            near = nearest("judge", vars(made))
            raise TypeError(f"{made.__name__} has no method judge(self, question){near}")
        try:
            inspect.signature(self.judge).bind(None)
        except TypeError:
            raise TypeError(f"{made.__name__}.judge must take (self, question)") from None

    def judge(self, question: HookQuestion) -> Verdict | Awaitable[Verdict]:
        """Return the verdict; an exception denies at a guarded point, else is passed over.

        May be `async def`, for a hook that asks somebody else.
        """
        raise NotImplementedError

    def quit(self) -> None:
        """Watch no longer, once the verdict that is being made is given: called in `judge`."""
        self._leaves = True

    async def judge_question(
        self, question: HookQuestion, asked: MessageId
    ) -> tuple[Verdict, MessageId]:
        """Return what `judge` says, with the message that says so."""
        self._leaves = False
        said = self.judge(question)
        if not isinstance(said, Verdict) and isinstance(said, Awaitable):  # the latter takes long
            said = await said
        verdict = checked(said, question.point)
        if self._leaves:
            self.note_leaving(asked)
        words = self.say(format_verdict(verdict), asked)
        if self._leaves:
            self.session.append(
                AgentMoved(agent_id=self.agent_id, place="gone", cause=words.message_id)
            )
        return verdict, words.message_id or asked

    def note_leaving(self, asked: MessageId) -> None:
        """Log that it leaves with the verdict that it gives now: a resume completes that."""
        self.session.append(AgentConfigured(agent_id=self.agent_id, spec={LEAVES: asked}))

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a new hook, with a state of its own, for a new subagent; None for no hook.

        It has the same options. The subagent is not born yet: where this fails, it never will be.
        """
        return type(self)(agent.session, runtime=agent.runtime, options=self.options)


def finish_leaving(session: Session, state: AgentState) -> None:
    """Let a hook of code leave where a crash came just after its last verdict."""
    asked = state.spec.get(LEAVES)
    if state.place == "hook" and asked is not None:
        entries = session.agent(state.id).transcript or ()
        own = (one for one in reversed(entries) if one.cause == asked)
        said = next((one for one in own if parse_verdict_entry(one) is not None), None)
        if said is not None:
            session.append(AgentMoved(agent_id=state.id, place="gone", cause=said.message_id))


async def ask(hook: Agent, watched: AgentId | None, question: HookQuestion) -> HookVerdict | None:
    """Put a question to a hook; it and the verdict enter the hook's transcript.

    Of calls that are made at once, one is judged after the other: a hook may count. So by then it
    may have left (None), or another may stand in its place, who is asked then. Raises TurnEnded
    where it took the place of the agent that it watched.
    """
    while True:
        async with hook.asking.here():
            if hook.state.place == "gone":
                return None
            if _at(watched, hook) is hook:
                try:
                    opinion = await _ask(hook, question)
                    hook.after_verdict()
                    return opinion
                except TurnEnded:
                    pass  # its own move: is there somebody else to ask?
        taker = _at(watched, hook)
        if taker is None or taker is hook:
            raise TurnEnded
        hook = taker


def _at(watched: AgentId | None, hook: Agent) -> Agent | None:
    """Return who stands as a hook of an agent where this one stood; None: it took that one's."""
    agents = hook.session.agents
    one = hook.state
    for _ in agents:
        if one.parent == watched:
            return hook.agent_by_id(one.id) if one.place == "hook" else None
        if one.parent is None:
            return None
        one = agents[one.parent]
    return None


async def _ask(hook: Agent, question: HookQuestion) -> HookVerdict:
    heard = TranscriptEntry(
        agent_id=hook.agent_id, role="user", content=question.words, cause=question.subject
    )
    asked = hook.session.append(heard)
    try:
        verdict, said = await hook.judge_question(question, asked)
    except (LogError, ModelError, TurnEnded, TurnStopped):
        raise  # not this hook's failure: it reaches the user
    except asyncio.CancelledError as error:
        if current_task_cancelled():
            raise
        return _failed(hook, question, asked, error)
    except Exception as error:  # noqa: BLE001 - the border: a hook's failure is a verdict
        return _failed(hook, question, asked, error)
    return HookVerdict(hook.name, verdict, said)


def _failed(
    hook: Agent, question: HookQuestion, asked: MessageId, error: BaseException
) -> HookVerdict:
    if not isinstance(error, UnparsableVerdict):  # which a model caused, and no code
        _logger.error(
            "hook %s (%s) failed at %s of %s",
            *(hook.name, type(hook).__name__, question.point, question.agent),
            exc_info=error,
        )
    why = str(error) if isinstance(error, UnparsableVerdict) else f"{type(error).__name__}: {error}"
    note = TranscriptEntry(
        agent_id=hook.agent_id,
        role="system",
        content=f"{FAILED}{why}",
        cause=asked,
    )
    events: list[Event] = [note]
    if isinstance(hook, DumbAgent):
        with suppress(Exception):  # the state may be what failed
            events = hook.with_state(note)
    hook.session.append_all(events)
    denied = Deny(f"the hook failed ({why})")
    return HookVerdict(hook.name, denied if question.point in GUARDED else Ok(), note.message_id)


@dataclass(slots=True)
class CombinedVerdict:
    """What all hooks together said: a denial, or the text as rewritten, and comments."""

    comments: list[HookVerdict]
    denied: HookVerdict | None = None
    rewritten: str | None = None
    rewriter: HookVerdict | None = None


async def consult(
    hooks: Sequence[Agent], question: HookQuestion, said: Mapping[AgentId, HookVerdict]
) -> CombinedVerdict:
    """Ask hooks in order: all may comment, the first denial ends, rewrites chain.

    None is asked twice: what one has `said` already holds, and its comment was heard, or will be.
    Raises TurnEnded where one of them took the place of the agent that it watches.
    """
    judgement = CombinedVerdict(comments=[])
    watched = hooks[0].state.parent if hooks else None
    for hook in hooks:
        opinion = before = said.get(hook.agent_id)
        if opinion is None and question.point in hook.hook_points and is_concerned(hook, question):
            opinion = await ask(hook, watched, question)
        if opinion is None:
            continue
        match opinion.verdict:
            case Deny():
                judgement.denied = opinion
                return judgement
            case Comment() if before is None:
                judgement.comments.append(opinion)
            case Rewrite(text):
                judgement.rewritten, judgement.rewriter = text, opinion
                question = _with_text(question, text)
    return judgement


def is_concerned(hook: Agent, question: HookQuestion) -> bool:
    """Whether a hook wants to be asked this; one that fails at that is asked."""
    try:
        return hook.should_ask(question)
    except Exception:
        _logger.exception("hook %s (%s) failed in should_ask", hook.name, type(hook).__name__)
        return True


def _with_text(question: HookQuestion, text: str) -> HookQuestion:
    call = question.call
    if call is not None:
        call = ToolCall(call.id, FunctionCall(call.function.name, text), call.type, call.meta)
    return HookQuestion(question.point, question.agent, question.subject, text, call)


def comment_entry(watched: Agent, opinion: HookVerdict, text: str) -> TranscriptEntry:
    """Make the user message in which a watched agent hears a hook."""
    return TranscriptEntry(
        agent_id=watched.agent_id,
        role="user",
        content=f"[hook {opinion.hook}]: {from_outside(text)}",
        cause=opinion.message_id,
    )
