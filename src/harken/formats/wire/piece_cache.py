"""`PieceCache`: pieces that were seen before, found again by their bytes.

One idea: a client sends its conversation anew with each request, in the same bytes. So what was
seen is found with one look-up, and only what is new is read to know its key. What a client writes
in other bytes is read once more, and has the same key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harken.formats.wire.base import Piece

MOST_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class PieceCache:
    """Pieces of one protocol, up to so many bytes; what nobody asked for lately is forgotten."""

    most_bytes: int = MOST_BYTES
    _recent: dict[bytes, Piece] = field(default_factory=dict)
    _older: dict[bytes, Piece] = field(default_factory=dict)
    _size: int = 0
    """How many bytes the recent ones have."""

    def find(self, data: bytes) -> Piece | None:
        """Return the piece with these bytes; None: it was not seen, or is forgotten."""
        found = self._recent.get(data)
        if found is None and data in self._older:
            found = self.of(self._older[data])
        return found

    def of(self, piece: Piece) -> Piece:
        """Return the piece with these bytes that was seen first, so with its key; else this one."""
        found = self._recent.get(piece.data)
        if found is not None:
            return found
        found = self._older.get(piece.data, piece)
        self._size += len(found.data)
        if self._size > self.most_bytes // 2:
            self._older, self._recent, self._size = self._recent, {}, len(found.data)
        self._recent[found.data] = found
        return found
