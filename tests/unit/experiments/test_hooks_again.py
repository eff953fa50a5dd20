"""A session in which hooks come later, and reach those who are there, goes the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import Conversation, Runtime, World
from harken.agents.actor import Actor
from harken.agents.hooking import new_hook
from harken.agents.schemas import ACTIONS
from tests.agent_kit import Stage, call, calls, play, run, stage
from tests.unit.agents.hooking import Judging, send, watch
from tests.unit.experiments.test_determinism import same

KID = calls(call("task", "t", name="kid", instructions="k"))


def acting(folder: Path, **lines: Any) -> Stage:
    model = play(**lines)
    runtime = Runtime(
        model=model, actions=ACTIONS, world=World([send]), kinds={"test-judge": Judging}
    )
    return stage(folder, model, runtime=runtime)


def test_a_hook_that_comes_later(tmp_path: Path) -> None:
    ask = calls(call("discuss", "d", prompt="Send."))
    one = acting(
        tmp_path,
        main=[KID, "Done.", ask, "Done."],
        kid=[calls(call("send", "s", text="x")), "Sent."],
        smart=["OK"] * 9,
    )
    one.ask("Go.")
    watch(one)
    assert isinstance(one.root, Actor)
    new_hook(one.root, "Watch.", points=["response"]).install(one.root, "smart")
    one.ask("On.")
    one.session.close()
    assert same(one.log).agents == 6


def test_a_hook_that_a_hook_makes(tmp_path: Path) -> None:
    made = calls(call("hook", "h", name="new", instructions="Watch.", points=["response"]))
    one = acting(tmp_path, main=[KID, "Done."], maker=[made, "OK"], new=["OK"] * 9)
    assert isinstance(one.root, Actor)
    maker = new_hook(one.root, "Make.", tools=["hook"], points=["response"])
    maker.install(one.root, "maker")
    one.ask("Go.")
    assert [hook.name for hook in one.agent("kid").hooks] == ["maker", "new"]
    one.session.close()
    assert same(one.log).agents == 6


@pytest.mark.parametrize("tools", [[], ["send"]])
def test_a_hook_of_its_own_that_takes_the_place(tmp_path: Path, tools: list[str]) -> None:
    made = call("hook", "h", name="h", instructions="x", tools=tools, points=["response"])
    one = acting(tmp_path, main=[calls(made), "Done."], h=[calls(call("meta", "m")), "Mine."])
    watch(one)
    assert run(Conversation(one.root).say("Go.")) == "Mine."
    one.session.close()
    same(one.log)
