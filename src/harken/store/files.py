"""Files: raw bytes that are too large for one piece, however large they are.

One idea: a file's name is that of all its bytes, so it says nothing of how they were cut. Where
they are cut is up to the bytes, not to their position: a file that grew, or that has something
inserted, shares all other pieces with what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blake3 import blake3

from harken.core import codec
from harken.core.commits import ArtifactRef
from harken.errors import ObjectDamaged


def checked(store: str, name: ArtifactRef, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces as they come; after the last, raise ObjectDamaged if all are not that file."""
    hasher = blake3(codec.RAW)
    for piece in pieces:
        hasher.update(piece)
        yield piece
    if (found := f"art-{hasher.hexdigest()}") != name:
        raise ObjectDamaged(store, name, reason=f"its pieces together have the name {found}")
