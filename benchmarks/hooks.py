"""Hooks: what each of them adds to a turn, whether it has something to say or not.

A turn is one model call with one tool call, so a hook at all points is asked twice. What it says is
in the log: a question, and a verdict.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.loop import WINDOW, InstantModel, count
from benchmarks.measure import RUNS, Row, median, spread
from harken import Hook, Ok, Question, Runtime, SessionOptions, World, load_session, register
from harken.agents.built_in import hook_kind
from harken.agents.verdict import Verdict

TURNS = 300
MANY = 5
BUILT_IN = (
    *("todo-reminder", "changed-files", "read-before-write", "garbage-collector", "budget-guard"),
)


@register("bench-silent")
class Silent(Hook):
    """Looks at every question, and has nothing to say."""

    in_log: ClassVar[bool] = True

    def concerns(self, question: Question) -> bool:
        """Never."""
        return "never said" in question.text

    def judge(self, question: Question) -> Verdict:
        """Return what it never says."""
        return Ok()


@register("bench-asked")
class Asked(Hook):
    """Is asked every time, and says so in the log."""

    def judge(self, question: Question) -> Verdict:
        """Let it pass."""
        return Ok()


def run(kinds: Sequence[str]) -> tuple[float, float]:
    """Run one session with these hooks; return CPU seconds a turn, and the last over the first."""
    model = InstantModel(TURNS, [])
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(model=model, world=World([count]))
        options = SessionOptions(durability="none")
        log = Path(folder) / "log.jsonl"
        root, session = load_session(log, runtime=runtime, system_prompt="Count.", options=options)
        for number, kind in enumerate(kinds):
            hook_kind(kind, runtime)(session, runtime=runtime).install(root, f"{kind} {number}")
        with session:
            start = time.process_time()
            asyncio.run(root.response("Go."))
            cpu = time.process_time() - start
    steps = [b - a for a, b in zip(model.marks, model.marks[1:], strict=False)]
    return cpu / TURNS, median(steps[-WINDOW:]) / median(steps[:WINDOW])


def rows() -> list[Row]:
    """Measure no hook, one, and five, in turn."""
    cases: dict[str, Sequence[str]] = {
        "1 hook with nothing to say": ["bench-silent"],
        f"{MANY} hooks with nothing to say": ["bench-silent"] * MANY,
        f"{MANY} built-in hooks with nothing to say": BUILT_IN,
        "1 hook that is asked twice a turn": ["bench-asked"],
        f"{MANY} hooks that are asked twice a turn": ["bench-asked"] * MANY,
    }
    more: dict[str, list[float]] = {what: [] for what in cases}
    flat: dict[str, list[float]] = {what: [] for what in cases}
    bare: list[float] = []
    for _ in range(RUNS):
        for what, kinds in cases.items():
            without, _ = run(())
            cpu, ratio = run(kinds)
            bare.append(without)
            more[what].append((cpu - without) / len(kinds))
            flat[what].append(ratio)
    return [
        Row("no hook: CPU ms a turn", spread(bare, 1e3)),
        *(
            Row(
                f"{what}: CPU ms more a turn, each",
                spread(more[what], 1e3),
                "< 0.1",
                f"last 50 / first 50: {median(flat[what]):.2f}",
            )
            for what in cases
        ),
    ]
