"""A history: the steps of a file that is being read, and the commits that they become.

One idea: a step has two names. Its commit follows from all that the file says, its key from what
was said alone: so a copy of a conversation, which has other ids, is known by its keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blake3 import blake3

from harken.context.checkpoint import Draft, Origin, Prepared
from harken.core import codec
from harken.core.commits import CommitId
from harken.formats.calls import clean
from harken.formats.native import Native, Reading, Step

NO_TIME = "1970-01-01T00:00:00Z"
"""The time of a step before which no record of its file has one."""
LONGEST_NAME = 500


@dataclass(slots=True)
class History:
    """A file that is being read."""

    native: Native
    reading: Reading
    is_last: bool
    steps: dict[str, bytes] = field(default_factory=dict)
    """Step -> the 32 bytes of the name of its commit, and its key: a file may have many."""
    new: int = 0
    orphan: tuple[str, str, str] | None = None
    _time: str = NO_TIME

    @property
    def ended(self) -> str:
        """The time of the last step; empty: none had one."""
        return "" if self._time == NO_TIME else self._time

    def place(self, step: Step, ctx: CommitId, key: bytes) -> None:
        """Say what a step became."""
        self.steps[step.id] = bytes.fromhex(ctx.removeprefix("ctx-")) + key

    def ctx(self, step_id: str) -> CommitId:
        """Return the commit that a step became."""
        return CommitId(f"ctx-{self.steps[step_id][:32].hex()}")

    def draft(self, step: Step, parent: CommitId | None) -> Draft:
        """Return the commit of a step as a draft."""
        times = [step.time, *(entry.time for entry in reversed(step.entries))]
        self._time = next(filter(None, times), self._time)
        session = plain(self.reading.session_id)
        names = [f"{self.native.runtime}:{session}", plain(step.agent)]
        return Draft(
            entries=step.entries,
            parent=parent,
            type=step.type,
            trigger=step.trigger,
            origin=Origin(principal="/".join(filter(None, names)), session_id=session),
            summary=step.summary,
            created_at=self._time,
        )

    def key(self, step: Step, made: Prepared) -> bytes:
        """Return what is the same wherever the same was said since the beginning.

        Not in it: names of files and sessions, and ids that a runtime gives anew where it copies.
        A response has an id from its provider, which says more than a time, so times count only
        where there is none.
        """
        before = made.commit.parent or self.native.runtime
        if step.parent is not None:
            before = self.steps[step.parent][32:].hex()
        ids = [(entry.source or {}).get("id") for entry in step.entries]
        has_id = any(isinstance(id_, str) for id_ in ids)
        said = [(entry.message, None if has_id else entry.time) for entry in made.content.entries]
        what = [before, step.agent, step.type, step.trigger, said, ids]
        return blake3(codec.canonical(what)).digest(16)


def plain(text: str) -> str:
    """Return a name from a file as one can be kept: of a size, and without lone surrogates."""
    return clean(text[:LONGEST_NAME])
