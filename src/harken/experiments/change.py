"""`Change`: what is different in a rerun, as a person says it.

A message of a context is named by its id (`msg_007`, or `7`), by its place (`#0` is the first), or
by its place from the end (`-1`). Places are those of the recorded context, whatever else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import Content, ContentPart, Message, TextPart, ThinkingPart
from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.views.context import ContextMessage

_SHOWN = 12
_LONGEST_NUMBER = 18
"""Digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is different; by default nothing is."""

    edit: Sequence[tuple[str, str]] = ()
    """Messages, and what they say instead. Thinking, images and calls stay as they are."""
    drop: Sequence[str] = ()
    """Messages that are not there."""
    system: str | None = None
    """The system prompt; empty: there is none."""
    model: str | None = None
    without_hooks: Sequence[str] = ()
    """Names of hooks that do not watch."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the model (`temperature`, `seed`, ...), beside the recorded ones; None takes one away."""

    def context(self, rows: Sequence[ContextMessage]) -> list[Message]:
        """Return a recorded context with this change.

        Raises NameNotFound, AmbiguousName; ConfigError for what contradicts itself.
        """
        messages: dict[int, Message] = {row.position: row.message for row in rows}
        dropped = {find_message(rows, given) for given in self.drop}
        edited: set[int] = set()
        for given, text in self.edit:
            at = find_message(rows, given)
            if at in dropped or at in edited:
                raise ConfigError(
                    f"message #{at} is {'dropped' if at in dropped else 'edited'}, "
                    f"and edited by {given!r}, too: give one change of it"
                )
            edited.add(at)
            messages[at] = saying(messages[at], text)
        for at in dropped:
            del messages[at]
        found = list(messages.values())
        if self.system is None:
            return found
        rest = dropwhile(lambda message: message.role == "system", found)
        return [*([Message("system", self.system)] if self.system else []), *rest]

    def asked_with(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the model."""
        both = {**recorded, **self.parameters}
        return {name: value for name, value in both.items() if value is not None}

    def said(self) -> list[str]:
        """Return what is different, a line each; what texts became is in the context itself.

        >>> Change(edit=[("#1", "Tea.")], drop=["msg_007"], model="openai/gpt-6").said()
        ['edited #1', 'dropped msg_007', 'model openai/gpt-6']
        """
        told = [f"edited {given}" for given, _ in self.edit]
        told += [f"dropped {given}" for given in self.drop]
        told += ["another system prompt"] if self.system is not None else []
        told += [f"model {self.model}"] if self.model is not None else []
        told += [f"without hook {name}" for name in self.without_hooks]
        return told + [
            f"{name} {canonical.to_canonical_bytes(value).decode()}"
            for name, value in self.parameters.items()
        ]


def find_message(rows: Sequence[ContextMessage], given: str) -> int:
    """Return the place of a message in a context, from 0. Raises NameNotFound, AmbiguousName."""
    digits = given[1:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER
    if given[:1] in ("#", "-") and is_number:
        at = int(digits) if given[0] == "#" else len(rows) - int(digits)
        if 0 <= at < len(rows):
            return at
    wanted = {given, f"msg_{given:0>3}"}
    found = [row.position for row in rows if row.message_id in wanted]
    if len(found) > 1:
        raise AmbiguousName("message of this context", given, [f"#{at}" for at in found])
    if not found:
        raise NameNotFound("message of this context", given, _named(rows))
    return found[0]


def saying(message: Message, text: str) -> Message:
    """Return a message that says another text; an empty one: none.

    >>> saying(Message("user", [TextPart("a"), TextPart("b")]), "c").content
    [TextPart(text='c', meta=None)]
    """
    content: Content = text or None
    if isinstance(message.content, list):
        content = _instead(message.content, text) or None
    elif message.role == "tool":
        content = text
    return msgspec.structs.replace(message, content=content)


def _instead(parts: Iterable[ContentPart], text: str) -> list[ContentPart]:
    """Return parts with one text where the first was; without one, after the thinking."""
    kept: list[ContentPart] = []
    at: int | None = None
    for part in parts:
        if isinstance(part, TextPart):
            at = len(kept) if at is None else at
        else:
            kept.append(part)
    if at is None:
        at = sum(1 for part in kept if isinstance(part, ThinkingPart))
    return [*kept[:at], *([TextPart(text)] if text else []), *kept[at:]]


def _named(rows: Sequence[ContextMessage]) -> list[str]:
    """Return how messages can be named, the last ones first: those are edited most."""
    return [f"#{row.position} ({row.message_id or row.message.role})" for row in rows[::-1]][
        :_SHOWN
    ]
