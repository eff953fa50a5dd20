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
from functools import partial
from pathlib import Path

from benchmarks.stores import KEEPERS, Keeper, Words

FORKS = 10
_AT_THE_END = 50


def grow(keeper: Keeper, steps: int) -> dict[str, float]:
    """Add steps; return the median of the first and of the last 50 in ms."""
    words = Words()
    took = [_ms(partial(keeper.add, words.step())) for _ in range(steps)]
    ends = min(_AT_THE_END, steps // 2)
    return {"first": _median(took[:ends]), "last": _median(took[-ends:])}


def load(keeper: Keeper, steps: int) -> dict[str, float]:
    """Read the conversation for the first time in a process, and list its last states."""
    found: list[int | None] = []
    ms = _ms(lambda: found.append(keeper.load()))
    assert found == [2 * steps], f"{found} messages of {2 * steps}"
    listed = _ms(lambda: found.append(keeper.states(100)))
    return {"load": ms} if found[1] is None else {"load": ms, "list": listed}


def fork(keeper: Keeper, steps: int) -> dict[str, float]:
    """Fork in the middle several times, with a step on each; return the median in ms."""
    words = Words(seed=2)
    took = []
    for at in range(FORKS):
        place = keeper.at(steps // 2 + at)
        took.append(_ms(partial(keeper.fork, place, words.step())))
    return {"fork": _median(took)}


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


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
