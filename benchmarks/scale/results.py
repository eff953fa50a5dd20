"""The results of all runs, and how the costs grow."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import linear_regression

import msgspec

from benchmarks.scale.operations import Measurement

MIN_SIZES = 3
"""An exponent is fitted to so many sizes at least."""
RESULTS = Path(__file__).with_name("results.jsonl")


def read_results(path: Path = RESULTS) -> dict[str, list[Measurement]]:
    """Return the measurements by kind of home, the smallest first. The last of equal sizes counts.

    The size is that of sessions.
    """
    kinds: dict[str, dict[int, Measurement]] = defaultdict(dict)
    for line in path.read_bytes().splitlines():
        measurement = msgspec.json.decode(line, type=Measurement)
        kinds[kind_of(measurement)][measurement.sessions] = measurement
    return {kind: [sizes[n] for n in sorted(sizes)] for kind, sizes in kinds.items()}


def kind_of(measurement: Measurement) -> str:
    """Return the kind of store and of sessions."""
    return f"{measurement.store}, {measurement.shape} sessions"


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the exponent k of the line cost = c * size ** k through costs on log axes."""
    return linear_regression([*map(math.log, sizes)], [*map(math.log, costs)]).slope


def list_operations(measurements: Iterable[Measurement]) -> list[str]:
    """Return the names of operations, in the order of the first measurement."""
    return list(dict.fromkeys(name for m in measurements for name in m.costs))


def table_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield the lines of a Markdown table: milliseconds of CPU, and the exponents.

    The first exponent is that of all sizes, the second that of the last two: a fixed cost, such as
    the start of a program, hides a growth at small sizes.
    """
    sizes = [m.sessions for m in measurements]
    header = " | ".join(f"{size:,}" for size in sizes)
    yield f"| ms of CPU at sessions: | {header} | exponent | at the end |"
    yield f"|---|{'---:|' * (len(sizes) + 2)}"
    for name in list_operations(measurements):
        costs = {m.sessions: m.costs[name].cpu_ms for m in measurements if name in m.costs}
        cells = " | ".join(_format_ms(costs[size]) if size in costs else "" for size in sizes)
        ends = _format_exponents([*costs], [*costs.values()])
        yield f"| {name} | {cells} | {ends} |"
    yield f"| messages | {' | '.join(f'{m.messages:,}' for m in measurements)} | | |"
    megabytes = " | ".join(f"{m.size_bytes / 1e6:.0f}" for m in measurements)
    yield f"| MB of the home | {megabytes} | | |"
    for label, values in (
        ("µs to write a message", [m.write_us for m in measurements]),
        ("µs to index a message", [m.index_us for m in measurements]),
    ):
        yield f"| {label} | {' | '.join('' if v is None else f'{v:.0f}' for v in values)} | | |"


def _format_exponents(sizes: Sequence[int], costs: Sequence[float]) -> str:
    if len(sizes) < MIN_SIZES:
        return " | "
    ends = fit_exponent(sizes, costs), fit_exponent(sizes[-2:], costs[-2:])
    return " | ".join(f"{exponent:.2f}" for exponent in ends)


def _format_ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
