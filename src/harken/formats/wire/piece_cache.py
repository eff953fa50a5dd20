"""`PieceCache`: a cache of parsed pieces by their bytes.

A client sends its conversation again with each request, in the same bytes. So a cached piece is
found with one look-up, and only new pieces are parsed to compute their keys. A piece that a client
serializes differently is parsed once more and has the same key. Of the last body of each
conversation, the beginning is cached too: its pieces are not even looked up.
"""

from __future__ import annotations

import msgspec

from harken.formats.wire.base import BodyPrefix, Piece
from harken.formats.wire.body_prefix import begins_with

MAX_CACHE_BYTES = 128 * 1024 * 1024
MAX_PREFIXES = 16
"""The number of conversations whose last body is cached."""


class PieceCache(msgspec.Struct):
    """A cache of the pieces of one protocol, limited in bytes.

    Pieces that were not used lately are evicted.
    """

    max_bytes: int = MAX_CACHE_BYTES
    _recent: dict[bytes, Piece] = msgspec.field(default_factory=dict)
    _previous: dict[bytes, Piece] = msgspec.field(default_factory=dict)
    _size: int = 0
    """The size of the recent pieces in bytes."""
    _prefixes: list[BodyPrefix] = msgspec.field(default_factory=list)
    """The least recently used first."""

    def find_prefix(self, body: bytes) -> BodyPrefix | None:
        """Return the longest cached prefix of a body, or None."""
        longest_first = sorted(self._prefixes, key=lambda prefix: -prefix.end)
        return next((prefix for prefix in longest_first if begins_with(body, prefix)), None)

    def replace_prefix(self, old: BodyPrefix | None, new: BodyPrefix) -> None:
        """Cache a prefix in place of a shorter one of the same conversation."""
        self._prefixes = [prefix for prefix in self._prefixes if prefix is not old]
        self._prefixes.append(new)
        size = sum(len(prefix.body) for prefix in self._prefixes)
        while size > self.max_bytes // 2 or len(self._prefixes) > MAX_PREFIXES:
            size -= len(self._prefixes.pop(0).body)

    def find(self, data: bytes) -> Piece | None:
        """Return the cached piece with these bytes. Return None if it is not cached."""
        cached = self._recent.get(data)
        if cached is None and data in self._previous:
            cached = self.intern(self._previous[data])
        return cached

    def intern(self, piece: Piece) -> Piece:
        """Return the cached piece with these bytes. Cache and return this one if there is none."""
        cached = self._recent.get(piece.data)
        if cached is not None:
            return cached
        cached = self._previous.get(piece.data, piece)
        self._size += len(cached.data)
        if self._size > self.max_bytes // 2:
            self._previous, self._recent, self._size = self._recent, {}, len(cached.data)
        self._recent[cached.data] = cached
        return cached
