"""One phase of keeping a conversation, in a process of its own; prints what it took, as JSON.

    python -m benchmarks.keeping grow NAME FOLDER STEPS
    python -m benchmarks.keeping load NAME FOLDER STEPS
    python -m benchmarks.keeping fork NAME FOLDER STEPS

It runs in whichever environment has what is measured: see `benchmarks.peers`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.stores import KEEPERS, Keeper, Words

FORKS = 10
_AT_THE_END = 50


def grow(keeper: Keeper, steps: int) -> dict[str, float]:
    """Add steps; return the medians of the first and of the last 50."""
    words = Words()
    took = [_took(partial(keeper.add, words.step())) for _ in range(steps)]
    ends = min(_AT_THE_END, steps // 2)
    first, last = _median(took[:ends]), _median(took[-ends:])
    return {
        "first": first.wall_ms,
        "last": last.wall_ms,
        "first_cpu": first.cpu_ms,
        "last_cpu": last.cpu_ms,
    }


def load(keeper: Keeper, steps: int) -> dict[str, float]:
    """Read the conversation for the first time in a process, and list its last states."""
    found: list[int | None] = []
    whole = _took(lambda: found.append(keeper.load()))
    assert found == [2 * steps], f"{found} messages of {2 * steps}"
    listed = _took(lambda: found.append(keeper.states(100)))
    return {"load": whole.cpu_ms} | ({} if found[1] is None else {"list": listed.cpu_ms})


def fork(keeper: Keeper, steps: int) -> dict[str, float]:
    """Fork in the middle several times, with a step on each; return the median."""
    words = Words(seed=2)
    took = []
    for at in range(FORKS):
        place = keeper.at(steps // 2 + at)
        took.append(_took(partial(keeper.fork, place, words.step())))
    return {"fork": _median(took).cpu_ms}


@dataclass(frozen=True, slots=True)
class Took:
    """What some work took, on the wall and of the processor: only the second is one's own."""

    wall_ms: float
    cpu_ms: float


def _took(work: Callable[[], object]) -> Took:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Took((time.perf_counter() - wall_s) * 1e3, (time.process_time() - cpu_s) * 1e3)


def _median(values: list[Took]) -> Took:
    return Took(median(one.wall_ms for one in values), median(one.cpu_ms for one in values))


def main() -> None:
    """Run a phase."""
    phase, name, folder, steps = sys.argv[1:]
    gc.freeze()
    keeper = KEEPERS[name](Path(folder))
    try:
        json.dump({"grow": grow, "load": load, "fork": fork}[phase](keeper, int(steps)), sys.stdout)
    finally:
        keeper.close()


if __name__ == "__main__":
    main()
