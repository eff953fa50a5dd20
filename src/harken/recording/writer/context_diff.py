"""Diff the items of a request against the items of a context.

A context is a list of items with keys. The common prefix is found by comparing keys, and the
remaining items are matched one by one. The cost is proportional to the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harken.core.events import Segment
from harken.core.ids import MessageId
from harken.recording.writer.item import Item, LoggedItem


class ItemOrigin(msgspec.Struct, frozen=True):
    """The origin of an item of a request. The item is new if both fields are None."""

    index: int | None = None
    """Its index in the current context."""
    removed_item: LoggedItem | None = None
    """An earlier item that is not in the current context."""

    @property
    def is_new(self) -> bool:
        """Whether the item was never logged before."""
        return self.index is None and self.removed_item is None


NEW_ITEM = ItemOrigin()


def is_same(item: Item, logged: LoggedItem) -> bool:
    """Whether an item equals a logged item. A client may return an answer slightly changed."""
    if item.key == logged.key:
        return True
    return bool(logged.likeness) and logged.likeness == item.likeness


def common_prefix_length(items: Sequence[Item], row: Sequence[LoggedItem]) -> int:
    """Return the length of the common prefix of two item lists."""
    count = 0
    for item, logged in zip(items, row, strict=False):
        if not is_same(item, logged):
            break
        count += 1
    return count


def find_origins(
    items: Sequence[Item],
    row: Sequence[LoggedItem],
    common: int,
    known: Mapping[str, Sequence[LoggedItem]],
) -> list[ItemOrigin]:
    """Return the origin of each item after the first `common` items.

    row: the current context, which starts with those; known: earlier items, by key.
    """
    new_items = items[common:]
    if common == len(row) and not any(item.key in known for item in new_items):
        return [NEW_ITEM] * len(new_items)  # As in most requests: the context only grew.
    unmatched = _UnmatchedItems.of(row, common)
    origins = [_match_item(item, unmatched) for item in new_items]
    last_index = max(
        (index for index, origin in enumerate(origins) if origin.index is not None), default=-1
    )
    removed = _RemovedItems(known, row)
    follows_returned = not row
    for index, origin in enumerate(origins):
        logged = removed.first(new_items[index].key) if origin.is_new else None
        if logged is not None and (index < last_index or follows_returned or logged.role != "user"):
            origins[index] = ItemOrigin(removed_item=logged)
            removed.mark_used(logged)
        # The last user message is new, even if an equal message was in the context earlier.
        follows_returned = origins[index].removed_item is not None
    return origins


class _UnmatchedItems(msgspec.Struct):
    """Items of a context that no item of a request has matched yet, by key and likeness."""

    by_key: dict[str, list[int]]
    by_likeness: dict[str, int]
    used_positions: set[int]

    @classmethod
    def of(cls, row: Sequence[LoggedItem], common: int) -> _UnmatchedItems:
        by_key: dict[str, list[int]] = {}
        for index in range(len(row) - 1, common - 1, -1):
            by_key.setdefault(row[index].key, []).append(index)
        alike = {
            row[index].likeness: index for index in range(common, len(row)) if row[index].likeness
        }
        return cls(by_key, alike, set())


def _match_item(item: Item, unmatched: _UnmatchedItems) -> ItemOrigin:
    """Return the first unmatched item of the context with this key, or else with this likeness."""
    indexes = unmatched.by_key.get(item.key, [])
    while indexes:
        index = indexes.pop()
        if index not in unmatched.used_positions:
            unmatched.used_positions.add(index)
            return ItemOrigin(index=index)
    if unmatched.by_likeness:
        index_alike = unmatched.by_likeness.get(item.likeness or "?")
        if index_alike is not None and index_alike not in unmatched.used_positions:
            unmatched.used_positions.add(index_alike)
            return ItemOrigin(index=index_alike)
    return NEW_ITEM


class _RemovedItems(msgspec.Struct):
    """Earlier items that are not in the context, by key, with the next candidate of each key.

    Each candidate is checked once, because a context may repeat the same content a thousand times.
    """

    items_by_key: Mapping[str, Sequence[LoggedItem]]
    row: Sequence[LoggedItem]
    _used_ids: set[int] = msgspec.field(default_factory=set)
    _next_index: dict[str, int] = msgspec.field(default_factory=dict)

    def first(self, key: str) -> LoggedItem | None:
        """Return the first unused item with this key that is not in the context.

        Return None if there is none.
        """
        candidates = self.items_by_key.get(key, ())
        if candidates and not self._used_ids:
            self._used_ids = {id(logged) for logged in self.row}
        index = self._next_index.get(key, 0)
        while index < len(candidates) and id(candidates[index]) in self._used_ids:
            index += 1
        self._next_index[key] = index
        return candidates[index] if index < len(candidates) else None

    def mark_used(self, logged: LoggedItem) -> None:
        """Mark an item as used."""
        self._used_ids.add(id(logged))


class SegmentBuilder(msgspec.Struct):
    """Build the segments of an edit. Adjacent segments are merged."""

    segments: list[Segment]

    def add_range(self, start: int, stop: int) -> None:
        """Append a range of messages of the context."""
        if start == stop:
            return
        last = self.segments[-1] if self.segments else None
        if last is not None and last.entries is None and last.stop == start:
            self.segments[-1] = Segment(start=last.start, stop=stop)
        else:
            self.segments.append(Segment(start=start, stop=stop))

    def add_entries(self, ids: Sequence[MessageId]) -> None:
        """Append entries that are not in the context."""
        last = self.segments[-1] if self.segments else None
        if last is not None and last.entries is not None:
            self.segments[-1] = Segment(entries=[*last.entries, *ids])
        else:
            self.segments.append(Segment(entries=list(ids)))
