"""Appending: events a second, each on disk, against a bare write and fdatasync of such lines."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.measure import RUNS, Row, median, spread
from harken import Session, SessionOptions

EVENTS = 2000
TEXT = "The quick brown fox jumps over the lazy dog and says what it has seen. " * 5


def harken_rate(folder: Path, run: int) -> float:
    """Return events a second with durability `always`."""
    path = folder / f"log{run}.jsonl"
    with Session(path, options=SessionOptions(durability="always")) as session:
        agent = session.allocate_agent_id()
        session.log_agent_created(agent)
        start = time.perf_counter()
        for _ in range(EVENTS):
            session.log_transcript_entry(agent, {"role": "user", "content": TEXT})
        return EVENTS / (time.perf_counter() - start)


def bare_rate(folder: Path, run: int) -> float:
    """Return lines a second of a loop that only writes and syncs."""
    line = (folder / f"log{run}.jsonl").read_bytes().splitlines(keepends=True)[-1]
    fd = os.open(folder / f"bare{run}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    start = time.perf_counter()
    for _ in range(EVENTS):
        os.write(fd, line)
        os.fdatasync(fd)
    rate = EVENTS / (time.perf_counter() - start)
    os.close(fd)
    return rate


def rows() -> list[Row]:
    """Measure both, in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [(harken_rate(folder, run), bare_rate(folder, run)) for run in range(RUNS)]
    rates, bare = [list(values) for values in zip(*pairs, strict=True)]
    ratios = [a / b for a, b in pairs]
    return [
        Row("append, `always`: events/s", f"{median(rates):,.0f}"),
        Row("bare write + fdatasync: lines/s", f"{median(bare):,.0f}"),
        Row("append / bare", spread(ratios, 1, 2), "> 0.5"),
    ]
