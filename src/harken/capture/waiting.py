"""What an import has made and not written yet: written together, the disk is waited for once.

One idea: the bytes of a file wait with what was read from them, piece by piece. A store that is
told which piece a commit came from keeps both in little more room than one of them takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harken.context.checkpoint import Prepared, batch_of
from harken.core.commits import ArtifactRef, CommitId, raw_ref
from harken.store.base import Batch
from harken.store.files import cut


class Held:
    """A file whose bytes are held in memory, in the pieces in which they are kept."""

    def __init__(self, data: bytes) -> None:
        """Take the bytes."""
        self.name = raw_ref(data)
        self.size = len(data)
        self._pieces = [(raw_ref(piece), piece) for piece in cut([data])]
        self._at = self._pieces[0][0]
        """The piece that was given out last."""
        self._came: dict[ArtifactRef, CommitId] = {}

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes."""
        for name, piece in self._pieces:
            self._at = name
            yield piece

    def became(self, ctx: CommitId) -> None:
        """Say that a commit was made of what was given out last."""
        self._came[self._at] = ctx

    def batch(self) -> Batch:
        """Return what has to be written for it."""
        names = [name for name, _ in self._pieces]
        files = {} if names == [self.name] else {self.name: names}
        return Batch(raw=dict(self._pieces), files=files, beside=self._came)


@dataclass(slots=True)
class Waiting:
    """What is not written yet."""

    batches: list[Batch] = field(default_factory=list)
    made: list[Prepared] = field(default_factory=list)
    pins: list[ArtifactRef] = field(default_factory=list)
    size: int = 0
    """In bytes, about."""

    def add(self, made: Prepared) -> None:
        """Take a commit."""
        self.made.append(made)
        self.size += made.size_bytes

    def keep(self, held: Held) -> None:
        """Take the bytes of a file."""
        self.batches.append(held.batch())
        self.size += held.size

    def whole(self) -> Batch:
        """Return all of it as one batch."""
        commits = batch_of(self.made)
        return Batch(
            raw={name: body for one in self.batches for name, body in one.raw.items()},
            files={name: made for one in self.batches for name, made in one.files.items()},
            beside={name: ctx for one in self.batches for name, ctx in one.beside.items()},
            objects=commits.objects,
            deltas=commits.deltas,
            commits=commits.commits,
        )
