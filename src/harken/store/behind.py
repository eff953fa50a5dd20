"""Raw bytes behind the other things of a pack, in one frame with them.

One idea: what was read from a file says much of what the file says. So the file's bytes are
compressed with that in view, and take half the room; and they are opened only when somebody asks
for them, since a frame can be opened from its beginning up to any place.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harken.store import compression

LEAST_BYTES = compression.SMALL
"""Less raw bytes stand among the other things."""
SIZE_BYTES = 4
"""In place of raw bytes stands how many they are."""


@dataclass(slots=True)
class Behind:
    """The raw bytes of a pack that was opened. Threads may share it."""

    frame: bytes
    start: int
    """Where they begin in what the frame holds."""
    sizes: Mapping[int, int]
    """The place of each among the things -> how many bytes it has."""
    _bodies: dict[int, bytes] = field(default_factory=dict)

    def body(self, at: int) -> bytes:
        """Return the raw bytes at a place. Raises compression.Unopened."""
        if not self._bodies:
            end, found = self.start, {}
            whole = compression.unwoven(self.frame, end + sum(self.sizes.values()))
            for place, size in self.sizes.items():
                found[place] = whole[end : end + size]
                end += size
            self._bodies = found
        return self._bodies[at]


def closed(first: bytes, raws: Sequence[bytes]) -> bytes:
    """Return one frame of what stands first and of raw bytes, and where these begin."""
    return len(first).to_bytes(4) + compression.woven([first, *raws])


def first_of(data: bytes) -> bytes:
    """Return what stands first. Raises compression.Unopened."""
    return compression.unwoven(data[4:], int.from_bytes(data[:4]))


def behind(data: bytes, places: Sequence[int], sizes: Sequence[bytes]) -> Behind:
    """Return what stands behind that: at which places, and how long, as the first part says.

    Raises compression.Unopened where the frame does not hold so many bytes.
    """
    start = int.from_bytes(data[:4])
    numbers = [int.from_bytes(size) for size in sizes]
    if start + sum(numbers) != compression.size_of(data[4:]):
        raise compression.Unopened("it does not hold as many raw bytes as it says")
    return Behind(data[4:], start, dict(zip(places, numbers, strict=True)))
