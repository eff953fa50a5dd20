"""The two lists of items that pages show and follow: a conversation, and a dialog.

Each has a number of items, ranges of them within the size of an answer, and the indexes of the
items that changed since a number of events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import Query

from harken.core.ids import AgentId
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.requests import (
    MAX_ITEMS,
    MAX_NAME_CHARS,
    AnswerSize,
    resolve_agent,
)
from harken.views.conversation.dialog_items import build_dialog_item, find_dialog_text
from harken.views.conversation.items import TextVersion


class ItemList(ABC):
    """A list of items by position. A later event appends items or changes earlier ones."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of items."""

    @abstractmethod
    def find_changed(self, event_count: int) -> list[int]:
        """Return the indexes of the items that changed since this number of events, in order."""

    @abstractmethod
    def read(self, index: int) -> tuple[dict[str, Any], int]:
        """Return an item, and the steps that its comparisons took."""

    def take(self, indexes: Iterable[int]) -> list[Any]:
        """Return the items at these indexes as JSON values, as many as an answer has room for."""
        size = AnswerSize()
        rows: list[Any] = []
        for index in indexes:
            if index >= self.count():
                break
            row, steps = self.read(index)
            if not size.add(row, steps=steps):
                break
            rows.append(row)
        return rows


class AgentItems(ItemList):
    """The conversation of an agent."""

    def __init__(self, session: OpenSession, agent: AgentId) -> None:
        self.agent = agent
        self._conversations = session.conversations

    def count(self) -> int:
        return self._conversations.count(self.agent)

    def find_changed(self, event_count: int) -> list[int]:
        return self._conversations.find_changed(self.agent, event_count)

    def read(self, index: int) -> tuple[dict[str, Any], int]:
        before = self._conversations.steps
        [item] = self._conversations.items(self.agent, index, index + 1)
        return item.as_json(), self._conversations.steps - before


class DialogItems(ItemList):
    """The dialog of some agents."""

    def __init__(self, session: OpenSession, agents: Sequence[AgentId]) -> None:
        self._dialog = session.dialog(agents)

    def count(self) -> int:
        return len(self._dialog.items)

    def find_changed(self, event_count: int) -> list[int]:
        return self._dialog.find_changed(event_count)

    def read(self, index: int) -> tuple[dict[str, Any], int]:
        return build_dialog_item(self._dialog.items[index]).as_json(), 0

    def find_text(self, message_id: str, version: str) -> str | None:
        """Return a whole text of an item: `shown`, `draft`, or the message id of a version.

        Return None if no item has it.
        """
        item = self._dialog.find(message_id)
        return None if item is None else find_dialog_text(item, version)


class TextRequest:
    """Which text of an item is requested."""

    def __init__(
        self,
        *,
        part: Annotated[int | None, Query(ge=0, le=10**9)] = None,
        version: Annotated[str | None, Query(max_length=MAX_NAME_CHARS)] = None,
        agents: Annotated[str | None, Query(max_length=10_000)] = None,
    ) -> None:
        """With `agents`, the item is one of their dialog, and has no parts."""
        self._part, self._version, self._agents = part, version, agents

    def find(self, session: OpenSession, message_id: str) -> str | None:
        """Return the whole text. Return None if the session has none. Raises ValueError."""
        if self._agents is not None:
            if self._part is not None:
                raise ValueError("an item of a dialog has no parts: leave out part")
            dialog = DialogItems(session, resolve_agents(session, self._agents))
            return dialog.find_text(message_id, self._version or "shown")
        version = msgspec.convert(self._version or "written", TextVersion)
        return session.conversations.find_text(message_id, self._part, version)


def resolve_agents(session: OpenSession, agents: str) -> list[AgentId]:
    """Return the agents with these ids, which commas separate. Raises NameNotFound."""
    names = list(dict.fromkeys(agents.split(",")))[:MAX_ITEMS]
    return [resolve_agent(session, agent) for agent in names]
