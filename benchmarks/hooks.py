"""Hooks: what each of them adds to a turn, whether it has something to say or not.

A turn is one model call with one tool call, so a hook at all points is asked twice. What it says is
in the log: a question, and a verdict. What that takes must depend on what is new, not on what was
said before, nor on how many other agents there are.

A session without hooks runs beside each with them; of both a fast turn counts (one of four is
faster), since the others also wait for who else uses the machine.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import quantiles
from typing import ClassVar

from benchmarks.loop import WINDOW, InstantModel
from benchmarks.measure import RUNS, Row, median, spread
from harken import (
    AgentRuntime,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    SessionOptions,
    SmartAgent,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.agent import log_birth
from harken.agents.hooks.registry import get_hook_class
from harken.core.verdict import Verdict

TURNS = 100
"""Few, and many sessions: a machine that others use is fast now and slow then."""
PAIRS = 4 * RUNS
MANY = 5
LONG = 2000
CROWD = 1000
BIG = '    "name": "a line of a file that was read", "at": [1, 2],\n' * 1700
BUILT_IN = (
    *("todo-reminder", "changed-files", "read-before-write", "garbage-collector", "budget-guard"),
)


@register_agent_class("bench-silent")
class Silent(Hook):
    """Looks at every question, and has nothing to say."""

    _can_unload: ClassVar[bool] = True

    def should_ask(self, question: HookQuestion) -> bool:
        """Never."""
        return "never said" in question.text

    def judge(self, question: HookQuestion) -> Verdict:
        """Return what it never says."""
        return Ok()


@register_agent_class("bench-asked")
class Asked(Hook):
    """Is asked every time, and says so in the log."""

    def judge(self, question: HookQuestion) -> Verdict:
        """Let it pass."""
        return Ok()


@dataclass(frozen=True, slots=True)
class Case:
    """What a session is like."""

    kinds: Sequence[str] = ()
    turns: int = TURNS
    result: str = "counted 1"
    """What the tool gives back in each turn."""
    others: int = 0
    """Subagents that have heard something, and do nothing."""


def run(case: Case) -> list[float]:
    """Run one session; return the CPU seconds of each turn."""

    @tool
    async def count(n: int) -> str:
        """Count."""
        return case.result

    model = InstantModel(case.turns, [])
    with tempfile.TemporaryDirectory() as folder:
        runtime = AgentRuntime(model=model, world=LocalWorld([count]))
        options = SessionOptions(durability="none")
        log = Path(folder) / "log.jsonl"
        root, session = load_session(log, runtime=runtime, system_prompt="Count.", options=options)
        for number, kind in enumerate(case.kinds):
            get_hook_class(kind, runtime)(session, runtime=runtime).install(
                root, f"{kind} {number}"
            )
        for number in range(case.others):
            other = SmartAgent(session, "Wait.", runtime=runtime)
            log_birth(other, root.state.birth, f"other {number}")
            other.harken("Nothing yet.")
        gc.collect()  # what others left behind is not this one's
        with session:
            asyncio.run(root.response("Go."))
    return [b - a for a, b in zip(model.marks, model.marks[1:], strict=False)]


def fast(turns: list[float]) -> float:
    """Return what a turn takes where nothing comes between."""
    return quantiles(turns, n=4)[0]


def flat(turns: list[float]) -> float:
    """Return what the last turns took, as a part of what the first did."""
    return fast(turns[-WINDOW:]) / fast(turns[:WINDOW])


@dataclass(slots=True)
class Beside:
    """Sessions with hooks, each beside one without."""

    without: list[float] = field(default_factory=list)
    more: list[float] = field(default_factory=list)
    """CPU seconds of a turn, for each hook."""
    flat: list[float] = field(default_factory=list)

    def run(self, case: Case) -> None:
        """Run one of each."""
        bare, turns = fast(run(replace(case, kinds=()))), run(case)
        self.without.append(bare)
        self.more.append((fast(turns) - bare) / len(case.kinds))
        self.flat.append(flat(turns))


def rows() -> list[Row]:
    """Measure no hook, one, and five, in turn."""
    many = f"{MANY} hooks"
    cases = {
        "1 hook with nothing to say": Case(["bench-silent"]),
        f"{many} with nothing to say": Case(["bench-silent"] * MANY),
        f"{MANY} built-in hooks with nothing to say": Case(BUILT_IN),
        "1 hook that is asked twice a turn": Case(["bench-asked"]),
        f"{many} that are asked twice a turn": Case(["bench-asked"] * MANY),
    }
    found = {what: Beside() for what in cases}
    for _ in range(PAIRS):
        for what, case in cases.items():
            found[what].run(case)
    bare = [turn for beside in found.values() for turn in beside.without]
    return [
        Row("no hook: CPU ms a turn", spread(bare, 1e3)),
        *(
            Row(
                f"{what}: CPU ms more a turn, each",
                spread(beside.more, 1e3),
                "< 0.1",
                f"last 50 / first 50: {median(beside.flat):.2f}",
            )
            for what, beside in found.items()
        ),
        *_of_what_grows(),
    ]


def _of_what_grows() -> list[Row]:
    """Measure turns with a long past, with many agents around, and with long results."""
    asked = Case(["bench-asked"])
    long, crowd, big = [], [], Beside()
    for _ in range(2 * RUNS):
        long.append(flat(run(replace(asked, turns=LONG))))
        crowd.append(fast(run(replace(asked, others=CROWD))) / fast(run(asked)))
        big.run(replace(asked, result=BIG))
    what = f"results of {len(BIG) / 1000:.0f} kB"
    return [
        Row(f"1 hook, {LONG:,} turns: last 50 / first 50", spread(long, 1, 2), "< 1.2"),
        Row(f"1 hook, {CROWD:,} other agents / none", spread(crowd, 1, 2), "< 1.2"),
        Row(f"no hook, {what}: CPU ms a turn", spread(big.without, 1e3)),
        Row(f"1 hook, {what}: CPU ms more a turn", spread(big.more, 1e3)),
    ]
