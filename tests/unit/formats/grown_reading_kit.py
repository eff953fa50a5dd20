"""Reading a file that grows, from a read point and from the beginning."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from harken.errors import FormatError
from harken.formats.runtimes.base import ImportStep, ReadReport, SessionFile, StepReader
from harken.formats.runtimes.read_point import EarlierStepChanged


@dataclass
class Reading:
    """The steps and the report of a file, or of the part after a read point."""

    steps: dict[str, ImportStep]
    report: ReadReport
    complete_steps: dict[str, ImportStep]
    """The steps before its last read point."""


def read(reader: StepReader, data: bytes, earlier: Reading | None = None) -> Reading:
    """Read a file. With an earlier reading, continue from its read point."""
    point = None if earlier is None else earlier.report.point
    report = ReadReport() if point is None else ReadReport.from_point(point)
    report.size_bytes = len(data)
    part = data if point is None else data[point.start :]
    source = SessionFile("a file", lambda: [part], is_in_memory=True, point=point)
    steps = {} if earlier is None else dict(earlier.complete_steps)
    reading, last_point = Reading(steps, report, dict(steps)), report.point
    for step in reader(source, report):
        if report.point is not last_point:
            reading.complete_steps, last_point = dict(steps), report.point
        steps[step.id] = step
    if report.point is not last_point:
        reading.complete_steps = dict(steps)
    return reading


def outcome(report: ReadReport) -> dict[str, Any]:
    """Return all of a report that an import shows."""
    skipped = {"point", "size_bytes", "extra", "is_joined", "offset"}
    shown = msgspec.structs.asdict(report)
    bad = sorted(shown["bad"], key=lambda line: (line.start, line.reason))
    return {
        **{name: value for name, value in shown.items() if name not in skipped},
        "bad": bad,
        "tips": [*report.tips.items()],
    }


def check_growth(reader: StepReader, data: bytes, ends: list[int]) -> int:
    """Read a file that grows, in both ways. Return how often a read point was used."""
    uses, earlier = 0, None
    for end in sorted(ends):
        try:
            whole = grown = read(reader, data[:end])
        except FormatError:
            continue
        if earlier is not None and earlier.report.point is not None:
            with suppress(EarlierStepChanged):
                grown = read(reader, data[:end], earlier)
                uses += 1
        assert grown.steps == whole.steps
        assert outcome(grown.report) == outcome(whole.report)
        earlier = grown
    return uses
