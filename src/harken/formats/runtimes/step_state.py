"""`BuilderState`: a `StepBuilder` at a read point.

The steps before the point are complete. A later node may follow the last of them, or one of the
latest nodes before the point. It changes no earlier step if that node was the last of its step.

Source: docs/design/005-other-runtimes.md, "A file that grows".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harken.core.commits import DeltaEntry, Hash, decode_entry, encode_entry
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.read_point import ReadTotals

MAX_RECENT_NODES = 512
"""The number of nodes before a read point that a later node may follow."""
MAX_ENDS = 1000
"""The maximum number of ends of branches, of all agents, in a state."""


class SavedEntry(msgspec.Struct, array_like=True):
    """An entry of a step that was open at a read point."""

    entry: DeltaEntry
    objects: dict[Hash, bytes]

    @classmethod
    def from_entry(cls, entry: ConversationEntry) -> SavedEntry:
        """Encode an entry. Raises ValueError if it cannot be stored."""
        return cls(*encode_entry(entry.message, time=entry.time, source=entry.source))

    def to_entry(self) -> ConversationEntry:
        """Decode the entry."""
        message = decode_entry(self.entry, self.objects)
        return ConversationEntry(message, self.entry.time, self.entry.source)


class SavedNode(msgspec.Struct, array_like=True):
    """A node before a read point."""

    node: str
    step: str | None
    """The step of the node, or the step before it."""
    is_end: bool = True
    """Whether no later node adds to its step."""


class BuilderState(msgspec.Struct, array_like=True):
    """The steps and the latest nodes of an agent."""

    agent: str
    origin: str | None
    parent: str | None
    """The last step that has ended."""
    head: str | None
    head_step: str | None
    end_steps: list[str]
    """Steps without a following step, in order."""
    nodes: list[SavedNode]
    """The latest nodes, oldest first."""
    open_step: str
    """The step that has not ended. Empty if there is none."""
    entries: list[SavedEntry]
    """The entries of the open step."""

    def list_steps(self) -> list[str | None]:
        """Return the complete steps that a later step may follow."""
        ends = [node.step for node in self.nodes if node.is_end]
        step_ids = [self.origin, self.parent, self.head_step, *self.end_steps, *ends]
        return [step for step in step_ids if step != self.open_step]


def build_totals(
    report: ReadReport, states: Iterable[BuilderState], *, lines: int, used_lines: int
) -> ReadTotals:
    """Return the totals of a report at a read point, with the ends of the complete steps there."""
    totals = report.copy_totals(lines=lines, used_lines=used_lines)
    for state in states:
        if state.parent is not None:
            totals.tips[state.agent] = state.parent
        ends = [step for step in state.end_steps if step != state.parent]
        totals.branches += [(state.agent, step) for step in ends]
    return totals
