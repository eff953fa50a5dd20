"""`PieceCache`: a cache of parsed pieces by their bytes.

A client sends its conversation again with each request, in the same bytes. So a cached piece is
found with one look-up, and only new pieces are parsed to compute their keys. A piece that a client
serializes differently is parsed once more and has the same key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harken.formats.wire.base import Piece

MAX_CACHE_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class PieceCache:
    """A cache of the pieces of one protocol, limited in bytes.

    Pieces that were not used lately are evicted.
    """

    max_bytes: int = MAX_CACHE_BYTES
    _recent: dict[bytes, Piece] = field(default_factory=dict)
    _previous: dict[bytes, Piece] = field(default_factory=dict)
    _size: int = 0
    """The size of the recent pieces in bytes."""

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
