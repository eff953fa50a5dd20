"""`clone`: a subagent's memory, passed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.core.event_types.spec import Budget, Limits, SpecChange
from harken.core.events import AgentConfigured
from harken.core.ids import AgentId
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    script_model,
)
from tests.unit.agents.hook_kit import Judging, watch
from tests.unit.agents.tree_kit import people, told_to


def cloning(
    folder: Path,
    *steps: ScriptedAnswer,
    budget: Budget | None = None,
    **parts: Sequence[ScriptedAnswer],
) -> Stage:
    """Return a stage where main made two people, talked with Ann, and then took these steps."""
    lines: list[ScriptedAnswer] = [
        people("Ann", "Ben"),
        call_message(call("discuss", "d1", prompt="The key is 7.", speakers=["Ann"])),
        *steps,
        "Done.",
    ]
    every: dict[str, Sequence[ScriptedAnswer]] = {"Ann": ["Noted."], "Ben": ["Ben 1"], **parts}
    model = script_model(main=lines, **every)
    runtime = AgentRuntime(model=model, policy=ActionPolicy(actions=ACTIONS), world=LocalWorld())
    return open_stage(folder, model, runtime=runtime, budget=budget)


@pytest.mark.req("S4-49")
def test_a_copy_remembers_what_the_original_does_and_is_told_that_it_is_one(tmp_path: Path) -> None:
    one = cloning(
        tmp_path,
        call_message(call("clone", name="Ann", as_name="Eve")),
        call_message(call("discuss", "d2", prompt="The key?", speakers=["Eve"])),
        Eve=["", "7"],
    )
    assert one.ask("Go.") == "Done."
    assert one.result("c1")["content"] == "Cloned Ann: Eve is a subagent of main"
    assert one.result("d2")["content"] == "7"
    [seen] = told_to(one, "Eve")
    assert seen[:2] == ["The key is 7.", "Noted."]
    assert seen[2].startswith("You are a copy of Ann")
    assert (
        len(one.select_lines(content="The key is 7.")) == 2
    )  # the piece and Ann's entry: no third copy
    assert one.agent("Ann").transcript[-1]["content"] == "Noted."
    check_log(one.log)


@pytest.mark.req("S4-49")
def test_another_subagent_can_be_given_a_copy_and_is_told(tmp_path: Path) -> None:
    def asks(request: object) -> object:
        return call_message(call("discuss", "b1", prompt="The key?"))

    one = cloning(
        tmp_path,
        call_message(call("clone", name="Ann", into="Ben")),
        call_message(call("discuss", "d2", prompt="Find out.", speakers=["Ben"])),
        Ben=[asks, "It is 7."],
        Ann=["Noted.", "7"],
    )
    assert one.ask("Go.") == "Done."
    ben = one.root.subagents["Ben"]
    assert list(ben.subagents) == ["Ann"]
    assert one.result("b1", "Ben")["content"] == "7"
    assert told_to(one, "Ben")[0][0].startswith("You have a new subagent, Ann: a copy of Ann")
    assert one.result("d2")["content"] == "It is 7."
    check_log(one.log)


@pytest.mark.req("S4-29")
def test_a_copy_is_watched_by_copies_of_the_hooks_of_whom_it_works_for(tmp_path: Path) -> None:
    one = cloning(tmp_path, "Ready.", call_message(call("clone", name="Ann", as_name="Eve")))
    one.ask("Go.")
    guard = watch(one)
    assert one.ask("On.") == "Done."
    [copy] = one.root.subagents["Eve"].hooks
    assert (copy.name, copy.agent_id != guard.agent_id) == ("guard", True)
    assert [hook.name for hook in one.root.subagents["Ann"].hooks] == ["guard"]
    assert len({hook._original_id for hook in (guard, copy, *one.root.subagents["Ann"].hooks)}) == 1


@pytest.mark.req("S4-28", "S4-49")
def test_a_copy_is_watched_by_the_guards_of_the_original_too(tmp_path: Path) -> None:
    one = cloning(
        tmp_path,
        "Ready.",
        call_message(
            call("clone", name="Ann", as_name="Eve"),
            call("clone", "c2", name="Ann", into="Ben", as_name="Joe"),
        ),
    )
    one.ask("Go.")
    guard = Judging(one.session, runtime=one.runtime).install(one.agent("Ann"), "of-ann")
    watch(one)
    assert one.ask("On.") == "Done."
    copies = [one.root.subagents["Eve"], one.root.subagents["Ben"].subagents["Joe"]]
    for copy in copies:
        assert [hook.name for hook in copy.hooks] == ["guard", "of-ann"]
        assert copy.hooks[1]._original_id == guard.agent_id


def test_a_copy_for_another_has_no_server_that_this_one_has_not(tmp_path: Path) -> None:
    one = cloning(
        tmp_path,
        "Ready.",
        call_message(
            call("clone", name="Ann", as_name="Eve"),
            call("clone", "c2", name="Ann", into="Ben", as_name="Joe"),
        ),
    )
    one.ask("Go.")
    for name, servers in (("Ann", ["maps", "mail"]), ("Ben", ["maps"])):
        spec = SpecChange(limits=Limits(mcp=servers))
        one.session.append(AgentConfigured(agent_id=AgentId(one.id_of(name)), spec=spec))
    one.ask("On.")
    assert one.agent("Eve").state.spec.limits.mcp == ["maps", "mail"]
    assert one.agent("Joe").state.spec.limits.mcp == ["maps"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "Eve"}, "subagent 'Eve' not found; existing subagents: Ann, Ben"),
        ({"name": "Ann"}, "subagent 'Ann' exists"),
        ({"name": "Ann", "into": "Joe"}, "subagent 'Joe' not found"),
        ({"name": "Ann", "as_name": "user"}, "is reserved"),
    ],
)
def test_what_cannot_be_copied_is_said_and_nobody_is_born(
    tmp_path: Path, arguments: dict[str, str], said: str
) -> None:
    one = cloning(tmp_path, call_message(call("clone", **arguments)))
    one.ask("Go.")
    assert said in one.result("c1")["content"]
    assert len(one.select_lines(event_type="agent_created")) == 3


def test_a_copy_counts_for_the_budget(tmp_path: Path) -> None:
    step = call_message(call("clone", name="Ann", as_name="Eve"))
    one = cloning(tmp_path, step, budget=Budget(live_subagents=2))
    one.ask("Go.")
    assert "may have 2 live subagents, and has them" in one.result("c1")["content"]


def test_a_copy_is_the_same_after_a_resume(tmp_path: Path) -> None:
    one = cloning(tmp_path, call_message(call("clone", name="Ann", into="Ben", as_name="Eve")))
    one.ask("Go.")
    before = full_state(one.session)
    again = one.resume()
    assert full_state(again.session) == before
    texts = [m["content"] for m in again.root.subagents["Ben"].subagents["Eve"].transcript]
    assert texts[:3] == ["You are Ann.", "The key is 7.", "Noted."]
