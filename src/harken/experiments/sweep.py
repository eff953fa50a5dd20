"""`sweep`: one fork point, many roads: a grid of models, prompts, hooks and seeds.

    results = await sweep(point, folder, Grid(models=["openai/gpt-6", None]), runtime=runtime)
    pandas.DataFrame(results.table())

Each cell is a session of its own, named by what it is: a sweep that is begun again runs only what
has not come to its end, and one with a larger grid only what is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from harken.agents.runtime import AgentRuntime
from harken.context.materialize import resolver
from harken.core import canonical
from harken.core import events as ev
from harken.errors import ConfigError, LogError
from harken.experiments.change import Change
from harken.experiments.compare import figures, first_parting
from harken.experiments.fork_point import ForkPoint
from harken.experiments.outcome import ComparedRun
from harken.experiments.provider_rules import family_of
from harken.experiments.rerun import FAILED, REASON, check, rerun
from harken.session.log.reader import events
from harken.store.base import Store
from harken.world.world import World

AT_ONCE = 4
"""So many cells are under way at one time, if nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is tried: each with each. In all of them None, or nothing, is as it was recorded."""

    models: Sequence[str | None] = (None,)
    prompts: Sequence[str | None] = (None,)
    """System prompts."""
    without_hooks: Sequence[Sequence[str]] = ((),)
    """Names of hooks that do not watch."""
    seeds: Sequence[int | None] = (None,)
    """The parameter `seed`, where the model's provider knows one; else only so many repetitions."""
    change: Change = field(default_factory=Change)
    """What is different in every cell."""
    follow: bool = False
    """Whether what the agent was told later is said again."""


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One of the things that are tried."""

    change: Change
    prompt: str | None
    seed: int | None
    follow: bool

    def key(self, point: ForkPoint) -> str:
        """Return its name: the same for the same cell of the same point."""
        change = self.change
        told = {
            "session": point.session,
            "request": point.request.message_id,
            "context": point.request.context_hash,
            "edit": [list(pair) for pair in change.edit],
            "drop": list(change.drop),
            "system": change.system,
            "model": change.model,
            "without_hooks": list(change.without_hooks),
            "parameters": dict(change.parameters),
            "seed": self.seed,
            "follow": self.follow,
        }
        return "cell-" + canonical.hash_value(canonical.REQUEST, told)[:16]


@dataclass(frozen=True, slots=True)
class Results:
    """What came of a sweep: a row for each cell, in the order of the grid."""

    rows: list[dict[str, Any]]
    ran: int
    """How many cells were run now; the others had come to their end before."""

    def table(self) -> list[dict[str, Any]]:
        """Return the rows as plain dicts with the same members: for pandas, polars or a CSV."""
        return [dict(row) for row in self.rows]


def cells(grid: Grid) -> Iterator[SweepCell]:
    """Yield the cells of a grid, the last list turning fastest."""
    base = grid.change
    for model, prompt, hooks, seed in product(
        grid.models, grid.prompts, grid.without_hooks, grid.seeds
    ):
        change = replace(
            base,
            model=base.model if model is None else model,
            system=base.system if prompt is None else prompt,
            without_hooks=(*base.without_hooks, *hooks),
        )
        yield SweepCell(change, prompt, seed, grid.follow)


async def sweep(
    point: ForkPoint,
    folder: Path,
    grid: Grid,
    *,
    runtime: AgentRuntime,
    store: Store | None = None,
    live: Callable[[], World] | None = None,
    at_once: int = AT_ONCE,
) -> Results:
    """Run all cells of a grid that have not come to their end in this folder; return all results.

    runtime, store: as for `rerun`. live: makes a world for each cell. Raises, before any cell is
    run, what `rerun` raises, and ConfigError for a folder that cannot be made.
    """
    if at_once < 1:
        raise ValueError(f"at least one cell runs at a time, not {at_once}")
    all_cells = list(cells(grid))
    for cell in all_cells:
        check(point, cell.change, runtime)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: it cannot be made ({error.strerror})") from None
    recorded = ComparedRun(point.session, point.stepping, point.request.message_id)
    turn, ran = asyncio.Semaphore(at_once), 0

    async def one(cell: SweepCell) -> dict[str, Any]:
        nonlocal ran
        async with turn:
            log = _done(folder, cell.key(point))
            if log is None:
                ran += 1
                world = None if live is None else live()
                log = _new(folder, cell.key(point))
                await rerun(
                    point,
                    log,
                    _seeded(point, cell),
                    runtime=runtime,
                    store=store,
                    live=world,
                    follow=cell.follow,
                )
            return _row(point, cell, log, recorded, store)

    rows = await asyncio.gather(*map(one, _once(all_cells, point)))
    return Results(list(rows), ran)


def _once(all_cells: Sequence[SweepCell], point: ForkPoint) -> list[SweepCell]:
    """Return the cells without those that are another one again."""
    return list({cell.key(point): cell for cell in all_cells}.values())


def _seeded(point: ForkPoint, cell: SweepCell) -> Change:
    model = cell.change.model or point.request.model
    if cell.seed is None or family_of(model) == "anthropic":
        return cell.change
    return replace(cell.change, parameters={**cell.change.parameters, "seed": cell.seed})


def _done(folder: Path, key: str) -> Path | None:
    """Return the session of a cell that came to its end; None: there is none."""
    for log in sorted(folder.glob(f"{key}*.jsonl")):
        try:
            *_, last = events(log)
        except (LogError, ValueError, OSError):
            continue
        if isinstance(last, ev.SessionEnded) and last.reason == REASON:
            return log
    return None


def _new(folder: Path, key: str) -> Path:
    """Return where the session of a cell goes; one that failed stays as it is."""
    log, number = folder / f"{key}.jsonl", 1
    while log.exists():
        number += 1
        log = folder / f"{key}-{number}.jsonl"
    return log


def _row(
    point: ForkPoint, cell: SweepCell, log: Path, recorded: ComparedRun, store: Store | None
) -> dict[str, Any]:
    """Return what came of a cell."""
    found = list(events(log))
    run = ComparedRun.of(
        log.stem, found, **({} if store is None else {"resolver": resolver(store)})
    )
    parted = first_parting(recorded, run)
    last = found[-1] if found else None
    failed = isinstance(last, ev.SessionEnded) and last.reason == FAILED
    responses = [one for one in found if isinstance(one, ev.LlmResponse)]
    return {
        "session": log.stem,
        "log": str(log),
        "model": cell.change.model or point.request.model,
        "prompt": cell.prompt,
        "without_hooks": ", ".join(cell.change.without_hooks),
        "seed": cell.seed,
        "answer": None if failed else run.outcome.answer,
        "error": (responses[-1].error if responses else None) if failed else None,
        "parts_after": None if parted is None else parted[1],
        **figures(run.outcome),
    }
