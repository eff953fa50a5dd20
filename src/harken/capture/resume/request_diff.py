"""Where two requests differ, message by message, for people.

One idea: what is the same is found first, so that one message that is missing is one difference,
not all that follow it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

Message: TypeAlias = dict[str, Any]
"""A message as it is sent: of Anthropic, OpenAI or Gemini."""
Request: TypeAlias = list[Message]
State: TypeAlias = Literal["same", "changed", "missing", "added"]

_TEXTS = ("text", "thinking", "name", "arguments", "content", "output")
_SHOWN = 60
"""How many characters of a difference are shown."""


@dataclass(frozen=True, slots=True)
class MessageComparison:
    """A message of either request."""

    state: State
    number: int
    """Its place, from 1: in what is expected, of `added` in what was sent."""
    role: str
    said: str
    difference: str = ""
    """Where it first differs."""


def rows(expected: Request, sent: Request) -> Iterator[MessageComparison]:
    """Yield what became of each message, in order."""
    ours, theirs = [*map(key, expected)], [*map(key, sent)]
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from (_row("same", at, expected[at]) for at in range(i1, i2))
            continue
        for at, to in zip_longest(range(i1, i2), range(j1, j2)):
            if at is None:
                yield _row("added", to, sent[to])
            elif to is None:
                yield _row("missing", at, expected[at])
            else:
                difference = first_difference(expected[at], sent[to])
                yield _row("changed", at, expected[at], difference)


def _row(state: State, at: int, message: Message, difference: str = "") -> MessageComparison:
    role = message.get("role") or message.get("type") or "?"
    return MessageComparison(state, at + 1, str(role), " ".join(_said(message).split()), difference)


def first_difference(ours: Any, theirs: Any, where: str = "") -> str:
    """Return where two values first differ, and how; empty: they do not.

    >>> first_difference({"content": [{"text": "at one"}]}, {"content": [{"text": "at two"}]})
    'content[0].text: "one" is not "two", from character 3 on'
    """
    if key(ours) == key(theirs):
        return ""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            inner = f"{where}.{name}" if where else str(name)
            if name not in theirs or name not in ours:
                there, gone = ("expected", "sent") if name in ours else ("sent", "expected")
                return f"{inner}: {_short((ours | theirs)[name])} is {there} and not {gone}"
            if found := first_difference(ours[name], theirs[name], inner):
                return found
    if isinstance(ours, list) and isinstance(theirs, list):
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if found := first_difference(one, other, f"{where}[{at}]"):
                return found
        return f"{where}: {len(ours)} are expected, {len(theirs)} were sent"
    if isinstance(ours, str) and isinstance(theirs, str):
        both = enumerate(zip(ours, theirs, strict=False))
        at = next((i for i, (a, b) in both if a != b), min(len(ours), len(theirs)))
        return f"{where}: {_short(ours[at:])} is not {_short(theirs[at:])}, from character {at} on"
    return f"{where}: {_short(ours)} is not {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def key(value: Any) -> str:
    """Return by what two values are equal: as JSON, where 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


def _said(value: Any, name: str = "text") -> str:
    """Return what a message says, for people."""
    if isinstance(value, dict):
        return " ".join(filter(None, (_said(inner, name) for name, inner in value.items())))
    if isinstance(value, list):
        return " ".join(filter(None, (_said(inner, name) for inner in value)))
    return value if isinstance(value, str) and name in _TEXTS else ""
