"""The two lists of items that pages show and follow: a conversation, and a dialog.

Each has a number of items, ranges of them within the size of an answer, and the indexes of the
items that changed since a number of events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from harken.core.ids import AgentId
from harken.service.viewer.open_sessions import DialogList, OpenSession
from harken.service.viewer.rows import MAX_ITEMS, AnswerSize, resolve_agent
from harken.views.conversation.dialog_items import (
    build_dialog_item,
    find_dialog_text,
    iter_dialog_texts,
)
from harken.views.conversation.items import TextVersion

MAX_MATCHES = 5000
"""The maximum number of items that a search in a list returns."""
_MAX_SEARCHED_CHARS = 200_000_000
"""The number of characters after which a search in a list ends: a second, roughly."""


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

    @abstractmethod
    def iter_texts(self, index: int) -> Iterator[str]:
        """Yield the whole texts of an item."""

    @abstractmethod
    def find_last_before(self, position: int) -> int:
        """Return the index of the last item at a position of the log or before, or 0."""

    def find_matches(self, words: str) -> Matches:
        """Return the items that contain a text, upper and lower case alike."""
        words = words.casefold()
        indexes: list[int] = []
        searched_chars = 0
        for index in range(self.count()):
            for text in self.iter_texts(index):
                searched_chars += len(text)
                if words in text.casefold():
                    indexes.append(index)
                    break
            if searched_chars > _MAX_SEARCHED_CHARS or len(indexes) == MAX_MATCHES:
                return Matches(indexes, is_partial=index + 1 < self.count())
        return Matches(indexes, is_partial=False)

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


class Matches(NamedTuple):
    """The items of a list that contain a text."""

    indexes: list[int]
    is_partial: bool
    """Whether items after the last one were not searched."""


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

    def iter_texts(self, index: int) -> Iterator[str]:
        return self._conversations.iter_texts(self.agent, index)

    def find_last_before(self, position: int) -> int:
        return self._conversations.find_last_before(self.agent, position)


class DialogItems(ItemList):
    """The dialog of some agents."""

    def __init__(self, dialog: DialogList) -> None:
        self._dialog = dialog

    def count(self) -> int:
        return len(self._dialog.items)

    def find_changed(self, event_count: int) -> list[int]:
        return self._dialog.find_changed(event_count)

    def read(self, index: int) -> tuple[dict[str, Any], int]:
        return build_dialog_item(self._dialog.items[index]).as_json(), 0

    def iter_texts(self, index: int) -> Iterator[str]:
        return iter_dialog_texts(self._dialog.items[index])

    def find_last_before(self, position: int) -> int:
        return self._dialog.find_last_before(position)

    def find_text(self, message_id: str, version: str) -> str | None:
        """Return a whole text of an item: `shown`, `draft`, or the message id of a version.

        Return None if no item has it.
        """
        item = self._dialog.find(message_id)
        return None if item is None else find_dialog_text(item, version)


def find_text(
    session: OpenSession,
    message_id: str,
    *,
    part: int | None = None,
    version: str | None = None,
    agents: str | None = None,
) -> str | None:
    """Return a whole text of an item. Return None if the session has none. Raises ValueError.

    With `agents`, the item is one of their dialog, and has no parts.
    """
    if agents is None:
        text_version = msgspec.convert(version or "written", TextVersion)
        return session.conversations.find_text(message_id, part, text_version)
    if part is not None:
        raise ValueError("an item of a dialog has no parts: leave out part")
    dialog = DialogItems(session.dialog(resolve_agents(session, agents)))
    return dialog.find_text(message_id, version or "shown")


def find_panel(session: OpenSession, panel: str) -> ItemList:
    """Return the list of a panel: of an agent, of several with commas, or of the first primary one.

    Raises NameNotFound.
    """
    if "," in panel:
        return DialogItems(session.dialog(resolve_agents(session, panel)))
    return AgentItems(session, resolve_agent(session, panel or None))


def resolve_agents(session: OpenSession, agents: str) -> list[AgentId]:
    """Return the agents with these ids, which commas separate. Raises NameNotFound."""
    names = list(dict.fromkeys(agents.split(",")))[:MAX_ITEMS]
    return [resolve_agent(session, agent) for agent in names]
