"""The hook that limits how many subagents are made, and how deep."""

from pathlib import Path
from typing import Any

import pytest

from tests.agent_kit import ScriptedAnswer, call, call_message, check_log
from tests.unit.agents.built_in.built_in import denials, hooked, resumed

NAME = "task-limiter"


def task(name: str, id_: str = "", **more: str) -> ScriptedAnswer:
    return call_message(call("task", id_ or f"t{name}", name=name, **more))


def ends(name: str) -> ScriptedAnswer:
    return call_message(call("terminate", f"e{name}", name=name))


@pytest.mark.req("S4-34")
def test_so_many_may_live_at_one_time(tmp_path: Path) -> None:
    lines = [task("a"), task("b"), task("c"), ends("a"), task("c", "again"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, live=2)
    one.ask("Go.")
    assert denials(one, NAME) == [
        "main and those below it have 2 of 2 subagents: terminate one first"
    ]
    assert [*one.root.subagents] == ["b", "c"]
    check_log(one.log)


@pytest.mark.req("S4-34")
def test_so_many_may_be_made_in_all(tmp_path: Path) -> None:
    lines = [task("a"), ends("a"), task("b"), ends("b"), task("c"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, total=2)
    one.ask("Go.")
    assert denials(one, NAME) == ["main and those below it have made 2 of 2 subagents in all"]


@pytest.mark.req("S4-34")
def test_so_many_may_be_made_with_such_a_name(tmp_path: Path) -> None:
    lines = [task("critic 1"), task("aide"), task("critic 2"), task("writer"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, names={"critic*": 1, "writer": 0})
    one.ask("Go.")
    assert denials(one, NAME) == [
        "main and those below it have made 1 of 1 subagents 'critic*'",
        "main and those below it have made 0 of 0 subagents 'writer'",
    ]
    assert [*one.root.subagents] == ["critic 1", "aide"]


@pytest.mark.req("S4-29", "S4-34")
def test_copies_count_together_with_the_one_above(tmp_path: Path) -> None:
    parts: dict[str, list[Any]] = {
        "main": [task("a", prompt="Go."), task("b", prompt="Go."), "Done."],
        "a": [task("a1", prompt="Go."), "Done."],
        "a1": [task("a2"), "Too deep."],
        "b": [task("b1"), task("b2"), "One too many."],
    }
    one = hooked(tmp_path, NAME, parts, depth=2, total=4, live=None)
    one.ask("Go.")
    assert denials(one, NAME, "a1") == ["no more than 2 levels of subagents below main"]
    assert len(denials(one, NAME, "b")) == 1
    made = {name: one.session.agent(one.id_of(name)).name for name in ("a", "a1", "b", "b1")}
    assert len(made) == 4
    saved = [state.saved_state for state in one.session.agents.values() if state.name == NAME]
    assert saved[:2] == [{"made": {"a": 1, "b": 1}}, {"made": {"a1": 1}}]


@pytest.mark.req("S4-34")
def test_calls_of_one_message_count_each(tmp_path: Path) -> None:
    many = call_message(*(call("task", f"t{n}", name=f"a{n}", prompt="Go.") for n in range(5)))
    parts: dict[str, list[ScriptedAnswer]] = {"main": [many, "Done."]}
    parts |= {f"a{n}": ["Hi."] for n in range(5)}
    one = hooked(tmp_path, NAME, parts, live=3)
    one.ask("Go.")
    assert len(one.root.subagents) == 3


@pytest.mark.req("S4-27", "S4-34")
def test_what_was_made_counts_after_a_resume(tmp_path: Path) -> None:
    lines = [task("a"), ends("a"), "Well.", task("b"), ends("b"), "Well.", task("c"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, total=2)
    for _ in range(3):
        one.ask("Go.")
        one = resumed(one)
    assert len(denials(one, NAME)) == 1


def test_a_limiter_of_a_subagent_alone_begins_there(tmp_path: Path) -> None:
    from tests.unit.agents.built_in.built_in import put

    parts: dict[str, list[ScriptedAnswer]] = {
        "main": [task("a"), "Made.", call_message(call("discuss", "d", prompt="Go.")), "Done."],
        "a": [task("a1"), task("a2"), "Well."],
    }
    one = hooked(tmp_path, "todo-reminder", parts)
    one.ask("Go.")
    put(one, NAME, "a", live=1)
    one.ask("Go on.")
    assert denials(one, NAME, "a") == [
        "a and those below it have 1 of 1 subagents: terminate one first"
    ]
