"""What an agent reads, message by message, while it is told: as entries of the events so far.

One idea: a compaction repeats messages, and what was said once is one entry. So each message is
known by its content and its ids, and a context is named by the entries that are there already.

The story: the events so far, and what they amount to. Its ids and times are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from harken.core.events import KnownEvent, Segment
from harken.core.ids import MessageId, message_id
from harken.core.messages import ChatMessage, extend_context_hash_with, message_hash
from harken.session.fold import fold
from harken.session.state import SessionState


@dataclass(slots=True)
class EventLog:
    """Events, as the log of a session would hold them, and the state after the last one."""

    events: list[KnownEvent] = field(default_factory=list)
    state: SessionState = field(default_factory=SessionState)

    def say(self, event: KnownEvent, time: str) -> MessageId:
        """Add an event; return its id."""
        event.message_id, event.time = message_id(len(self.events)), time
        self.events.append(event)
        fold(self.state, event)
        return event.message_id


Key: TypeAlias = tuple[str, str | None, tuple[str, ...]]
"""The hash of a message, the call that it answers, and the calls that it makes."""


class ContextItem(NamedTuple):
    """A message that an agent reads."""

    id: MessageId
    key: Key
    time: str | None
    """As its entry says."""


@dataclass(slots=True)
class Reads:
    """What an agent reads, and the rolling hash after each message."""

    held: list[ContextItem] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.held)

    @property
    def hash(self) -> str:
        """The rolling hash of all of it."""
        return self.hashes[-1] if self.hashes else ""

    def add(self, one: ContextItem) -> None:
        """Read one more."""
        self.hashes.append(extend_context_hash_with(self.hash, one.key[0]))
        self.held.append(one)

    def upto(self, count: int) -> Reads:
        """Return the first of it, to be gone on with elsewhere."""
        return Reads(self.held[:count], self.hashes[:count])

    def instead(self, target: Sequence[ContextItem]) -> Reads:
        """Return another context; what it begins with alike is not hashed again."""
        pairs = zip(self.held, target, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        found = self.upto(same)
        for one in target[same:]:
            found.add(one)
        return found

    def segments(self, target: Sequence[ContextItem]) -> list[Segment]:
        """Return another context as stretches of this one, and entries that are not in it."""
        places = {one.id: at for at, one in enumerate(self.held)}
        return list(_stretches([(one.id, places.get(one.id)) for one in target]))

    def repeated(self, keys: Sequence[Key]) -> list[ContextItem | None]:
        """Return what messages repeat, each the last that is like it; None: it is new.

        A result of a call that is made anew is new, too.
        """
        known: dict[Key, list[ContextItem]] = {}
        for one in self.held:
            known.setdefault(one.key, []).append(one)
        found = [known[key].pop() if known.get(key) else None for key in reversed(keys)][::-1]
        made: set[str] = set()
        for at, key in enumerate(keys):
            if key[1] in made:
                found[at] = None
            elif found[at] is None:
                made.update(key[2])
        return found


def message_key(message: ChatMessage) -> Key:
    """Return by what a message is known again."""
    calls = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), message.tool_call_id, calls


def _stretches(places: Sequence[tuple[MessageId, int | None]]) -> Iterator[Segment]:
    """Yield segments for messages at these places; None: it has none."""
    start = 0
    for stop in range(1, len(places) + 1):
        before = places[stop - 1][1]
        if stop < len(places):
            here = places[stop][1]
            if here == (None if before is None else before + 1):
                continue
        first = places[start][1]
        if first is None or before is None:
            yield Segment(entries=[id_ for id_, _ in places[start:stop]])
        else:
            yield Segment(start=first, stop=before + 1)
        start = stop
