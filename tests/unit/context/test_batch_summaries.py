"""Summaries by workers equal those of one process, and no answer is paid for twice."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from harken.context.history import get_commit
from harken.context.summaries.batch import BatchSummarizer
from harken.context.summaries.summarize import (
    SummaryFilter,
    SummaryOptions,
    SummaryResult,
    select_commits,
    summarize,
)
from harken.core.messages import text_of
from harken.errors import ConfigError, ModelError
from harken.executors.workers import Workers
from harken.llm.base import Model, ModelRequest
from harken.llm.scripted import FunctionModel
from harken.store.base import Store, StoredCommit
from harken.store.memory import MemoryStore
from tests.unit.context.kit import commit
from tests.unit.executors.executor_kit import DISTRIBUTED, ENGINES, PROCESSES

KEY = "ghp_" + "k" * 36
MAX_CONCURRENT = 4


def load_small(calls: Path, request_to_die_at: str = "") -> Model:
    """Return a model that notes each call in a file.

    It fails for the text `broken`. At its first call with `request_to_die_at`, its process dies.
    """

    def answer(request: ModelRequest) -> str:
        text = text_of(request.messages[-1].content)
        number = text.partition("say ")[2].split()[0]
        if request_to_die_at and number == request_to_die_at:
            try:
                calls.with_name("died").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        with calls.open("a") as file:
            file.write(f"{number}\n")
        if number == "3":
            raise ModelError("the model is away")
        return f"It said {number}."

    return FunctionModel(answer, "small")


def load_nothing() -> Model:
    """Raise ConfigError, as for a key that a worker does not have."""
    raise ConfigError("no key for nobody")


def fill(count: int) -> Store:
    """Return a store with this number of commits."""
    store = MemoryStore()
    for number in range(count):
        commit(store, None, f"ask {KEY}", f"say {number} .")
    return store


def run(
    store: Store, workers: Workers, summarizer: BatchSummarizer
) -> tuple[list[SummaryResult], int]:
    """Summarize all commits with workers. Return the results, and the number of lost workers."""
    results: list[SummaryResult] = []
    with workers.open() as executor:
        summarizer.run(executor, store, selected(store), results.append)
        return sorted(results, key=lambda result: result.ctx), executor.lost_workers


def selected(store: Store) -> list[StoredCommit]:
    """Return the commits without a summary."""
    return list(select_commits(store, SummaryFilter(), "small"))


def create(tmp_path: Path, *arguments: str) -> BatchSummarizer:
    """Return a summarizer whose model notes its calls."""
    load_model = partial(load_small, tmp_path / "calls", *arguments)
    manner = SummaryOptions(max_concurrent=MAX_CONCURRENT)
    return BatchSummarizer(
        model="small", load_model=load_model, journal=tmp_path / "journal", manner=manner
    )


def summaries(store: Store) -> dict[str, str]:
    """Return the summary of each commit."""
    return {ctx: get_commit(store, ctx).notes.summary for ctx in store.newest_commits(1000)}


@pytest.mark.req("S2-62")
@pytest.mark.parametrize("workers", ENGINES)
def test_summaries_are_equal_whatever_the_engine(workers: Workers, tmp_path: Path) -> None:
    store, other = fill(9), fill(9)
    expected: list[SummaryResult] = []
    model = load_small(tmp_path / "calls-here")
    asyncio.run(summarize(store, model, selected(store), expected.append))
    results, lost = run(other, workers, create(tmp_path))
    assert (results, lost) == (sorted(expected, key=lambda result: result.ctx), 0)
    assert summaries(other) == summaries(store)
    assert sum(result.redacted for result in results) == 8
    assert [result.failure for result in results if result.failure] == ["the model is away"]
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("workers", DISTRIBUTED)
def test_a_killed_worker_costs_no_answer_that_was_paid_for(
    workers: Workers, tmp_path: Path
) -> None:
    store = fill(80)
    results, _ = run(store, workers, create(tmp_path, "35"))
    assert (tmp_path / "died").exists()
    assert sorted(summaries(store).values())[:2] == ["It said 0.", "It said 1."]
    assert [result.failure for result in results if result.failure] == ["the model is away"]
    calls = (tmp_path / "calls").read_text().split()
    assert set(calls) == set(map(str, range(80)))
    # Of each worker, calls that were running may be repeated, and the error, which is no answer.
    assert len(calls) <= 80 + 2 * MAX_CONCURRENT + 1
    assert not (tmp_path / "journal").exists()


def test_a_run_that_ends_early_leaves_its_answers_for_the_next(tmp_path: Path) -> None:
    summarizer = create(tmp_path)
    store = fill(40)

    def stop(_: SummaryResult) -> None:
        raise KeyboardInterrupt

    with PROCESSES.open() as executor, pytest.raises(KeyboardInterrupt):
        summarizer.run(executor, store, selected(store), stop)
    damaged = next((tmp_path / "journal").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])  # It is no answer.
    results, _ = run(store, PROCESSES, summarizer)
    assert sum(not result.failure for result in results) >= 38
    calls = (tmp_path / "calls").read_text().split()
    # Repeated are calls that were running, the damaged answer, and the error, which is no answer.
    assert len(set(calls)) == 40
    assert len(calls) <= 40 + 2 * MAX_CONCURRENT + 2


def test_a_model_that_no_worker_can_load_ends_the_run(tmp_path: Path) -> None:
    summarizer = BatchSummarizer(
        model="small", load_model=load_nothing, journal=tmp_path / "journal"
    )
    with pytest.raises(ConfigError, match="no key for nobody"):
        run(fill(2), PROCESSES, summarizer)


def test_the_calls_of_all_workers_keep_the_rate(tmp_path: Path) -> None:
    summarizer = create(tmp_path)
    summarizer = BatchSummarizer(
        model="small",
        load_model=summarizer.load_model,
        journal=summarizer.journal,
        manner=SummaryOptions(per_minute=600),
    )
    begun_s = os.times().elapsed
    run(fill(4), PROCESSES, summarizer)
    assert os.times().elapsed - begun_s >= 0.4
