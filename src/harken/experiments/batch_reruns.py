"""Reruns by workers: each runs agents as `rerun` does, and writes the log of its own run.

A worker opens the inputs of a rerun (`RerunSetup`) itself: store, models and keys do not travel. It
writes to a log of its own first and moves it when the run has ended, so a dead worker leaves no
session. What its models answered is in a journal, from which the repetition of the run is fed.

Source: docs/design/025-batch-work.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec

from harken.agents.runtime import AgentRuntime
from harken.errors import HarkenError
from harken.executors.base import AsyncFunction, ItemFailure
from harken.executors.executor import Executor
from harken.executors.result_journal import ResultJournal
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.journaled_model import JournaledModel
from harken.experiments.rerun import RerunResult, rerun
from harken.session.log.disk import move_durably
from harken.store.base import Store
from harken.world.world import World

MAX_CONCURRENT = 4
"""The number of concurrent runs in each worker."""


class RerunSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of reruns that a worker opens."""

    point: ForkPoint
    runtime: AgentRuntime
    store: Store | None = None
    live: Callable[[str], World] | None = None
    """Creates the world for calls that are not recorded, by the name of the session."""


class RerunItem(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

    log: Path
    """The log of the new session, which is empty or does not exist."""
    change: Change = msgspec.field(default_factory=Change)
    follow: bool = False


OpenSetup = Callable[[], AbstractContextManager[RerunSetup]]
"""A function of a module, or a `partial` of one: it can be pickled, and contains no credential."""


class BatchReruns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs reruns in workers."""

    open: OpenSetup
    journal: Path
    """The folder of answers of runs that have not ended. It is created."""

    def run(
        self,
        executor: Executor,
        items: Sequence[RerunItem],
        on_result: Callable[[RerunItem, RerunResult], None],
    ) -> None:
        """Run all items, and report each as it is ready. Raises ExecutorFailed.

        A run that could not begin, or killed its workers, has an error and no log; its answers stay
        in the journal.
        """
        results = executor.map(
            AsyncFunction(_PrepareReruns(self), MAX_CONCURRENT),
            items,
            max_items=max(1, min(MAX_CONCURRENT, len(items) // executor.jobs)),
            ordered=False,
        )
        for item, result in results:
            if isinstance(result, ItemFailure):
                on_result(item, RerunResult(item.log, error=str(result.error)))
            else:
                self.journal_of(item).clear()
                on_result(item, result)
        ResultJournal(self.journal).close()

    def journal_of(self, item: RerunItem) -> ResultJournal:
        """Return the journal of one run."""
        return ResultJournal(self.journal / item.log.stem)


class _PrepareReruns(msgspec.Struct, frozen=True):
    """Opens the inputs of a batch in its worker."""

    reruns: BatchReruns

    @contextmanager
    def __call__(self) -> Iterator[Callable[[RerunItem], Awaitable[Any]]]:
        with self.reruns.open() as setup:

            async def run(item: RerunItem) -> RerunResult:
                try:
                    return await _run(setup, item, self.reruns.journal_of(item))
                except HarkenError as error:  # An error of any class cannot be pickled reliably.
                    raise HarkenError(str(error)) from None

            yield run


async def _run(setup: RerunSetup, item: RerunItem, journal: ResultJournal) -> RerunResult:
    """Run an item in a log of its own, and move it to its place unless it is there already."""
    journal.create()
    folder = Path(mkdtemp(dir=journal.folder, prefix="attempt-"))
    result = await rerun(
        setup.point,
        folder / item.log.name,
        item.change,
        runtime=_with_journal(setup.runtime, journal),
        store=setup.store,
        live=None if setup.live is None else setup.live(item.log.stem),
        follow=item.follow,
    )
    if item.log.exists() and not item.log.stat().st_size:
        item.log.unlink()  # An empty file that reserves the name.
    with suppress(FileExistsError):  # A worker died after the move: the log of its run stays.
        move_durably(result.log, item.log)
    return msgspec.structs.replace(result, log=item.log)


def _with_journal(runtime: AgentRuntime, journal: ResultJournal) -> AgentRuntime:
    """Return the runtime of one run, whose models have a journal."""
    resolve, redacts = runtime.models.resolver, runtime.redact is not None

    @cache
    def resolve_journaled(name: str) -> JournaledModel:
        return JournaledModel(resolve(name), journal, redacts=redacts)

    default = runtime.default_model
    model = None if default is None else JournaledModel(default, journal, redacts=redacts)
    return replace(runtime, model=model, models=replace(runtime.models, resolver=resolve_journaled))
