"""How many messages of a conversation are read at a position, and for how many a summary stands.

A compaction replaces the messages before it with a summary, and may repeat some of them. Messages
are counted where they were said, in deltas; a summary is none of them, and a repeated message is
recognized by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harken.context.moment import Moment, chain_of
from harken.core.commits import Hash
from harken.store.base import Store, Stored


@dataclass(frozen=True, slots=True)
class Said:
    """The messages of a conversation, up to a position."""

    messages: int
    """All that were said."""
    summarized: int
    """Those for which the summary of a compaction stands."""
    summaries: frozenset[int] = frozenset()
    """The places, from 0, of what is read at the position and was never said: summaries."""


def count_said(store: Store, found: Moment) -> Said:
    """Count the messages up to a position. Raises UnknownName, StoreError."""
    chain = chain_of(store, found.ctx)
    at = next((at for at in range(len(chain) - 1, 0, -1) if _is_compaction(chain[at])), None)
    if at is None:
        return Said(len(found.entries), 0)
    size = found.own if at == len(chain) - 1 else chain[at].commit.message_count
    before = [one for place, one in enumerate(chain[:at]) if not place or not _is_compaction(one)]
    earlier = Counter(name for name in _names(store, before) if name)
    summaries: set[int] = set()
    for place, name in enumerate(_names(store, [chain[at]])[:size]):
        if name and earlier[name]:
            earlier[name] -= 1
        else:
            summaries.add(place)
    repeated = size - len(summaries)
    said = sum(one.commit.message_count for one in before)
    after = len(found.entries) - size
    return Said(said + after, max(said - repeated, 0), frozenset(summaries))


def _is_compaction(one: Stored) -> bool:
    return one.commit.type != "delta"


def _names(store: Store, commits: Sequence[Stored]) -> list[Hash | None]:
    """Return the hash of each message of commits. None: the commit holds bytes, not messages."""
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    names: list[Hash | None] = []
    for one in commits:
        entries = deltas.get(one.commit.artifact)
        if entries is None:
            names += [None] * one.commit.message_count
        else:
            names += [entry.message for entry in entries]
    return names
