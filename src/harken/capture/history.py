"""A history: the steps of a file that is being read, and the commits that they become.

One idea: a step has two names. Its commit follows from all that the file says, its key from what
was said alone: so a copy of a conversation, which has other ids, is known by its keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blake3 import blake3

from harken.capture.ready import Ready
from harken.core.commits import CommitId

_LENGTH = 32 + 16 + 1


@dataclass(slots=True)
class History:
    """A file that is being read."""

    runtime: str
    is_last: bool
    """Whether the parent of a subagent that is not known by now will not come any more."""
    steps: dict[str, int] = field(default_factory=dict)
    """Step -> where it stands in `_became`: a file may have many, and this takes little room."""
    _became: bytearray = field(default_factory=bytearray)
    """For each step the 32 bytes of the name of its commit, its key, and whether it is fresh."""
    new: int = 0
    orphan: tuple[str, str, str] | None = None

    @property
    def commits(self) -> int:
        """How many commits its steps became: counted in parts, since all names take much room."""
        held = self._became
        return sum(
            len({bytes(held[at : at + 32]) for at in self.steps.values() if held[at] % 16 == part})
            for part in range(16)
        )

    def place(self, step: str, ctx: CommitId, key: bytes, *, is_fresh: bool) -> None:
        """Say what a step became. is_fresh: no import knew it, but for this one."""
        self.steps[step] = len(self._became)
        self._became += bytes.fromhex(ctx.removeprefix("ctx-")) + key + bytes([is_fresh])

    def ctx(self, step: str) -> CommitId:
        """Return the commit that a step became."""
        return CommitId(f"ctx-{self._of(step)[:32].hex()}")

    def is_fresh(self, step: str | None) -> bool:
        """Whether no import knew a step: then none knew what follows it, either."""
        return step is not None and bool(self._of(step)[_LENGTH - 1])

    def key(self, ready: Ready, parent: CommitId | None) -> bytes:
        """Return what is the same wherever the same was said since the beginning.

        parent: of the commit.
        """
        before = parent or self.runtime
        if ready.parent is not None:
            before = self._of(ready.parent)[32:-1].hex()
        return blake3(b'["%b",%b' % (before.encode(), ready.said)).digest(16)

    def _of(self, step: str) -> bytes:
        at = self.steps[step]
        return bytes(self._became[at : at + _LENGTH])
