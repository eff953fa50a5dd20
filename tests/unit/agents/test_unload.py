"""Agents that did nothing for long are let go by themselves, and nobody notices."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from weakref import ref

import pytest

from harken import (
    AgentRuntime,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    load_session,
    register_agent_class,
)
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Deny, Verdict
from harken.errors import LogCorrupted
from harken.world.todo import todo
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.built_in.built_in import look, put
from tests.unit.agents.built_in.test_todo_reminder import TWO

NAMES = [f"a{n}" for n in range(6)]


def bounded(folder: Path, in_memory: int | None, **parts: Any) -> Stage:
    folder.mkdir()
    options = replace(fast_options(), in_memory=in_memory)
    runtime = AgentRuntime(model=script_model(**parts), world=LocalWorld([look, todo]))
    return open_stage(folder, runtime.model, runtime=runtime, options=options)  # type: ignore[arg-type]


def talkative() -> dict[str, Any]:
    """Return parts of a tree in which everybody is needed again after the others."""
    makes = call_message(*(call("task", f"t{name}", name=name) for name in NAMES))
    clones = call_message(call("clone", "k", name="a1", as_name="a1 again"))
    talks = [
        call_message(call("discuss", f"d{n}", prompt=f"Round {n}?", speakers=NAMES[n % 3 :]))
        for n in range(4)
    ]
    says = [
        call_message(call("look", f"l{n}", at=str(n))) if n % 2 else f"I say {n}." for n in range(9)
    ]
    parts: dict[str, Any] = {"main": [TWO, makes, *talks, clones, talks[0], "Done."]}
    return parts | {name: [*says, "Yes.", "Yes."] for name in NAMES}


@pytest.mark.parametrize("in_memory", [1, 2, 5])
def test_a_session_is_the_same_with_few_agents_in_memory(tmp_path: Path, in_memory: int) -> None:
    logs = []
    for folder, bound in (("few", in_memory), ("all", None)):
        one = bounded(tmp_path / folder, bound, **talkative())
        put(one, "garbage-collector", requests=1)
        put(one, "todo-reminder", requests=2)
        one.ask("Go.")
        if bound is not None:
            held = [state for state in one.session.agents.values() if state.transcript is not None]
            assert len(held) <= bound + 3
            assert len(one.session.live) <= bound + 6
        check_log(one.log)
        logs.append(one.log.read_bytes())
        live = full_state(one.session)
        assert full_state(one.resume().session) == live
    assert logs[0] == logs[1]


def test_whom_somebody_holds_is_the_same_object_again(tmp_path: Path) -> None:
    one = bounded(tmp_path / "s", 1, **talkative())
    one.ask("Go.")
    held = one.agent("a0")
    run(one.agent("a5").response("And?"))
    one.root.harken("Well.")
    assert held.agent_id not in one.session.live
    assert one.agent("a0") is held
    gone = ref(held)
    run(one.agent("a5").response("And?"))
    one.root.harken("Well.")
    del held
    assert gone() is None
    assert one.agent("a0").transcript


@register_agent_class("test-unsaved")
class Unsaved(Hook):
    """Keeps what the log does not know."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})

    def begin(self) -> None:
        self.allows = True

    def judge(self, question: HookQuestion) -> Verdict:
        return Ok() if self.allows else Deny("no")


def test_who_keeps_what_the_log_does_not_know_is_not_made_anew(tmp_path: Path) -> None:
    one = bounded(tmp_path / "s", 1, **talkative())
    Unsaved(one.session, runtime=one.runtime).install(one.root).allows = False
    one.ask("Go.")
    denied = [
        row for row in one.select_lines(role="tool", agent_id="agent_001") if "is_error" in row
    ]
    assert len(denied) == len(one.select_lines(role="tool", agent_id="agent_001"))


def test_a_resumed_session_holds_no_more_than_a_live_one(tmp_path: Path) -> None:
    one = bounded(tmp_path / "s", None, **talkative())
    one.ask("Go.")
    live = full_state(one.session)
    one.session.close()
    options = replace(fast_options(), in_memory=2)
    root, session = load_session(one.log, runtime=one.runtime, options=options)
    held = [state.name for state in session.agents.values() if state.transcript is not None]
    assert len(held) == 2
    assert root.name in held
    assert full_state(session) == live


def test_a_resumed_session_holds_those_who_did_something_last(tmp_path: Path) -> None:
    one = bounded(tmp_path / "s", None, **talkative())
    one.ask("Go.")
    for name in ("a1", "a0"):
        one.agent(name).harken("You are the eldest, and did nothing for a while.")
    one.session.close()
    options = replace(fast_options(), in_memory=3)
    _, session = load_session(one.log, runtime=one.runtime, options=options)
    held = {state.name for state in session.agents.values() if state.transcript is not None}
    assert held == {"main", "a0", "a1"}


def test_a_log_that_was_changed_is_not_read_again(tmp_path: Path) -> None:
    one = bounded(tmp_path / "s", 1, **talkative())
    one.ask("Go.")
    assert one.agent("a3").transcript  # now it is known where the lines are
    one.root.harken("Well.")
    assert one.session.agents[one.agent("a0").agent_id].transcript is not None
    one.root.harken("Well.")
    one.log.write_bytes(one.log.read_bytes().replace(b"I say 0.", b"I say 9."))
    with pytest.raises(LogCorrupted):
        _ = [one.agent(name).transcript for name in NAMES]


def test_whoever_is_in_the_middle_of_something_is_not_let_go(tmp_path: Path) -> None:
    depth = 12
    names = [f"d{n}" for n in range(depth)]
    parts: dict[str, Any] = {
        above: [call_message(call("task", f"t{name}", name=name, prompt="Go.")), "Done."]
        for above, name in zip(["main", *names], names, strict=False)
    }
    one = bounded(tmp_path / "s", 2, **parts, **{names[-1]: ["At the bottom."]})
    one.ask("Go.")
    check_log(one.log)
    assert [row["content"] for row in one.select_lines(role="tool")] == [
        "At the bottom.",
        *["Done."] * 11,
    ]
