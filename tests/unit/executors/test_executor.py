"""Every engine gives the same results, and no dead worker costs an item."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.executors.base import BatchLimits, ItemFailure, WorkerDied
from harken.executors.executor import MAX_AHEAD_BYTES, group_items
from harken.executors.workers import Workers, parse_workers
from tests.unit.executors.executor_kit import (
    DISTRIBUTED,
    ENGINES,
    HERE,
    IS_RAY_INSTALLED,
    PROCESSES,
    die_always,
    die_once,
    sleep_long,
    square,
    worker_id,
)

NUMBERS = list(range(250))


@pytest.mark.parametrize("workers", ENGINES)
def test_results_are_in_the_order_of_the_items_and_a_failure_is_one_item(workers: Workers) -> None:
    items = [*NUMBERS, -1, *NUMBERS]
    with workers.open() as executor:
        results = list(executor.map(square, items))
        unordered = list(executor.map(square, NUMBERS, ordered=False, max_items=3))
    assert [item for item, _ in results] == items
    failure = results[len(NUMBERS)][1]
    assert isinstance(failure, ItemFailure)
    assert (type(failure.error), str(failure.error)) == (ValueError, "-1 is negative")
    assert [result for _, result in results if result is not failure] == [
        number * number for number in [*NUMBERS, *NUMBERS]
    ]
    assert sorted(unordered) == [(number, number * number) for number in NUMBERS]


@pytest.mark.parametrize("workers", DISTRIBUTED)
def test_a_worker_that_is_killed_in_its_task_costs_no_item(
    workers: Workers, tmp_path: Path
) -> None:
    with workers.open() as executor:
        results = list(executor.map(partial(die_once, tmp_path), NUMBERS))
    assert (tmp_path / "died").exists()
    assert results == [(number, number * number) for number in NUMBERS]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("workers", DISTRIBUTED)
def test_an_item_that_kills_all_its_workers_is_one_failure(
    workers: Workers, tmp_path: Path, ordered: bool
) -> None:
    with workers.open() as executor:
        results = dict(
            executor.map(partial(die_always, tmp_path), NUMBERS, ordered=ordered, max_items=10)
        )
        lost_workers = executor.lost_workers
    failure = results.pop(7)
    assert isinstance(failure, ItemFailure)
    assert isinstance(failure.error, WorkerDied)
    assert results == {number: number * number for number in NUMBERS if number != 7}
    assert lost_workers


@pytest.mark.parametrize("workers", DISTRIBUTED)
def test_work_is_done_by_other_processes(workers: Workers) -> None:
    with workers.open() as executor:
        ids = {result for _, result in executor.map(worker_id, NUMBERS, max_items=1)}
    assert os.getpid() not in ids
    assert ids


def test_no_process_is_left_when_results_are_not_taken() -> None:
    before = set(multiprocessing.active_children())
    with PROCESSES.open() as executor:
        results = executor.map(square, NUMBERS, max_items=1)
        assert next(results) == (0, 0)
        assert set(multiprocessing.active_children()) > before
    assert set(multiprocessing.active_children()) == before


def test_running_tasks_end_with_the_executor() -> None:
    began_s = time.monotonic()

    def items() -> Iterator[int]:
        yield from (1, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), PROCESSES.open() as executor:
        next(executor.map(sleep_long, items(), max_items=1))
    assert time.monotonic() - began_s < 20


def test_items_are_taken_ahead_up_to_a_number_of_bytes() -> None:
    taken: list[int] = []

    def items() -> list[int]:
        return NUMBERS

    def count(number: int) -> int:
        taken.append(number)
        return 8 * 1024 * 1024

    with PROCESSES.open() as executor:
        next(executor.map(square, iter(items()), size=count))
    assert len(set(taken)) <= MAX_AHEAD_BYTES // (8 * 1024 * 1024) + 2


def test_batches_are_limited_by_items_and_by_bytes() -> None:
    limits = BatchLimits(max_items=3, max_bytes=10)
    assert list(group_items([1, 2, 3, 4, 9, 2, 20, 1], lambda size: size, limits)) == [
        [1, 2, 3],
        [4],
        [9],
        [2],
        [20],
        [1],
    ]


def test_the_option_names_an_engine() -> None:
    assert parse_workers("local", 2) == PROCESSES
    assert not HERE.has_processes
    for text in ("rays", "ray:", "local:4", ""):
        with pytest.raises(ConfigError, match="write local, ray, or ray:ADDRESS"):
            parse_workers(text, None)


@pytest.mark.skipif(IS_RAY_INSTALLED, reason="Ray is installed here")
def test_a_missing_ray_is_named_with_its_extra() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'harken\[ray\]'"):
        parse_workers("ray", None)
