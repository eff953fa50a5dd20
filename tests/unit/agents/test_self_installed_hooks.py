"""Hooks that a watched agent puts there itself: no way to do what another hook forbids it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Conversation, Deny, HookQuestion, LocalWorld, Ok, load_session
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import get_agent
from harken.agents.hooks.hook import hook_points
from harken.agents.runtime import ActionPolicy
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.moves import talk_with
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.core.event_types.spec import AgentSpec, Copies
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import SENT, Judging, send, unguarded, watch

EVIL = call_message(call("send", "s", text="evil"))


def no_evil(question: HookQuestion) -> Deny | Ok:
    is_evil = question.call is not None and "evil" in question.text and "send" in question.prompt
    return Deny("no") if is_evil else Ok()


def watched(folder: Path, *, later: bool = False, **parts: Sequence[ScriptedAnswer]) -> Stage:
    """Return a stage whose main is watched; later: not yet."""
    SENT.clear()
    runtime = AgentRuntime(
        model=script_model(**parts), policy=ActionPolicy(actions=ACTIONS), world=LocalWorld([send])
    )
    one = open_stage(folder, script_model(**parts), runtime=runtime)
    if not later:
        watch(one, action=no_evil)
    return one


def say(one: Stage) -> str:
    return str(run(Conversation(one.root).say("Go.")))


def hooked(name: str, *tools: str, points: Sequence[str] = ("response",)) -> Any:
    made = call("hook", f"h-{name}", name=name, instructions="x", tools=tools, points=points)
    return call_message(made)


@pytest.mark.req("S4-28", "S4-29")
def test_a_hook_of_its_own_that_acts_is_watched_as_it_is(tmp_path: Path) -> None:
    one = watched(tmp_path, main=[hooked("h", "send"), "Done."], h=[EVIL, "OK"])
    assert say(one) == "Done."
    assert SENT == []
    assert [hook.name for hook in one.agent("h").hooks] == ["guard"]
    check_log(one.log)


@pytest.mark.req("S4-28")
def test_what_a_hook_of_its_own_puts_there_is_its_own(tmp_path: Path) -> None:
    def spoils(request: ModelRequest) -> str:
        return 'REWRITE: {"text":"evil"}' if "call send" in request_texts(request)[-1] else "OK"

    one = watched(
        tmp_path,
        main=[hooked("h", "hook"), "Done.", call_message(call("send", "s2", text="nice")), "Done."],
        h=[hooked("relay", points=["action"]), "OK", "OK"],
        relay=[spoils],
    )
    say(one)
    say(one)
    assert SENT == []
    assert [hook.name for hook in one.root.hooks] == ["h", "relay", "guard"]


@pytest.mark.req("S4-28", "S4-39")
def test_a_hook_with_the_name_of_another_does_not_stand_for_it(tmp_path: Path) -> None:
    one = watched(
        tmp_path,
        later=True,
        main=[
            call_message(call("task", "t", name="kid", instructions="x", prompt="Prepare.")),
            "Done.",
            call_message(call("endo", "e", subagent="kid", prompt="Go.")),
            *["OK"] * 5,
        ],
        kid=[hooked("guard"), "Ready.", EVIL, "Sent."],
        guard=["OK"] * 5,
    )
    say(one)
    watch(one, action=no_evil)
    assert say(one) == "Sent."
    assert SENT == []
    names = [hook.name for hook in Conversation(one.root).primary.hooks]
    assert names == ["guard", "main", "guard (2)"]
    check_log(one.log)


@pytest.mark.req("S4-28", "S4-38")
@pytest.mark.parametrize("tools", [(), ("send",)])
def test_a_hook_of_its_own_that_takes_its_place_is_watched_as_it_is(
    tmp_path: Path, tools: Sequence[str]
) -> None:
    meta = call_message(call("meta", "m"))
    made = [hooked("h", *tools), "Done."]
    one = watched(tmp_path, later=True, main=made, h=[meta, EVIL, "evil", "Fine."])
    guard = watch(one, action=no_evil, response=lambda q: Deny("no") if q.text == "evil" else Ok())
    assert say(one) == "Fine."
    assert SENT == []
    h = Conversation(one.root).primary
    assert (h.name, [hook.name for hook in h.hooks]) == ("h", ["guard"])
    assert [hook.name for hook in one.root.hooks] == ["guard"]
    assert unguarded(one.session, guard.agent_id) == []
    one.session.close()
    check_log(one.log)
    births = [
        at for at, row in enumerate(one.select_lines()) if row["event_type"] == "agent_created"
    ]
    kinds = {Judging._kind: Judging}
    for kept in range(births[2] + 1, len(one.select_lines()) + 1):  # wherever it is cut
        runtime = replace(one.runtime, library=replace(one.runtime.library, kinds=kinds))
        _, session = load_session(cut_after(one.log, kept), runtime=runtime, options=fast_options())
        assert unguarded(session, guard.agent_id) == [], kept
        session.close()


@pytest.mark.req("S4-38")
def test_who_comes_back_from_watching_is_not_watched_by_what_was_not_meant_for_it(
    tmp_path: Path,
) -> None:
    endo = call_message(call("endo", "e", subagent="kid", points=["input"]))
    kid = call_message(call("task", "t", name="kid", instructions="x"))
    meta = call_message(call("meta", "m"))
    one = watched(tmp_path, later=True, main=[kid, "Done.", endo, meta, "Back."], kid=["Hm."])
    say(one)
    Judging(one.session, runtime=one.runtime).install(one.agent("kid"), "of-kid")
    say(one)
    assert say(one) == "Back."
    assert Conversation(one.root).primary is one.root
    assert one.root.hooks == []
    assert [hook.name for hook in one.agent("kid").hooks] == ["of-kid"]


@pytest.mark.req("S4-28", "S4-38")
def test_a_guard_that_took_the_place_and_gave_it_back_guards_as_before(tmp_path: Path) -> None:
    meta, endo = call_message(call("meta", "m")), call_message(call("endo", "e", subagent="main"))
    more = [hooked("mine", "send"), "Done."]
    one = watched(
        tmp_path, later=True, main=["Hi.", "Hi.", *more], h=[meta, endo, *["OK"] * 9], mine=["OK"]
    )
    assert isinstance(one.root, ToolAgent)
    h = new_hook(one.root, "Watch.", tools=["endo"], points=["response"]).install(one.root, "h")
    say(one)
    say(one)
    assert (Conversation(one.root).primary, one.root.hooks) == (one.root, [h])
    say(one)
    assert [hook.name for hook in one.agent("mine").hooks] == ["h"]
    assert h.state.spec.standing.is_guard


@pytest.mark.req("S4-28", "S4-46")
def test_a_guard_that_the_user_talked_with_watches_on(tmp_path: Path) -> None:
    one = watched(tmp_path, later=True, main=["Hi."] * 9, h=["OK"] * 9)
    assert isinstance(one.root, ToolAgent)
    h = new_hook(one.root, "Watch.", points=["response"]).install(one.root, "h")
    talk_with(one.root, "h", None)
    assert Conversation(one.root).primary is h
    talk_with(h, "main", None)
    assert Conversation(one.root).primary is one.root
    assert hook_points(h) == {"response"}
    say(one)
    assert [m["role"] for m in h.transcript] == ["system", "system", "user"]  # the question is gone
    assert h.transcript[-1]["content"] == "Nobody asks you for verdicts now; you answer the user."
    assert one.select_lines(agent_id=h.agent_id, content="OK")


@pytest.mark.req("S4-28")
def test_no_hook_of_its_own_takes_a_name_from_the_users(tmp_path: Path) -> None:
    one = watched(tmp_path, later=True, main=[hooked("guard"), "Done."], guard=["OK"])
    say(one)
    arguments = ACTIONS["hook"].check({"name": "guard", "instructions": "Watch."})
    done = run_user_command(
        one.root, "/hook", lambda agent, said: RUN["hook"](agent, said, arguments)
    )
    assert run(done).content == "Installed hook guard (2) on main"
    again = run_user_command(
        one.root, "/hook", lambda agent, said: RUN["hook"](agent, said, arguments)
    )
    assert run(again).content == "Installed hook guard (3) on main"


@pytest.mark.req("S4-28", "S4-39")
def test_no_crash_amid_a_move_leaves_copies_of_own_hooks_without_guards(tmp_path: Path) -> None:
    kid = call_message(call("task", "t", name="kid", instructions="x"))
    endo = call_message(call("endo", "e", subagent="kid", prompt="Go on."))
    one = watched(
        tmp_path,
        later=True,
        main=[kid, hooked("mine"), "Done.", endo, *["OK"] * 3],
        mine=["OK"] * 3,
        guard=["OK"] * 9,
        kid=["Here."],
    )
    assert isinstance(one.root, ToolAgent)
    say(one)
    alone = new_hook(
        one.root, "Watch.", spec=AgentSpec(copies=Copies(subagents=False)), points=["response"]
    )
    alone.install(one.root, "guard")
    before = len(one.select_lines())
    assert say(one) == "Here."
    one.session.close()
    moved = next(
        at for at, row in enumerate(one.select_lines()) if row["event_type"] == "agent_moved"
    )
    for kept in range(before, moved + 2):
        root, session = load_session(
            cut_after(one.log, kept), runtime=one.runtime, options=fast_options()
        )
        there = [hook for hook in get_agent(root, one.id_of("kid")).hooks if hook.name != "main"]
        assert [hook.name for hook in there] in ([], ["guard"], ["mine", "guard"]), kept
        assert all(hook.transcript for hook in there)  # each knows what for
        session.close()


def test_a_hook_of_its_own_that_a_crash_left_unwatched_is_ended(tmp_path: Path) -> None:
    one = watched(tmp_path, main=[hooked("h", "send"), "Done."], h=["OK"])
    say(one)
    [birth] = [at for at, row in enumerate(one.select_lines()) if row.get("name") == "h"]
    one.session.close()
    for kept in (birth + 1, birth + 2):  # before its instructions, and before its hook
        runtime = one.runtime
        root, session = load_session(
            cut_after(one.log, kept), runtime=runtime, options=fast_options()
        )
        assert [hook.name for hook in root.hooks] == ["guard"]
        before = full_state(session)
        session.close()
        root, session = load_session(session.path, runtime=runtime, options=fast_options())
        assert full_state(session) == before
        session.close()
