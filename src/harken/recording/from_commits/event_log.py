"""The events of a session, and an agent's context as references to their entries.

A compaction repeats messages, but each message is logged once. So messages are identified by their
content and ids, and a context references existing entries. The ids and times of the events are
those of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from harken.core.events import KnownEvent, Segment
from harken.core.ids import MessageId, message_id
from harken.core.messages import ChatMessage, extend_context_hash_with, message_hash
from harken.recording.from_commits.known_requests import KnownRequests
from harken.session.fold import fold
from harken.session.state import SessionState


@dataclass(slots=True)
class EventLog:
    """The events of a session log, and the folded state."""

    events: list[KnownEvent] = field(default_factory=list)
    state: SessionState = field(default_factory=SessionState)
    requests: KnownRequests = field(default_factory=KnownRequests)
    """The requests that the transcripts record."""

    def append(self, event: KnownEvent, time: str) -> MessageId:
        """Append an event and return its id."""
        event.message_id, event.time = message_id(len(self.events)), time
        self.events.append(event)
        fold(self.state, event)
        return event.message_id


Key: TypeAlias = tuple[str, str | None, tuple[str, ...]]
"""The hash of a message, the call that it answers, and the calls that it makes."""


class ContextItem(NamedTuple):
    """A message in an agent's context."""

    id: MessageId
    key: Key
    time: str | None
    """The time of its entry."""


@dataclass(slots=True)
class AgentContext:
    """An agent's context, and the rolling hash after each message."""

    held: list[ContextItem] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.held)

    @property
    def hash(self) -> str:
        """The rolling hash of the complete context."""
        return self.hashes[-1] if self.hashes else ""

    def add(self, item: ContextItem) -> None:
        """Append a message."""
        self.hashes.append(extend_context_hash_with(self.hash, item.key[0]))
        self.held.append(item)

    def upto(self, count: int) -> AgentContext:
        """Return the first `count` messages as another context."""
        return AgentContext(self.held[:count], self.hashes[:count])

    def instead(self, target: Sequence[ContextItem]) -> AgentContext:
        """Return another context. The hashes of the common beginning are reused."""
        pairs = zip(self.held, target, strict=False)
        same_count = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        reads = self.upto(same_count)
        for item in target[same_count:]:
            reads.add(item)
        return reads

    def segments(self, target: Sequence[ContextItem]) -> list[Segment]:
        """Return another context as segments of this one, and entries that are not in it."""
        index_by_id = {item.id: index for index, item in enumerate(self.held)}
        return list(_iter_segments([(item.id, index_by_id.get(item.id)) for item in target]))

    def repeated(self, keys: Sequence[Key]) -> list[ContextItem | None]:
        """Return the item that each message repeats, the last equal one, or None if it is new.

        The result of a new call is new, too.
        """
        items_by_key: dict[Key, list[ContextItem]] = {}
        for item in self.held:
            items_by_key.setdefault(item.key, []).append(item)
        matches = [
            items_by_key[key].pop() if items_by_key.get(key) else None for key in reversed(keys)
        ][::-1]
        new_calls: set[str] = set()
        for index, key in enumerate(keys):
            if key[1] in new_calls:
                matches[index] = None
            elif matches[index] is None:
                new_calls.update(key[2])
        return matches


def message_key(message: ChatMessage) -> Key:
    """Return the key that identifies equal messages."""
    calls = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), message.tool_call_id, calls


def _iter_segments(indexes: Sequence[tuple[MessageId, int | None]]) -> Iterator[Segment]:
    """Yield segments for messages at these indexes. Messages without an index are named by id."""
    start = 0
    for stop in range(1, len(indexes) + 1):
        before = indexes[stop - 1][1]
        if stop < len(indexes):
            index = indexes[stop][1]
            if index == (None if before is None else before + 1):
                continue
        first = indexes[start][1]
        if first is None or before is None:
            yield Segment(entries=[id_ for id_, _ in indexes[start:stop]])
        else:
            yield Segment(start=first, stop=before + 1)
        start = stop
