"""The rows of answers: as JSON values with long texts cut, within the size of an answer.

The routes and the page in one file compute their answers with these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.ids import AgentId, MessageId
from harken.errors import NameNotFound
from harken.service.viewer.open_sessions import OpenSession
from harken.views.conversation.items import MAX_TEXT_CHARS, cut_text
from harken.views.dialogs.dialog import find_primary_agents
from harken.views.tree import TreeRow

MAX_ITEMS = 500
"""The maximum number of items in an answer."""
MAX_LANES_CHARS = 1_000_000
"""The number of characters of the lanes of a timeline: some thousand agents."""
_MIN_TEXT_CHARS = 64
"""The number of characters that a text keeps, however little room there is."""
_MEMBER_CHARS = 8
"""The characters of a member of an object beside its name and value, roughly."""
MAX_ANSWER_BYTES = 2_000_000
"""The number of bytes after which an answer has no further items."""


class AnswerSize:
    """The size of an answer while rows are added. Each answer has at least one row."""

    def __init__(self, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._size, self._max_bytes = 0, max_bytes

    def add(self, row: object, *, steps: int = 0) -> bool:
        """Add a row. Return False, and do not add it, if the answer has no room for it.

        A step of computation counts as a byte.
        """
        size = len(canonical.to_json_line(row)) + steps
        if self._size and self._size + size > self._max_bytes:
            return False
        self._size += size
        return True


def take_rows(rows: Iterable[msgspec.Struct]) -> list[Any]:
    """Return rows as JSON values with long texts cut, as many as an answer has room for."""
    size = AnswerSize()
    return [*takewhile(size.add, map(to_json, rows))]


def state_of(session: OpenSession) -> dict[str, Any]:
    """Return the members that tell which state of a session an answer shows."""
    return {
        "generation": session.generation,
        "events": session.event_count,
        "is_complete": session.is_complete,
    }


def resolve_agent(session: OpenSession, agent: str | None) -> AgentId:
    """Return the agent with this id, or the first one that the user talked with.

    Raises NameNotFound.
    """
    names = session.links.names.latest_names
    if agent is None:
        primary = find_primary_agents(session.links)
        if not primary:
            raise NameNotFound("agent", "primary", [])
        return primary[0]
    if agent not in names:
        raise NameNotFound("agent", agent, names)
    return AgentId(agent)


def find_message(session: OpenSession, message_id: str) -> MessageId:
    """Return the id of a message of the log. Raises NameNotFound."""
    reference = session.links.target(message_id)
    if session.links.get(reference) is None:
        raise NameNotFound("message", message_id, [])
    return reference


def agents_of(rows: Sequence[TreeRow]) -> dict[str, Any]:
    """Return the member `agents` of an answer, and with very many `agents_total`."""
    agents: dict[str, Any] = cut_value({"agents": msgspec.to_builtins(rows)})
    return agents


def to_json(row: msgspec.Struct) -> Any:
    """Return a row as a JSON value, with long texts cut: `text_length` has the length of `text`."""
    return cut_value(msgspec.to_builtins(row))


def cut_value(value: Any, max_chars: int = MAX_ANSWER_BYTES) -> Any:
    """Return a JSON value with its long texts and lists cut, at any depth.

    `NAME_length` has the length of a cut text, and `NAME_total` that of a cut list. All texts
    together have about `max_chars` characters.
    """
    return _Cutter(max_chars).cut(value)


class _Cutter:
    """Cuts the texts and lists of a value until nothing is left of a number of characters."""

    def __init__(self, max_chars: int) -> None:
        self._left = max_chars

    def cut(self, value: Any) -> Any:
        """Return a value as far as there is room for it."""
        if isinstance(value, str):
            text = cut_text(value, max(_MIN_TEXT_CHARS, min(MAX_TEXT_CHARS, self._left)))
            self._left -= len(text)
            return text
        if isinstance(value, list):
            return [*self._cut_rows(value)]
        if not isinstance(value, dict):
            return value
        members: dict[str, Any] = {}
        for name, member in value.items():
            self._left -= len(name) + _MEMBER_CHARS
            members[name] = self.cut(member)
            if isinstance(member, str | list) and len(members[name]) < len(member):
                suffix = "length" if isinstance(member, str) else "total"
                members[f"{name}_{suffix}"] = len(member)
        return members

    def _cut_rows(self, rows: list[Any]) -> Iterator[Any]:
        for row in rows:
            if self._left <= 0:
                return
            yield self.cut(row)
