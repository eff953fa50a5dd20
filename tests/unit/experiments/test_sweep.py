from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from harken import AgentRuntime, ScriptedModel, SessionViewer
from harken.agents.runtime import ModelSettings
from harken.errors import ConfigError, ModelError
from harken.experiments import Change, ContextRefused, ForkPoint, Grid, sweep
from harken.llm.base import Model
from tests.agent_kit import ScriptedAnswer, call, call_message, open_stage, run, script_model
from tests.unit.experiments.test_rerun import price

LINES: list[ScriptedAnswer] = [call_message(call("price", drink="tea")), "3 euros."]


class Models:
    """Returns models by name and counts the calls of each."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.failing: set[str] = set()
        self.asked: list[tuple[str, Any]] = []
        self.running = self.most = 0

    def __call__(self, name: str) -> Model:
        if name not in self.answers:
            raise ConfigError(f"model {name!r} not found")
        return _Counting(self, name)


class _Counting:
    def __init__(self, models: Models, name: str) -> None:
        self.name, self._models = name, models
        self._model = ScriptedModel([{"answer": models.answers[name], "delay_s": 0.01}], name)

    async def stream(self, request: Any) -> Any:
        models = self._models
        models.asked.append((self.name, request.parameters.get("seed")))
        models.running += 1
        models.most = max(models.most, models.running)
        try:
            if self.name in models.failing:
                raise ModelError("no credit")
            async for chunk in self._model.stream(request):
                yield chunk
        finally:
            models.running -= 1


@pytest.fixture
def point(tmp_path: Path) -> ForkPoint:
    scene = open_stage(tmp_path, script_model(main=LINES), tools=[price])
    scene.ask("What is tea?")
    scene.session.close()
    return ForkPoint.find("s", SessionViewer(scene.log).events, "2", log=scene.log)


MODELS = ("a", "b")


def test_each_combination_is_a_row_and_a_session(point: ForkPoint, tmp_path: Path) -> None:
    models = Models(a="3 euros.", b="4 euros.")
    grid = Grid(models=MODELS, prompts=[None, "Be short."], seeds=[1, 2])
    rows_found = run(
        sweep(
            point,
            tmp_path / "cells",
            grid,
            runtime=AgentRuntime(models=ModelSettings(resolver=models)),
        )
    )
    assert rows_found.ran == len(rows_found.rows) == 8
    assert [(row["model"], row["prompt"], row["seed"]) for row in rows_found.rows[:3]] == [
        ("a", None, 1),
        ("a", None, 2),
        ("a", "Be short.", 1),
    ]
    assert [row["answer"] for row in rows_found.rows] == ["3 euros."] * 4 + ["4 euros."] * 4
    assert [row["parts_after"] for row in rows_found.rows] == [None, None, 0, 0, 4, 4, 0, 0]
    for row in rows_found.rows:
        assert SessionViewer(row["log"]).list_agents() == {"agent_001": "main"}
        assert Path(row["log"]).stem == row["session"]
    assert sorted(models.asked) == sorted([("a", 1), ("a", 2), ("b", 1), ("b", 2)] * 2)


def test_restarted_sweep_runs_only_missing_cells(point: ForkPoint, tmp_path: Path) -> None:
    models = Models(a="A.", b="B.")
    runtime = AgentRuntime(models=ModelSettings(resolver=models))
    first = run(sweep(point, tmp_path / "cells", Grid(models=["a"]), runtime=runtime))
    second_rows = run(sweep(point, tmp_path / "cells", Grid(models=MODELS), runtime=runtime))
    assert (first.ran, second_rows.ran) == (1, 1)
    assert second_rows.rows[0] == first.rows[0]
    assert [name for name, _ in models.asked] == ["a", "b"]


def test_failed_cell_is_reported_and_retried(point: ForkPoint, tmp_path: Path) -> None:
    models = Models(a="A.", b="B.")
    models.failing.add("b")
    runtime, folder, grid = (
        AgentRuntime(models=ModelSettings(resolver=models)),
        tmp_path / "cells",
        Grid(models=MODELS),
    )
    first = run(sweep(point, folder, grid, runtime=runtime))
    assert [(row["answer"], row["error"]) for row in first.rows] == [
        ("A.", None),
        (None, "no credit"),
    ]
    models.failing.clear()
    second_rows = run(sweep(point, folder, grid, runtime=runtime))
    assert second_rows.ran == 1
    assert [row["answer"] for row in second_rows.rows] == ["A.", "B."]
    assert len(list(folder.iterdir())) == 3


def test_concurrency_is_limited(point: ForkPoint, tmp_path: Path) -> None:
    models = Models(a="A.")
    grid = Grid(models=["a"], seeds=range(9))
    run(
        sweep(
            point,
            tmp_path / "cells",
            grid,
            runtime=AgentRuntime(models=ModelSettings(resolver=models)),
            at_once=3,
        )
    )
    assert models.most == 3


def test_invalid_sweep_is_refused_before_any_run(point: ForkPoint, tmp_path: Path) -> None:
    runtime, folder = (
        AgentRuntime(models=ModelSettings(resolver=Models(a="A."))),
        tmp_path / "cells",
    )
    with pytest.raises(ConfigError, match="model 'c' not found"):
        run(sweep(point, folder, Grid(models=["a", "c"]), runtime=runtime))
    dropped = Grid(models=["a"], change=Change(drop=["#3"]))
    with pytest.raises(ContextRefused):
        run(sweep(point, folder, dropped, runtime=runtime))
    with pytest.raises(ValueError, match="at least one"):
        run(sweep(point, folder, Grid(), runtime=runtime, at_once=0))
    assert not folder.exists()


def test_equal_cells_are_merged(point: ForkPoint, tmp_path: Path) -> None:
    grid = Grid(models=["a", "a"])
    rows_found = run(
        sweep(
            point,
            tmp_path / "c",
            grid,
            runtime=AgentRuntime(models=ModelSettings(resolver=Models(a="A."))),
        )
    )
    assert len(rows_found.rows) == 1


def test_table_loads_in_pandas_and_polars(point: ForkPoint, tmp_path: Path) -> None:
    grid = Grid(models=MODELS)
    runtime = AgentRuntime(models=ModelSettings(resolver=Models(a="A.", b="B.")))
    table = run(sweep(point, tmp_path / "cells", grid, runtime=runtime)).table()
    assert list(pd.DataFrame(table).groupby("model")["model_calls"].sum()) == [1, 1]
    assert pl.DataFrame(table)["answer"].to_list() == ["A.", "B."]
