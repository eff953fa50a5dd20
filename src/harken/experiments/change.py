"""`Change`: the modifications of a rerun, as given by a user.

A message of a context is given by its id (`msg_007`, or `7`), by its position (`#0` is the first),
or by its position from the end (`-1`). Positions are those of the recorded context, regardless of
other changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core.messages import Content, Message, replace_content_text
from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.views.context import ContextMessage

_MAX_LISTED = 12
_MAX_NUMBER_DIGITS = 18
"""Longer digit strings are treated as ids."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The modifications of a rerun. By default nothing is changed."""

    edit: Sequence[tuple[str, str]] = ()
    """Messages and their new text. Thinking, images and calls are unchanged."""
    drop: Sequence[str] = ()
    """Messages to remove."""
    system: str | None = None
    """The new system prompt. An empty text removes it."""
    model: str | None = None
    without_hooks: Sequence[str] = ()
    """Names of hooks to remove."""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Model parameters (`temperature`, `seed`, ...) to add or replace; None removes one."""

    def context(self, rows: Sequence[ContextMessage]) -> list[Message]:
        """Apply the change to a recorded context. Raises as `layout`."""
        return [message for _, message in self.layout(rows)]

    def layout(self, rows: Sequence[ContextMessage]) -> list[tuple[int | None, Message]]:
        """Apply the change to a recorded context. Return each message with its recorded position.

        The position of a new system prompt is None. Raises NameNotFound, AmbiguousName, and
        ConfigError for a contradiction.
        """
        messages: dict[int, Message] = {row.position: row.message for row in rows}
        dropped = {find_message(rows, ref) for ref in self.drop}
        edited: set[int] = set()
        for ref, text in self.edit:
            position = find_message(rows, ref)
            if position in dropped or position in edited:
                raise ConfigError(
                    f"message #{position} is {'dropped' if position in dropped else 'edited'}, "
                    f"and edited by {ref!r}, too: give one change of it"
                )
            edited.add(position)
            messages[position] = replace_text(messages[position], text)
        for position in dropped:
            del messages[position]
        changed: list[tuple[int | None, Message]] = [*messages.items()]
        if self.system is None:
            return changed
        remaining = dropwhile(lambda item: item[1].role == "system", changed)
        return [*([(None, Message("system", self.system))] if self.system else []), *remaining]

    def merge_parameters(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model parameters of the rerun."""
        merged = {**recorded, **self.parameters}
        return {name: value for name, value in merged.items() if value is not None}

    def describe(self) -> list[str]:
        """Describe the change, one line per item. New texts are not included.

        >>> Change(edit=[("#1", "Tea.")], drop=["msg_007"], model="openai/gpt-6").describe()
        ['edited #1', 'dropped msg_007', 'model openai/gpt-6']
        """
        lines = [f"edited {ref}" for ref, _ in self.edit]
        lines += [f"dropped {ref}" for ref in self.drop]
        lines += ["another system prompt"] if self.system is not None else []
        lines += [f"model {self.model}"] if self.model is not None else []
        lines += [f"without hook {name}" for name in self.without_hooks]
        return lines + [
            f"{name} {canonical.to_canonical_bytes(value).decode()}"
            for name, value in self.parameters.items()
        ]


def find_message(rows: Sequence[ContextMessage], ref: str) -> int:
    """Return the position of a message in a context. Raises NameNotFound, AmbiguousName."""
    digits = ref[1:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_NUMBER_DIGITS
    if ref[:1] in ("#", "-") and is_number:
        position = int(digits) if ref[0] == "#" else len(rows) - int(digits)
        if 0 <= position < len(rows):
            return position
    ids = {ref, f"msg_{ref:0>3}"}
    matches = [row.position for row in rows if row.message_id in ids]
    if len(matches) > 1:
        raise AmbiguousName("message", ref, [f"#{position}" for position in matches])
    if not matches:
        raise NameNotFound("message", ref, _list_messages(rows))
    return matches[0]


def replace_text(message: Message, text: str) -> Message:
    """Return a message with another text. An empty text removes the text."""
    content: Content = replace_content_text(message.content, text)
    if message.role == "tool" and content is None:
        content = text
    return structs.replace(message, content=content)


def _list_messages(rows: Sequence[ContextMessage]) -> list[str]:
    """Format the references of messages, last message first, because it is edited most often."""
    return [f"#{row.position} ({row.message_id or row.message.role})" for row in rows[::-1]][
        :_MAX_LISTED
    ]
