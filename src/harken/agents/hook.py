"""Hooks: agents above an agent, which comment on, block or rewrite what it hears and does.

A hook is asked at four points. The question and its answer stand in the hook's own transcript,
in words (`OK`, `COMMENT: ...`, `DENY: ...`, `REWRITE: ...`), so that every intervention can be
read. The watched agent has no authority over it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias

from harken.agents.base import Agent
from harken.agents.dumb import DumbAgent
from harken.agents.runtime import Runtime
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import AgentId, MessageId, base_of, number_of
from harken.core.messages import FunctionCall, ToolCall
from harken.errors import ConfigError, LogError, ModelError
from harken.session.session import Session
from harken.world.lock import LoopLock
from harken.world.result import is_cancelled

Point: TypeAlias = Literal["input", "action", "result", "response"]
GUARDED: frozenset[Point] = frozenset({"action", "response"})
"""Points where a hook that fails blocks; at the others it is passed over."""
BLOCKED = "Error: Action blocked by hook '{}': {}"
"""The result of an action that a hook denied: which hook, and why."""


@dataclass(frozen=True, slots=True)
class Ok:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class Comment:
    """Something for the watched agent to hear."""

    text: str


@dataclass(frozen=True, slots=True)
class Deny:
    """It must not happen."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """It happens differently: other arguments (JSON) of an action, another text of a response."""

    text: str


Verdict: TypeAlias = Ok | Comment | Deny | Rewrite


ALLOWED: dict[Point, tuple[type, ...]] = {
    "input": (Ok, Comment),
    "result": (Ok, Comment),
    "action": (Ok, Comment, Deny, Rewrite),
    "response": (Ok, Comment, Deny, Rewrite),
}
"""What a hook may say at each point; anything else counts as its failure."""


def checked(verdict: Verdict, point: Point) -> Verdict:
    """Return what a hook said, if it may say so at this point. Raises TypeError."""
    if not isinstance(verdict, ALLOWED[point]):
        raise TypeError(f"{verdict!r} is no verdict on {point}")
    text = verdict.reason if isinstance(verdict, Deny) else getattr(verdict, "text", "")
    if not isinstance(text, str):
        raise TypeError(f"{verdict!r} says no text")
    return verdict


@dataclass(frozen=True, slots=True)
class Question:
    """What a hook is asked to judge."""

    point: Point
    agent: str
    """The name of the watched agent."""
    subject: Reference
    """The message or call that it is about."""
    text: str
    """The input, result or response; for an action, its arguments as JSON."""
    call: ToolCall | None = None
    """The action itself, as hooks before this one have rewritten it."""

    @property
    def words(self) -> str:
        """The question as the hook hears it."""
        what = {
            "input": "has heard",
            "action": f"is about to call {self.call.function.name if self.call else ''} with",
            "result": "got the result",
            "response": "is about to answer",
        }
        return f"[{self.point}] Agent {self.agent} {what[self.point]}: {self.text}"


def in_words(verdict: Verdict) -> str:
    """Write a verdict in the words of the hook protocol."""
    match verdict:
        case Ok():
            return "OK"
        case Comment(text):
            return f"COMMENT: {text}"
        case Deny(reason):
            return f"DENY: {reason}"
        case Rewrite(text):
            return f"REWRITE: {text}"


def read_verdict(words: str) -> Verdict:
    """Read a verdict. Raises ValueError where the words are none.

    >>> read_verdict("DENY: too many"), read_verdict("ok")
    (Deny(reason='too many'), Ok())
    """
    if words.strip().rstrip(".").upper() == "OK":
        return Ok()
    match = re.fullmatch(r"\s*(COMMENT|DENY|REWRITE)\s*[:.]\s*(.*)", words, re.DOTALL)
    if match is None:
        raise ValueError(f"{words!r} is none of OK, COMMENT: ..., DENY: ..., REWRITE: ...")
    kinds: dict[str, type[Comment | Deny | Rewrite]] = {
        "COMMENT": Comment,
        "DENY": Deny,
        "REWRITE": Rewrite,
    }
    return kinds[match[1]](match[2])


class Hook(DumbAgent):
    """A dumb hook: `judge` is code. Subclass it and `register` it."""

    points: ClassVar[frozenset[Point]] = frozenset({"input", "action", "result", "response"})
    """Where it is asked."""

    def attach(self, session: Session, agent_id: AgentId, runtime: Runtime) -> None:
        """Bind the object to its identity in the session."""
        self._asking = LoopLock()
        super().attach(session, agent_id, runtime)

    def concerns(self, question: Question) -> bool:
        """Whether it wants to be asked this; what it does not is as if it were OK, and not logged.

        For a hook that seldom has something to say. One that raises here is asked.
        """
        return True

    def judge(self, question: Question) -> Verdict | Awaitable[Verdict]:
        """Return the verdict; an exception denies at a guarded point, else is passed over.

        May be `async def`, for a hook that asks somebody else.
        """
        raise NotImplementedError

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a new hook, with a state of its own, for a new subagent; None for no hook.

        The subagent is not born yet: where this fails, it never will be.
        """
        return type(self)(agent.session, runtime=agent.runtime)

    def install(self, agent: Agent, name: str | None = None) -> Self:
        """Begin to watch an agent: the birth names the agent's own birth as its cause."""
        self.log_birth(agent.state.birth, name or self.kind, "hook")
        return self

    async def ask(self, question: Question) -> Opinion:
        """Put a question; it and the verdict enter the hook's transcript.

        Of calls that are made at once, one is judged after the other: a hook may count.
        """
        async with self._asking.here():
            return await self._ask(question)

    async def _ask(self, question: Question) -> Opinion:
        heard = TranscriptEntry(
            agent_id=self.agent_id, role="user", content=question.words, cause=question.subject
        )
        asked = self.session.append(heard)
        try:
            judged = self.judge(question)
            said = await judged if isinstance(judged, Awaitable) else judged
            verdict = checked(said, question.point)
            words = self.say(in_words(verdict), asked)
        except (LogError, ModelError):
            raise  # not this hook's failure: it reaches the user
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return self._failed(question, asked, error)
        except Exception as error:  # noqa: BLE001 - the border: a hook's failure is a verdict
            return self._failed(question, asked, error)
        return Opinion(self.name, verdict, words.message_id or asked)

    def has_judged(self, subject: Reference) -> bool:
        """Whether it has given its verdict on this, be it before a resume."""
        answered: set[str] = set()
        for entry in reversed(self._own_entries()):
            if _number(entry.message_id) < _number(subject):
                return False
            if entry.role == "user" and entry.cause == subject and entry.message_id in answered:
                return True
            if entry.role != "user" and isinstance(entry.cause, str):
                answered.add(entry.cause)
        return False

    def _failed(self, question: Question, asked: MessageId, error: BaseException) -> Opinion:
        note = TranscriptEntry(
            agent_id=self.agent_id,
            role="system",
            content=f"[hook failed] {type(error).__name__}: {error}",
            cause=asked,
        )
        noted = self.session.append(note)
        with suppress(Exception):  # the state may be what failed; a log that failed says so again
            self.save_state()
        denied = Deny(f"the hook failed ({type(error).__name__}: {error})")
        return Opinion(self.name, denied if question.point in GUARDED else Ok(), noted)


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict with whose it is and the message that says so."""

    hook: str
    verdict: Verdict
    message_id: MessageId


@dataclass(slots=True)
class Judgement:
    """What all hooks together said: a denial, or the text as rewritten, and comments."""

    comments: list[Opinion]
    denied: Opinion | None = None
    rewritten: str | None = None
    rewriter: Opinion | None = None


async def consult(hooks: Sequence[Agent], question: Question) -> Judgement:
    """Ask hooks in order: all may comment, the first denial ends, rewrites chain.

    Raises ConfigError where one of them cannot be asked: a guard is never passed over in silence.
    """
    judgement = Judgement(comments=[])
    for hook in hooks:
        if not isinstance(hook, Hook):
            raise ConfigError(f"{hook.name} watches as a hook, but {hook.kind} is no kind of hook")
        if question.point not in hook.points or not _is_concerned(hook, question):
            continue
        opinion = await hook.ask(question)
        match opinion.verdict:
            case Deny():
                judgement.denied = opinion
                return judgement
            case Comment():
                judgement.comments.append(opinion)
            case Rewrite(text):
                judgement.rewritten, judgement.rewriter = text, opinion
                question = _with_text(question, text)
    return judgement


def _is_concerned(hook: Hook, question: Question) -> bool:
    try:
        return hook.concerns(question)
    except Exception:  # noqa: BLE001 - it is asked, and fails where that is logged
        return True


def _number(reference: Reference) -> int:
    return number_of(base_of(reference), "msg_") or 0


def _with_text(question: Question, text: str) -> Question:
    call = question.call
    if call is not None:
        call = ToolCall(call.id, FunctionCall(call.function.name, text), call.type, call.meta)
    return Question(question.point, question.agent, question.subject, text, call)


def comment_entry(watched: Agent, opinion: Opinion, text: str) -> TranscriptEntry:
    """Make the user message in which a watched agent hears a hook."""
    return TranscriptEntry(
        agent_id=watched.agent_id,
        role="user",
        content=f"[hook {opinion.hook}]: {text}",
        cause=opinion.message_id,
    )
