"""A history: the steps of a file that is being read, and the commits that they become.

One idea: a step has two names. Its commit follows from all that the file says, its key from what
was said alone: so a copy of a conversation, which has other ids, is known by its keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blake3 import blake3

from harken.capture.ready import Ready
from harken.core.commits import CommitId


@dataclass(slots=True)
class History:
    """A file that is being read."""

    runtime: str
    is_last: bool
    """Whether the parent of a subagent that is not known by now will not come any more."""
    steps: dict[str, bytes] = field(default_factory=dict)
    """Step -> the 32 bytes of the name of its commit, and its key: a file may have many."""
    fresh: set[str] = field(default_factory=set)
    """Steps that no import knew: so what follows them, none knew either, but for this one."""
    new: int = 0
    orphan: tuple[str, str, str] | None = None

    @property
    def commits(self) -> int:
        """How many commits its steps became: counted in parts, since all names take much room."""
        names = self.steps.values()
        return sum(len({one[:32] for one in names if one[0] % 16 == at}) for at in range(16))

    def place(self, step: str, ctx: CommitId, key: bytes) -> None:
        """Say what a step became."""
        self.steps[step] = bytes.fromhex(ctx.removeprefix("ctx-")) + key

    def ctx(self, step: str) -> CommitId:
        """Return the commit that a step became."""
        return CommitId(f"ctx-{self.steps[step][:32].hex()}")

    def key(self, ready: Ready, parent: CommitId | None) -> bytes:
        """Return what is the same wherever the same was said since the beginning.

        parent: of the commit.
        """
        before = parent or self.runtime
        if ready.parent is not None:
            before = self.steps[ready.parent][32:].hex()
        return blake3(b'["%b",%b' % (before.encode(), ready.said)).digest(16)
