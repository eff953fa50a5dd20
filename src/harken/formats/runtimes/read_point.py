"""`ReadPoint`: a position in a growing file from which a later reading continues.

A file of lines grows at its end. A reader marks a line at which its state is small, because a step
begins there: all earlier steps are complete. If the bytes before the line have not changed, a later
reading needs only the state, and the lines from there on. So it costs what is new, not the length.

A reader yields the same steps, with the same names, as if it had read the file from its beginning.
If new lines change an earlier step, it raises `EarlierStepChanged`, and the file is read from its
beginning.

Source: docs/design/005-other-runtimes.md, "A file that grows".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from harken.formats.runtimes.evaluation import Label, Score

S = TypeVar("S", bound=msgspec.Struct)
MAX_BAD_LINES = 1000
"""A file with more bad lines is always read from its beginning: the report would be too large."""


class EarlierStepChanged(Exception):
    """New lines change a step before the read point, or it cannot be excluded that they do."""


class BadLine(msgspec.Struct, frozen=True):
    """A line that could not be read, and the reason. Its bytes are in the raw artifact."""

    number: int
    start: int
    reason: str


class ReadTotals(msgspec.Struct, array_like=True):
    """The members of a `ReadReport` for the lines before a read point."""

    session_id: str
    title: str
    folder: str
    version: str
    outcome: str
    end_time: str
    parent: str
    lines: int
    used_lines: int
    uninterpreted: dict[str, int]
    bad: list[BadLine]
    notes: list[str]
    tips: dict[str, str]
    branches: list[tuple[str, str]]
    spawned: dict[str, str]
    scores: list[Score]
    labels: list[Label]


class ReadPoint(msgspec.Struct, array_like=True):
    """The beginning of a line, and the state of a reader there."""

    start: int
    """The offset of the line."""
    line: int
    """The number of the line, from 1."""
    extra: int
    """The number of additional records in earlier lines, which are not one record each."""
    state: bytes
    """The state of the reader, in a form that is private to its format."""
    step_ids: list[str]
    """The earlier steps that a later step may follow."""
    totals: ReadTotals
    steps: int = 0
    """The number of steps that this reading yielded before."""
    time: str = ""
    """The time of the last of these steps."""


def encode_state(state: msgspec.Struct) -> bytes | None:
    """Encode the state of a reader. Return None if MessagePack cannot represent it."""
    try:
        return msgspec.msgpack.encode(state)
    except (UnicodeEncodeError, OverflowError):  # A lone surrogate, or a very large number.
        return None


def decode_state(point: ReadPoint, type_: type[S]) -> S:
    """Decode the state at a read point. Raises EarlierStepChanged if it has another form."""
    try:
        return msgspec.msgpack.decode(point.state, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EarlierStepChanged from error


def list_step_ids(totals: ReadTotals, others: Collection[str | None]) -> list[str]:
    """Return the steps that a report names, and others, without duplicates."""
    branches = (step for _, step in totals.branches)
    step_ids = [*totals.tips.values(), *branches, *totals.spawned.values(), *others]
    return [step for step in dict.fromkeys(step_ids) if step is not None]
