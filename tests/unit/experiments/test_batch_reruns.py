"""Sweeps by workers: the rows of one process, and no model call that was answered is repeated."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, SessionViewer
from harken.agents.runtime import ModelSettings
from harken.errors import ConfigError, ModelError
from harken.executors.workers import Workers
from harken.experiments import ForkPoint, Grid, SweepResults, sweep, sweep_on
from harken.experiments.batch_reruns import MAX_CONCURRENT, RerunSetup
from harken.llm.base import Model, ModelRequest
from harken.llm.scripted import FunctionAnswer, FunctionModel
from tests.agent_kit import call, call_message, open_stage, run, script_model
from tests.unit.executors.executor_kit import DISTRIBUTED, ENGINES, PROCESSES
from tests.unit.experiments.test_rerun import price

GRID = Grid(models=["a", "b", "fails"], seeds=[1, 2, 3])
MEASURED = ("log", "wall_s", "model_s")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a session with two model calls, and a tool call between them."""
    model = script_model(main=[call_message(call("price", drink="tea")), "3 euros."])
    scene = open_stage(tmp_path, model, tools=[price])
    scene.ask("What is tea?")
    scene.session.close()
    return scene.log


def resolve(calls: Path, death: str, name: str) -> Model:
    """Return a model that notes its calls, by seed and number of messages.

    death: the model and seed at whose second call its process dies, once.
    """
    if name not in ("a", "b", "fails"):
        raise ConfigError(f"model {name!r} not found")

    def answer(request: ModelRequest) -> FunctionAnswer:
        cell = f"{name}{request.parameters.get('seed')}"
        is_second = any(message.role == "tool" for message in request.messages)
        if death == cell and is_second:
            with suppress(FileExistsError):
                calls.with_name("died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        with calls.open("a") as file:
            file.write(f"{cell}-{len(request.messages)}\n")
        if is_second and name == "fails":
            raise ModelError("no credit")
        return f"{name} euros." if is_second else call_message(call("price", drink="tea"))

    return FunctionModel(answer, name)


@contextmanager
def open_setup(log: Path, calls: Path, death: str = "") -> Iterator[RerunSetup]:
    """Open what a worker needs."""
    point = ForkPoint.find("s", SessionViewer(log).events, "1", log=log)
    models = ModelSettings(resolver=partial(resolve, calls, death))
    yield RerunSetup(point=point, runtime=AgentRuntime(models=models))


def rows_of(results: SweepResults) -> list[dict[str, Any]]:
    """Return rows without paths and times."""
    return [{k: v for k, v in row.items() if k not in MEASURED} for row in results.rows]


def sweep_in(workers: Workers, folder: Path, log: Path, death: str = "") -> SweepResults:
    """Sweep with workers."""
    setup = partial(open_setup, log, folder.with_name("calls"), death)
    with workers.open() as executor:
        return sweep_on(executor, setup, folder, GRID)


@pytest.mark.parametrize("workers", ENGINES)
def test_rows_are_equal_whatever_the_engine(workers: Workers, log: Path, tmp_path: Path) -> None:
    with open_setup(log, tmp_path / "calls-here") as setup:
        expected = run(sweep(setup.point, tmp_path / "here", GRID, runtime=setup.runtime))
    results = sweep_in(workers, tmp_path / "cells", log)
    assert rows_of(results) == rows_of(expected)
    assert [row["answer"] for row in results.rows[::3]] == ["a euros.", "b euros.", None]
    assert {row["error"] for row in results.rows[6:]} == {"no credit"}
    # The folder has the sessions only, and a second sweep runs only the cells that failed.
    assert sorted(path.suffix for path in (tmp_path / "cells").iterdir()) == [".jsonl"] * 9
    assert (results.ran, sweep_in(workers, tmp_path / "cells", log).ran) == (9, 3)


@pytest.mark.parametrize("workers", DISTRIBUTED)
def test_a_killed_worker_costs_no_call_that_was_answered(
    workers: Workers, log: Path, tmp_path: Path
) -> None:
    results = sweep_in(workers, tmp_path / "cells", log, "b2")
    assert (tmp_path / "died").exists()
    assert [row["answer"] for row in results.rows[3:6]] == ["b euros."] * 3
    counts = Counter((tmp_path / "calls").read_text().split())
    assert len(counts) == 18
    assert counts["b2-2"] == counts["b2-4"] == 1
    # The death of a process ends the others of its pool: calls that ran there are repeated.
    repeated = sum(count - 1 for name, count in counts.items() if "fails" not in name)
    assert repeated <= MAX_CONCURRENT
    assert sorted(path.suffix for path in (tmp_path / "cells").iterdir()) == [".jsonl"] * 9


def test_a_worker_that_cannot_open_its_inputs_is_the_error_of_its_runs(
    log: Path, tmp_path: Path
) -> None:
    with PROCESSES.open() as executor:
        results = sweep_on(
            executor, _OpenOnce(log, tmp_path / "calls"), tmp_path / "cells", Grid(models=["a"])
        )
    assert [row["error"] for row in results.rows] == ["a worker does not see this home"]
    assert results.rows[0]["session"] is None
    assert list(results.rows[0]) == list(sweep_in(PROCESSES, tmp_path / "c", log).rows[0])


class _OpenOnce:
    """Opens the inputs in the process that created it only."""

    def __init__(self, log: Path, calls: Path) -> None:
        self._arguments, self._process = (log, calls), os.getpid()

    def __call__(self) -> Any:
        if os.getpid() != self._process:
            raise ConfigError("a worker does not see this home")
        return open_setup(*self._arguments)


def test_a_sweep_that_cannot_run_is_refused_before_any_cell(log: Path, tmp_path: Path) -> None:
    setup = partial(open_setup, log, tmp_path / "calls")
    with (
        PROCESSES.open() as executor,
        pytest.raises(ConfigError, match="model 'c' not found"),
    ):
        sweep_on(executor, setup, tmp_path / "cells", Grid(models=["a", "c"]))
    assert not (tmp_path / "cells").exists()
