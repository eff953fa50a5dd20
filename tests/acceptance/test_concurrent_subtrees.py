"""Independent subtrees run concurrently; their results are read in the order of the calls.

Source: spec [Agents], "Different subtrees are independent, so they can safely run in parallel. A
parent agent who invokes subagents will not do anything until all of its subagents have finished
their processing."
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from harken import FunctionModel
from harken.core.messages import text_of
from harken.core.stream import Chunk
from harken.llm.base import ModelRequest
from tests.agent_kit import Stage, call, call_message, check_log, open_stage

NAMES = ("Ann", "Bob", "Cid")


class Gates:
    """A model whose leaf agents answer in a given order, when all of them have been asked.

    If one of them had to wait for another, the first answer would never come.
    """

    name = "gates"

    def __init__(self, tree: Mapping[str, Sequence[str]], order: Sequence[str]) -> None:
        self.tree, self.order = tree, order
        self.trace: list[str] = []
        """What happened: `ask NAME`, `answer NAME`."""
        self._open = {name: asyncio.Event() for name in order}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        name = request.agent
        self.trace.append(f"ask {name}")
        if name in self._open:
            await self._wait(name)
        async for chunk in FunctionModel(self._answer).stream(request):
            yield chunk
        self.trace.append(f"answer {name}")
        if name in self._open:
            for following in self.order[self.order.index(name) + 1 :][:1]:
                self._open[following].set()

    async def _wait(self, name: str) -> None:
        if all(f"ask {other}" in self.trace for other in self.order):
            self._open[self.order[0]].set()
        await self._open[name].wait()

    def _answer(self, request: ModelRequest) -> Any:
        children = self.tree.get(request.agent, ())
        if children and request.messages[-1].role == "user":
            return call_message(
                *(call("task", f"c_{name}", name=name, prompt="Go.") for name in children)
            )
        if not children:
            return f"{request.agent} is done."
        results = [text_of(m.content) for m in request.messages if m.role == "tool"]
        return " ".join(results)


def play(
    folder: Path, tree: Mapping[str, Sequence[str]], order: Sequence[str]
) -> tuple[Stage, Gates]:
    model = Gates(tree, order)
    stage = open_stage(folder, model)
    stage.ask("Go.")
    check_log(stage.log)
    return stage, model


@pytest.mark.req("S4-19")
@pytest.mark.parametrize("order", [*permutations(NAMES)], ids="-".join)
def test_results_are_logged_as_they_come_and_read_in_the_order_of_the_calls(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    stage, model = play(tmp_path, {"main": NAMES}, order)
    leaves = model.trace[2:-2]
    assert leaves[:3] == [f"ask {name}" for name in NAMES]
    assert leaves[3:] == [f"answer {name}" for name in order]
    assert model.trace[-2:] == ["ask main", "answer main"]
    read = [entry["content"] for entry in stage.root.transcript if entry["role"] == "tool"]
    assert read == [f"{name} is done." for name in NAMES]
    logged = stage.select_lines(role="tool", agent_id=stage.root.agent_id)
    assert [line["tool_call_id"] for line in logged] == [f"c_{name}" for name in order]
    resumed = stage.resume()
    assert [
        entry["content"] for entry in resumed.root.transcript if entry["role"] == "tool"
    ] == read


@pytest.mark.req("S4-19", "S4-20")
def test_agents_of_all_levels_run_concurrently_and_each_parent_waits(tmp_path: Path) -> None:
    """Four leaves below two parents are asked before any of them answers."""
    tree = {"main": ["left", "right"], "left": ["a", "b"], "right": ["c", "d"]}
    for number, order in enumerate([*permutations("abcd")][::5]):
        folder = tmp_path / str(number)
        folder.mkdir()
        stage, model = play(folder, tree, order)
        first_answer = model.trace.index(f"answer {order[0]}")
        assert {f"ask {name}" for name in "abcd"} <= set(model.trace[:first_answer])
        for parent, children in tree.items():
            asked = [n for n, item in enumerate(model.trace) if item == f"ask {parent}"]
            answers = [max(_ends(model.trace, child)) for child in children]
            assert len(asked) == 2
            assert asked[1] > max(answers)
        assert stage.root.transcript[-1]["content"] == (
            "a is done. b is done. c is done. d is done."
        )


def _ends(trace: Sequence[str], name: str) -> list[int]:
    return [n for n, item in enumerate(trace) if item == f"answer {name}"]
