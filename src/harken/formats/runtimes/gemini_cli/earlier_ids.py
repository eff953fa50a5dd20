"""`EarlierIds`: the ids before a read point, as hashes.

An id that is not among the hashes is new. Another one may be new, too, by chance: then the file is
read from its beginning, so a result never depends on a hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from zlib import crc32

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.formats.runtimes.read_point import EarlierStepChanged

MAX_IDS = 100_000
"""The maximum number of hashes in a state. A chat with more messages has no read point."""
MAX_RECENT_IDS = 512


class EarlierIds(msgspec.Struct):
    """The hashes of ids before a read point."""

    hashes: set[int] = msgspec.field(default_factory=set)

    def check_new(self, id_: str) -> None:
        """Raise EarlierStepChanged unless an id is certainly new."""
        if self.hashes and _hash_id(id_) in self.hashes:
            raise EarlierStepChanged

    def join(self, ids: Iterable[str]) -> set[int]:
        """Return these hashes, and those of further ids."""
        return self.hashes.union(map(_hash_id, ids))


class SavedResults(msgspec.Struct, array_like=True):
    """The calls with results before a read point."""

    recent: list[tuple[str, bytes]]
    """The latest ones, and the hashes of their responses."""
    hashes: set[int]
    """The hashes of the ids of all others."""


class AnsweredCalls(msgspec.Struct):
    """The calls with results. A later user message may repeat such a result."""

    responses: dict[str, bytes] = msgspec.field(default_factory=dict)
    """The hashes of the responses, by the ids of the calls, in order. After a read point: those of
    the latest calls before it, and of those after it."""
    earlier: EarlierIds = msgspec.field(default_factory=EarlierIds)
    second_results: int = 0
    """The number of calls with a second result."""

    def __contains__(self, id_: str) -> bool:
        """Whether a call has a result. Raises EarlierStepChanged if that is not certain."""
        if id_ not in self.responses:
            self.earlier.check_new(id_)
        return id_ in self.responses

    def add(self, id_: str, response: object) -> None:
        """Add the result of a call."""
        self.second_results += id_ in self.responses
        self.responses[id_] = _hash_response(response)

    def has_response(self, id_: str, response: object) -> bool:
        """Whether the result of a call that has one is this response."""
        return self.responses[id_] == _hash_response(response)

    def save(self, count: int) -> SavedResults | None:
        """Return the first `count` calls, and those before them. Return None for too many."""
        if count + len(self.earlier.hashes) > MAX_IDS:
            return None
        calls = [*islice(self.responses.items(), count)]
        hashes = self.earlier.join(id_ for id_, _ in calls[:-MAX_RECENT_IDS])
        return SavedResults(calls[-MAX_RECENT_IDS:], hashes)

    @classmethod
    def restore(cls, saved: SavedResults) -> AnsweredCalls:
        """Return the calls before a read point."""
        return cls(dict(saved.recent), EarlierIds(saved.hashes))


def _hash_response(response: object) -> bytes:
    return blake3(canonical.to_canonical_bytes(response)).digest()


def _hash_id(id_: str) -> int:
    return crc32(id_.encode("utf-8", "surrogatepass"))
