"""`sweep`: run many reruns of one fork point: a grid of models, prompts, hooks and seeds.

    results = await sweep(point, folder, Grid(models=["openai/gpt-6", None]), runtime=runtime)
    pandas.DataFrame(results.table())

Each cell is a session whose name is derived from its settings. So a repeated sweep only runs
unfinished cells, and a larger grid only new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from harken.agents.runtime import AgentRuntime
from harken.context.materialize import make_resolver
from harken.core import canonical, structs
from harken.core import events as ev
from harken.errors import ConfigError, LogError
from harken.executors.executor import Executor
from harken.experiments.batch_reruns import BatchReruns, OpenSetup, RerunItem
from harken.experiments.change import Change
from harken.experiments.compare import first_divergence, metric_values
from harken.experiments.fork_point import ForkPoint
from harken.experiments.outcome import ComparedRun, RunMetrics
from harken.experiments.provider_rules import find_family
from harken.experiments.rerun import FAILURE_REASON, SUCCESS_REASON, RerunResult, check_rerun, rerun
from harken.session.log.reader import iter_events
from harken.store.base import Store
from harken.world.world import World

DEFAULT_CONCURRENCY = 4
"""Default number of concurrent cells."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The settings to combine. Settings that are None or empty are as recorded."""

    models: Sequence[str | None] = (None,)
    prompts: Sequence[str | None] = (None,)
    """System prompts."""
    without_hooks: Sequence[Sequence[str]] = ((),)
    """Names of hooks to remove."""
    seeds: Sequence[int | None] = (None,)
    """Values of the parameter `seed`; without support of the provider, just repetitions."""
    change: Change = msgspec.field(default_factory=Change)
    """A change that applies to every cell."""
    follow: bool = False
    """Whether later inputs of the recorded agent are sent again."""


