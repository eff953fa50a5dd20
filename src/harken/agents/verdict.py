"""Verdicts: what a hook is asked, and what it may say, in words that a log keeps.

Nothing here knows agents: any agent can be asked, and any can answer, by code or by a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from harken.core.arguments import check_arguments
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.messages import ToolCall, text_of
from harken.core.outside import from_outside
from harken.core.text import preview
from harken.core.verdict_words import Said, freely

Point: TypeAlias = Literal["input", "action", "result", "response"]
POINTS: frozenset[Point] = frozenset({"input", "action", "result", "response"})
GUARDED: frozenset[Point] = frozenset({"action", "response"})
"""Points where a hook that fails blocks; at the others it is passed over."""


@dataclass(frozen=True, slots=True)
class Ok:
    """Nothing to say."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Comment:
    """Something for the watched agent to hear."""

    text: str


@check_arguments
@dataclass(frozen=True, slots=True)
class Deny:
    """It must not happen."""

    reason: str


@check_arguments
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


FORMS: Mapping[type, str] = {
    Ok: "OK",
    Comment: "COMMENT: what the agent shall hear",
    Deny: "DENY: why it must not be",
    Rewrite: "REWRITE: what it shall be instead, the arguments as JSON or the whole response",
}
"""How a model is told to say each."""


def checked(verdict: Verdict, point: Point) -> Verdict:
    """Return what a hook said, if it may say so at this point. Raises TypeError."""
    if not isinstance(verdict, ALLOWED[point]):
        forms = ", ".join(kind.__name__ for kind in ALLOWED[point])
        raise TypeError(f"{verdict!r} is no verdict on {point}: return an instance of {forms}")
    text = verdict.reason if isinstance(verdict, Deny) else getattr(verdict, "text", "")
    if not isinstance(text, str):
        raise TypeError(f"{verdict!r} says no text")
    return verdict


@check_arguments
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
        """The question as the hook hears it: what is judged stands between two equal lines."""
        return f"[{self.point}] Agent {_named(self.agent)} {self._does}:\n{_fenced(self.text)}"

    @property
    def _does(self) -> str:
        """What the agent did, or is about to do."""
        called = _named(self.call.function.name) if self.call else ""
        return {
            "input": "has heard",
            "action": f"is about to call {called} with",
            "result": "got the result",
            "response": "is about to answer",
        }[self.point]


@lru_cache(maxsize=4)
def _fenced(text: str) -> str:
    """Return a text between two lines that it does not have; several hooks are asked about it."""
    text, fence = from_outside(text), "~~~"
    while fence in text:
        fence += "~"
    return f"{fence}\n{text}\n{fence}"


_QUESTION = re.compile(r"\[(input|action|result|response)\] Agent ")


def is_question(entry: TranscriptEntry) -> bool:
    """Whether an entry of a hook's transcript is what it was asked to judge.

    Whatever else it hears with a cause begins differently: its notes, what it is asked again,
    what hooks of its own say.
    """
    if entry.role != "user" or entry.cause is None:
        return False
    return _QUESTION.match(text_of(entry.content)) is not None


@lru_cache(maxsize=64)
def _named(name: str) -> str:
    """Return a name as it is where it is plain, else so that it cannot be taken for a sentence."""
    plain = re.fullmatch(r"[\w.:/-]{1,100}", name)
    return name if plain else json.dumps(name[:100])


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


class NoVerdict(ValueError):
    """What a model said is no verdict that there is at this point; the text says so to people."""


def verdict_in(words: str, point: Point) -> Verdict:
    r"""Read a verdict as a model says it, where it may be said. Raises NoVerdict.

    >>> verdict_in("It is the third one.\n**DENY:** too many", "action"), verdict_in("ok", "input")
    (Deny(reason='too many'), Ok())
    """
    said = freely(words)
    verdict = None if said is None else verdict_of(said)
    if verdict is None or not isinstance(verdict, ALLOWED[point]):
        forms = ", ".join(
            form.partition(" ")[0] for kind, form in FORMS.items() if kind in ALLOWED[point]
        )
        raise NoVerdict(f"its answer {preview(words)!r} is none of {forms}")
    return verdict


def verdict_of(said: Said) -> Verdict:
    """Return a verdict for its words."""
    match said.word:
        case "OK":
            return Ok()
        case "COMMENT":
            return Comment(said.text)
        case "DENY":
            return Deny(said.text)
        case "REWRITE":
            return Rewrite(said.text)


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict with whose it is and the message that says so."""

    hook: str
    verdict: Verdict
    message_id: MessageId
