"""The hook that names subagents which nobody speaks to."""

from pathlib import Path
from typing import Any

import pytest

from harken.agents.agent import unload_agent
from harken.agents.built_in.garbage_collector import IdleSubagent, idle_text
from harken.session.state import UsageTotals
from tests.agent_kit import ScriptedAnswer, call, call_message, check_log
from tests.unit.agents.built_in.built_in import asked, comments, hooked, looks, resumed
from tests.unit.agents.test_budget import costing

NAME = "garbage-collector"


def task(name: str, **more: Any) -> ScriptedAnswer:
    return call_message(call("task", f"t{name}", name=name, **more))


@pytest.mark.req("S4-34")
def test_idle_subagents_are_named_with_what_they_cost(tmp_path: Path) -> None:
    ann = costing(call_message(call("task", name="Eve", prompt="Go.")), tokens=2000, usd=0.5)
    parts: dict[str, Any] = {
        "main": [task("Ann", prompt="Go."), task("Bob"), *looks(4), "Done."],
        "Ann": [ann, "Done."],
        "Eve": [costing(call_message(call("look")), tokens=500, usd=0.25), "Seen."],
    }
    one = hooked(tmp_path, NAME, parts, requests=3)
    one.ask("Go.")
    cost = "4 model calls, 2,500 tokens, 0.7500 USD"
    first, second = comments(one, NAME)
    assert first == (
        f"Not spoken to for 3 requests: Ann ({cost}). Terminate whom you need no longer; what "
        f"they remember goes with them."
    )
    assert "Bob (0 model calls)" in second
    assert "Ann" not in second
    check_log(one.log)


@pytest.mark.req("S4-34")
def test_who_is_spoken_to_or_terminated_is_not_named(tmp_path: Path) -> None:
    talk = call_message(call("discuss", "d", prompt="?", speakers=["Ann"]))
    ends = call_message(call("terminate", "e", name="Bob"))
    lines = [task("Ann"), task("Bob"), *looks(2), talk, ends, *looks(2, 2), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines, "Ann": ["Yes."]}, requests=4)
    one.ask("Go.")
    assert comments(one, NAME) == []
    assert asked(one, NAME) == 0


def test_who_only_listens_is_spoken_to(tmp_path: Path) -> None:
    talks = [
        call_message(call("discuss", f"d{n}", prompt="?", speakers=["Ann"], listeners=["Bob"]))
        for n in range(5)
    ]
    parts: dict[str, list[ScriptedAnswer]] = {"main": [task("Ann"), task("Bob"), *talks, "Done."]}
    one = hooked(tmp_path, NAME, parts | {"Ann": ["Yes."] * 5}, requests=2)
    one.ask("Go.")
    assert comments(one, NAME) == []


@pytest.mark.req("S4-27", "S4-34")
@pytest.mark.parametrize("how", ["live", "resumed", "evicted"])
def test_who_stays_idle_is_named_again_after_as_long(tmp_path: Path, how: str) -> None:
    one = hooked(tmp_path, NAME, {"main": [task("Ann"), *["Well."] * 12]}, requests=3)
    at: list[int] = []
    for turn in range(10):
        one.ask("Go on.")
        at += [turn] * (len(comments(one, NAME)) - len(at))
        if how == "resumed":
            one = resumed(one)
        elif how == "evicted":
            unload_agent(one.session, one.id_of("Ann"))
            unload_agent(one.session, one.id_of(NAME))
    assert at == [3, 6, 9]


def test_many_are_counted() -> None:
    said = idle_text([IdleSubagent(f"a{n}", UsageTotals()) for n in range(30)], 9)
    assert "a19 (0 model calls), and 10 more." in said
    assert idle_text([IdleSubagent("a", UsageTotals(1))], 9).startswith(
        "Not spoken to for 9 requests: a (1 model "
    )
