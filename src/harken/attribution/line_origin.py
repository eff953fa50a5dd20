"""`LineOrigin`: the origin of a line of a file."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from harken.attribution.git.blame import BlameCommit, BlamedLine
from harken.attribution.records.recorded_edits import RecordedEdit

Confidence: TypeAlias = Literal["exact", "reformatted", "similar", "uncertain"]


class LineOrigin(msgspec.Struct, frozen=True):
    """The origin of a line of a file."""

    line: BlamedLine
    """The line as git blames it."""
    commit: BlameCommit
    """The commit that added the line, which is not the blamed one if that only moved or reformatted
    the line."""
    edit: RecordedEdit | None = None
    """None if the author of the commit wrote the line, as far as is recorded."""
    confidence: Confidence = "exact"
    """`similar`: the author of the commit made the line from one of the edit. `uncertain`: the line
    may be of the edit."""
    ratio: float = 1.0
    """The similarity with the line of the edit."""

    above: str = ""
    """The key of the next informative line above, in the commit that added the line."""
    below: str = ""

    @property
    def is_agent(self) -> bool:
        """Whether an agent wrote the line."""
        return self.edit is not None and self.confidence in ("exact", "reformatted")
