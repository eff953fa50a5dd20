"""A conversation that grows, kept by Harken and by others: bytes, milliseconds, what a fork costs.

Harken runs here, the others in `.venv-peers`, which `make peers` makes. Every phase is a process of
its own, so that nothing is warm; the keepers take turns, phase by phase.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import zstandard

from benchmarks.keeping import FORKS
from benchmarks.measure import Row
from benchmarks.stores import KEEPERS, MESSAGE_BYTES, Words

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
STEPS = 1000
Figures: TypeAlias = dict[str, float]

_SHOWN = (
    ("kb", "KB on disk, {steps} steps", ",.0f", "the log of SQLite put back into its file"),
    ("first", "ms a step, the first 50", ".2f", "median on the wall; durable at each step"),
    ("last", "ms a step, the last 50", ".2f", "median on the wall"),
    ("first_cpu", "CPU ms a step, the first 50", ".2f", "median"),
    ("last_cpu", "CPU ms a step, the last 50", ".2f", "median"),
    ("list", "CPU ms to list 100 states", ".1f", "in a new process"),
    ("load", "CPU ms to load the conversation", ".1f", "in a new process, imports left out"),
    ("fork", "CPU ms to fork in the middle, with a step", ".2f", "median of {forks}"),
    ("fork_kb", "KB that a fork takes, with a step", ".2f", "mean of {forks}"),
)


def rows() -> list[Row]:
    """Measure all keepers on the same conversation; each row has all of them."""
    if not PYTHON.exists():
        return [Row("peers", "not measured", note="`make peers` installs them into .venv-peers")]
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), STEPS)
    return [_ratio(), *_rows(figures, STEPS)]


def measured(folder: Path, steps: int) -> dict[str, Figures]:
    """Return what each keeper took, by its name."""
    found: dict[str, Figures] = {name: {} for name in KEEPERS}
    for name in KEEPERS:
        (folder / name).mkdir()
    for phase in ("grow", "load", "fork"):
        for name, figures in found.items():
            before = figures.get("kb", 0)
            figures |= _run(phase, name, folder / name, steps)
            size = _kilobytes(folder / name)
            if phase == "grow":
                figures["kb"] = size
            elif phase == "fork":
                figures["fork_kb"] = (size - before) / FORKS
    return found


def _run(phase: str, name: str, folder: Path, steps: int) -> Figures:
    python = sys.executable if name == "Harken" else str(PYTHON)
    done = subprocess.run(
        [python, "-m", "benchmarks.keeping", phase, name, str(folder), str(steps)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def _kilobytes(folder: Path) -> float:
    """Return how much is on disk, once what waits in SQLite's log is in its place."""
    for file in folder.glob("*.db"):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in folder.iterdir()) / 1024


def _ratio() -> Row:
    """Say what the messages are: how much a compressor makes of them all."""
    words = Words()
    text = " ".join(text for _ in range(STEPS) for _, text in words.step()).encode()
    ratio = len(text) / len(zstandard.compress(text, 3))
    value = f"two of {MESSAGE_BYTES} bytes a step; zstd makes 1/{ratio:.2f} of all of them together"
    return Row("peers: messages", value, note="invented words, as rare as those of a language")


def _rows(figures: dict[str, Figures], steps: int) -> Iterator[Row]:
    for key, what, form, note in _SHOWN:
        values = [
            f"{name} {format(own[key], form) if key in own else 'has none'}"
            for name, own in figures.items()
        ]
        yield Row(
            f"peers: {what.format(steps=f'{steps:,}')}",
            "; ".join(values),
            note=note.format(forks=FORKS),
        )
