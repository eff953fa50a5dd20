"""Verdicts: what a hook is asked, and what it may say, in words that a log keeps.

Nothing here knows agents: any agent can be asked, and any can answer, by code or by a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harken.core.events import Reference
from harken.core.ids import MessageId
from harken.core.messages import ToolCall

Point: TypeAlias = Literal["input", "action", "result", "response"]
POINTS: frozenset[Point] = frozenset({"input", "action", "result", "response"})
GUARDED: frozenset[Point] = frozenset({"action", "response"})
"""Points where a hook that fails blocks; at the others it is passed over."""


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


def is_question(words: str) -> bool:
    """Whether a hook is asked something with these words.

    >>> is_question(Question("input", "main", "msg_003", "Hi.").words), is_question("[hook g]: Hi.")
    (True, False)
    """
    return re.match(r"\[(input|action|result|response)\] Agent ", words) is not None


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


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict with whose it is and the message that says so."""

    hook: str
    verdict: Verdict
    message_id: MessageId