class SweepCell(msgspec.Struct, frozen=True):
    """A combination of settings."""

    change: Change
    prompt: str | None
    seed: int | None
    follow: bool

    def key(self, point: ForkPoint) -> str:
        """Return the name of the cell, derived from its settings and the fork point."""
        change = self.change
        settings = {
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
        return "cell-" + canonical.hash_value(canonical.REQUEST_DOMAIN, settings)[:16]


class SweepResults(msgspec.Struct, frozen=True):
    """The results of a sweep, with a row for each cell in the order of the grid."""

    rows: list[dict[str, Any]]
    ran: int
    """Number of cells that were run now; the others were complete."""

    def table(self) -> list[dict[str, Any]]:
        """Return the rows as dicts with equal members, for pandas, polars or CSV."""
        return [dict(row) for row in self.rows]


def iter_cells(grid: Grid) -> Iterator[SweepCell]:
    """Yield the cells of a grid; the last list varies fastest."""
    base = grid.change
    for model, prompt, hooks, seed in product(
        grid.models, grid.prompts, grid.without_hooks, grid.seeds
    ):
        change = structs.replace(
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
    at_once: int = DEFAULT_CONCURRENCY,
) -> SweepResults:
    """Run all cells that are not complete in this folder; return the results of all cells.

    `runtime` and `store` are as for `rerun`. `live` creates a world for each cell. Before the first
    cell, raises the errors of `rerun`, and ConfigError if the folder cannot be created.
    """
    if at_once < 1:
        raise ValueError(f"at least one cell runs at a time, not {at_once}")
    all_cells = _check_cells(point, folder, grid, runtime)
    recorded = ComparedRun(point.session, point.steps, point.request.message_id)
    semaphore, ran = asyncio.Semaphore(at_once), 0

    async def one(cell: SweepCell) -> dict[str, Any]:
        nonlocal ran
        async with semaphore:
            log = _find_complete(folder, cell.key(point))
            if log is None:
                ran += 1
                world = None if live is None else live()
                log = _new_log_path(folder, cell.key(point))
                await rerun(
                    point,
                    log,
                    _with_seed(point, cell),
                    runtime=runtime,
                    store=store,
                    live=world,
                    follow=cell.follow,
                )
            return _build_row(point, cell, log, recorded, store)

    rows = await asyncio.gather(*map(one, _unique_cells(all_cells, point)))
    return SweepResults(list(rows), ran)


def sweep_on(
    executor: Executor,
    open_setup: OpenSetup,
    folder: Path,
    grid: Grid,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SweepResults:
    """Run the cells of a sweep in workers; return the same results as `sweep`.

    Workers see the folder at the same path. A cell that was interrupted does not repeat the model
    calls that were answered. `on_progress` is called with the number of ended cells and of cells
    to run. Raises as `sweep`, and ExecutorFailed.
    """
    folder = folder.absolute()
    with open_setup() as setup:
        point = setup.point
        all_cells = _check_cells(point, folder, grid, setup.runtime)
        cells = {cell.key(point): cell for cell in _unique_cells(all_cells, point)}
        logs = {key: _find_complete(folder, key) for key in cells}
        items: dict[Path, str] = {}
        for key, log in logs.items():
            if log is None:
                items[_new_log_path(folder, key)] = key
        errors: dict[str, str] = {}

        def add(item: RerunItem, result: RerunResult) -> None:
            key = items[item.log]
            if item.log.exists():
                logs[key] = item.log
            else:
                errors[key] = result.error or ""
            on_progress(sum(logs[key] is not None for key in items.values()), len(items))

        reruns = BatchReruns(open=open_setup, journal=folder / ".journal")
        reruns.run(
            executor,
            [
                RerunItem(log=log, change=_with_seed(point, cells[key]), follow=grid.follow)
                for log, key in items.items()
            ],
            add,
        )
        recorded = ComparedRun(point.session, point.steps, point.request.message_id)
        rows = [
            _build_row(point, cell, log, recorded, setup.store)
            if (log := logs[key]) is not None
            else {**_describe_cell(point, cell), "error": errors.get(key, "")}
            for key, cell in cells.items()
        ]
    return SweepResults(rows, len(items))


def _check_cells(
    point: ForkPoint, folder: Path, grid: Grid, runtime: AgentRuntime
) -> list[SweepCell]:
    """Return the cells of a grid, and create the folder. Raises as `sweep`."""
    all_cells = list(iter_cells(grid))
    for cell in all_cells:
        check_rerun(point, cell.change, runtime)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: the folder cannot be created ({error.strerror})") from None
    return all_cells


def _unique_cells(all_cells: Sequence[SweepCell], point: ForkPoint) -> list[SweepCell]:
    """Return the cells without duplicates."""
    return list({cell.key(point): cell for cell in all_cells}.values())


def _with_seed(point: ForkPoint, cell: SweepCell) -> Change:
    model = cell.change.model or point.request.model
    if cell.seed is None or find_family(model) == "anthropic":
        return cell.change
    return structs.replace(cell.change, parameters={**cell.change.parameters, "seed": cell.seed})


def _find_complete(folder: Path, key: str) -> Path | None:
    """Return the log of a completed cell, or None if there is none."""
    for log in sorted(folder.glob(f"{key}*.jsonl")):
        try:
            *_, last = iter_events(log)
        except (LogError, ValueError, OSError):
            continue
        if isinstance(last, ev.SessionEnded) and last.reason == SUCCESS_REASON:
            return log
    return None


def _new_log_path(folder: Path, key: str) -> Path:
    """Return the path of a new log. Logs of failed runs are kept."""
    log, number = folder / f"{key}.jsonl", 1
    while log.exists():
        number += 1
        log = folder / f"{key}-{number}.jsonl"
    return log


def _build_row(
    point: ForkPoint, cell: SweepCell, log: Path, recorded: ComparedRun, store: Store | None
) -> dict[str, Any]:
    """Return the result row of a cell."""
    log_events = list(iter_events(log))
    run = ComparedRun.of(
        log.stem, log_events, **({} if store is None else {"resolver": make_resolver(store)})
    ).from_fork([recorded])
    divergence = first_divergence(recorded, run)
    last = log_events[-1] if log_events else None
    failed = isinstance(last, ev.SessionEnded) and last.reason == FAILURE_REASON
    responses = [event for event in log_events if isinstance(event, ev.LlmResponse)]
    return {
        **_describe_cell(point, cell),
        "session": log.stem,
        "log": str(log),
        "answer": None if failed else run.outcome.answer,
        "error": (responses[-1].error if responses else None) if failed else None,
        "parts_after": None if divergence is None else divergence[1],
        **metric_values(run.outcome),
    }


def _describe_cell(point: ForkPoint, cell: SweepCell) -> dict[str, Any]:
    """Return the row of a cell that has no run."""
    return {
        "session": None,
        "log": None,
        "model": cell.change.model or point.request.model,
        "prompt": cell.prompt,
        "without_hooks": ", ".join(cell.change.without_hooks),
        "seed": cell.seed,
        "answer": None,
        "error": None,
        "parts_after": None,
        **dict.fromkeys(metric_values(RunMetrics(model_calls=0, turns=0))),
    }
