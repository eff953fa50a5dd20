"""What a context has to become: which of its items stay, which return, which are new.

One idea: a context is a row of items that are known by their keys. What a request has in common
with it from the beginning is found by comparing keys, the rest item by item: the cost is that of
what changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harken.core.events import Segment
from harken.core.ids import MessageId
from harken.recording.item import Item, LoggedItem


@dataclass(frozen=True, slots=True)
class ItemOrigin:
    """Where an item of a request is taken from; neither: it is new."""

    index: int | None = None
    """Its position among the items of the context now."""
    returns: LoggedItem | None = None
    """It was heard before, and is not in the context now."""

    @property
    def is_new(self) -> bool:
        """Whether nobody heard it yet."""
        return self.index is None and self.returns is None


NEW = ItemOrigin()


def is_same(item: Item, heard: LoggedItem) -> bool:
    """Whether an item says what was heard; an answer may come back slightly changed."""
    if item.key == heard.key:
        return True
    return bool(heard.likeness) and heard.likeness == item.likeness


def shared(items: Sequence[Item], row: Sequence[LoggedItem]) -> int:
    """Return how many items the two have in common from the beginning."""
    count = 0
    for item, heard in zip(items, row, strict=False):
        if not is_same(item, heard):
            break
        count += 1
    return count


def places(
    items: Sequence[Item],
    row: Sequence[LoggedItem],
    common: int,
    known: Mapping[str, Sequence[LoggedItem]],
) -> list[ItemOrigin]:
    """Return where each item after the first `common` comes from.

    row: the context now, which begins with those; known: what was heard before, by key.
    """
    waiting = _Waiting.of(row, common)
    found = [_kept(item, waiting) for item in items[common:]]
    last = max((at for at, place in enumerate(found) if place.index is not None), default=-1)
    gone = _Gone(known, row)
    follows = not row
    for at, place in enumerate(found):
        heard = gone.first(items[common + at].key) if place.is_new else None
        if heard is not None and (at < last or follows or heard.role != "user"):
            found[at] = ItemOrigin(returns=heard)
            gone.take(heard)
        # What a person says last is new, though the same words were there before, and dropped.
        follows = found[at].returns is not None
    return found


@dataclass(slots=True)
class _Waiting:
    """Items of a context that no item of a request was found for yet, by key and likeness."""

    by_key: dict[str, list[int]]
    by_likeness: dict[str, int]
    taken: set[int]

    @classmethod
    def of(cls, row: Sequence[LoggedItem], common: int) -> _Waiting:
        by_key: dict[str, list[int]] = {}
        for at in range(len(row) - 1, common - 1, -1):
            by_key.setdefault(row[at].key, []).append(at)
        alike = {row[at].likeness: at for at in range(common, len(row)) if row[at].likeness}
        return cls(by_key, alike, set())


def _kept(item: Item, waiting: _Waiting) -> ItemOrigin:
    """Return the first item of the context with this key that is not taken yet."""
    same = waiting.by_key.get(item.key, [])
    while same:
        at = same.pop()
        if at not in waiting.taken:
            waiting.taken.add(at)
            return ItemOrigin(index=at)
    if waiting.by_likeness:
        alike = waiting.by_likeness.get(item.likeness or "?")
        if alike is not None and alike not in waiting.taken:
            waiting.taken.add(alike)
            return ItemOrigin(index=alike)
    return NEW


@dataclass(slots=True)
class _Gone:
    """What was heard before and is not in the context, by key; of each the next that may return.

    It is looked at once: a context may say the same a thousand times.
    """

    known: Mapping[str, Sequence[LoggedItem]]
    row: Sequence[LoggedItem]
    _taken: set[int] = field(default_factory=set)
    _at: dict[str, int] = field(default_factory=dict)

    def first(self, key: str) -> LoggedItem | None:
        """Return the first with this key that is not in the context, nor taken; None: none is."""
        same = self.known.get(key, ())
        if same and not self._taken:
            self._taken = {id(heard) for heard in self.row}
        at = self._at.get(key, 0)
        while at < len(same) and id(same[at]) in self._taken:
            at += 1
        self._at[key] = at
        return same[at] if at < len(same) else None

    def take(self, heard: LoggedItem) -> None:
        """Note that it returns."""
        self._taken.add(id(heard))


@dataclass(slots=True)
class SegmentBuilder:
    """The segments of an edit, neighbours as one."""

    made: list[Segment]

    def keep(self, start: int, stop: int) -> None:
        """Go on with these messages of the context."""
        if start == stop:
            return
        last = self.made[-1] if self.made else None
        if last is not None and last.entries is None and last.stop == start:
            self.made[-1] = Segment(start=last.start, stop=stop)
        else:
            self.made.append(Segment(start=start, stop=stop))

    def name(self, ids: Sequence[MessageId]) -> None:
        """Go on with these entries, which are not in the context."""
        last = self.made[-1] if self.made else None
        if last is not None and last.entries is not None:
            self.made[-1] = Segment(entries=[*last.entries, *ids])
        else:
            self.made.append(Segment(entries=list(ids)))
