"""Groups of lines with the same origin: the answer to a question about several lines."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harken.attribution.git.blame import BlameCommit
from harken.attribution.line_origin import Confidence, LineOrigin
from harken.attribution.records.recorded_edits import RecordedEdit

_CONFIDENCES: tuple[Confidence, ...] = ("exact", "reformatted", "uncertain", "similar")


class LineGroup(msgspec.Struct):
    """Lines that one tool call wrote, or that the author of one commit wrote."""

    commit: BlameCommit
    """The commit that added the lines."""
    edit: RecordedEdit | None
    confidence: Confidence
    """The least certain one of the lines."""
    ratio: float
    """The lowest similarity of the lines."""
    origins: list[LineOrigin] = msgspec.field(default_factory=list)

    @property
    def is_agent(self) -> bool:
        """Whether an agent wrote the lines."""
        return self.edit is not None and self.confidence in ("exact", "reformatted")


def group_origins(origins: Iterable[LineOrigin]) -> list[LineGroup]:
    """Return lines by origin, the largest groups of agents first, then those of authors."""
    groups: dict[tuple[object, ...], LineGroup] = {}
    for origin in origins:
        call: tuple[object, ...] = ()
        if origin.edit is not None:
            row = origin.edit.row
            call = (row.commit, row.position, row.call)
        kind = "agent" if origin.is_agent else origin.confidence
        key = (kind, call, "" if origin.is_agent else origin.commit.id)
        if key not in groups:
            groups[key] = LineGroup(origin.commit, origin.edit, origin.confidence, origin.ratio)
        group = groups[key]
        group.origins.append(origin)
        group.confidence = max(group.confidence, origin.confidence, key=_CONFIDENCES.index)
        group.ratio = min(group.ratio, origin.ratio)
    return sorted(groups.values(), key=lambda group: (not group.is_agent, -len(group.origins)))
