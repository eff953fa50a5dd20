"""A hook that comes later: it reaches those who stand below already, wherever a crash comes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Conversation, Deny, HookQuestion, LocalWorld, Ok, load_session
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import log_birth
from harken.agents.rights import create_subagent
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.core.event_types.spec import AgentSpec, Copies
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
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import SENT, Judging, send, unguarded, watch

EVIL = call_message(call("send", "s", text="evil"))


def family(folder: Path, **parts: Any) -> Stage:
    """Return a stage where main has a subagent and a hook of its own that acts, and kid has both."""
    SENT.clear()
    sub = call("task", "t", name="kid", instructions="k", prompt="Get ready.")
    own = call("hook", "o", name="own", instructions="o", tools=["send"], points=["response"])
    below = call("task", "u", name="grandkid", instructions="g")
    its = call("hook", "p", name="its", instructions="i", points=["response"])
    lines = {
        "main": [call_message(sub, own), "Done.", *parts.pop("main", ())],
        "kid": [call_message(below, its), "Ready.", *parts.pop("kid", ())],
        "own": ["OK"] * 9,
        "its": ["OK"] * 9,
        **parts,
    }
    runtime = AgentRuntime(
        model=script_model(**lines),
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([send]),
        library=AgentLibrary(kinds={"test-judge": Judging}),
    )
    one = open_stage(folder, script_model(**lines), runtime=runtime)
    assert one.ask("Go.") == "Done."
    return one


def watching(one: Stage) -> dict[str, list[str]]:
    """Return who watches whom, by name."""
    agents = one.session.agents.values()
    live = [one.session.agent(a.id) for a in agents if one.session.state.is_live(a.id)]
    names = {a.id: a.name or "" for a in agents}
    return {names[a.id]: [names[id_] for id_ in a.hooks] for a in live if a.hooks}


@pytest.mark.req("S4-28", "S4-29")
def test_it_reaches_all_who_stand_below_already(tmp_path: Path) -> None:
    one = family(tmp_path)
    guard = watch(one)
    assert watching(one) == {
        "main": ["own", "guard"],
        "own": ["guard"],
        "kid": ["its", "guard"],
        "grandkid": ["guard"],
    }
    assert unguarded(one.session, guard.agent_id) == []
    before = full_state(one.session)
    assert full_state(one.resume().session) == before
    check_log(one.log)


@pytest.mark.req("S4-28")
def test_what_they_do_is_judged_from_then_on(tmp_path: Path) -> None:
    tell = call_message(call("discuss", "d", prompt="Send.", speakers=["kid"]))
    one = family(tmp_path, main=[tell, "Done."], kid=[EVIL, "No."])
    watch(one, action=lambda asked: Deny("no") if is_evil(asked) else Ok())
    assert one.ask("Go.") == "Done."
    assert SENT == []
    assert one.result("s", "kid")["content"] == "Error: Action blocked by hook 'guard': no"


def is_evil(asked: HookQuestion) -> bool:
    return asked.call is not None and asked.call.function.name == "send" and "evil" in asked.text


@pytest.mark.req("S4-20", "S4-29")
def test_it_reaches_them_however_deep_the_tree_is(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[]))
    at = one.root
    for depth in range(400):
        kid = create_subagent(at, "You.", None)
        log_birth(kid, at.state.birth, f"kid{depth}", "subagent")
        at = kid
    guard = watch(one)
    assert unguarded(one.session, guard.agent_id) == []
    before = full_state(one.session)
    assert full_state(one.resume().session) == before


@pytest.mark.req("S4-29")
def test_it_reaches_nobody_where_it_leaves_subagents_alone(tmp_path: Path) -> None:
    one = family(tmp_path)
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.", spec=AgentSpec(copies=Copies(subagents=False))).install(
        one.root, "alone"
    )
    assert watching(one) == {"main": ["own", "alone"], "kid": ["its"]}


@pytest.mark.req("S4-29")
def test_a_hook_that_an_agent_makes_reaches_only_who_comes_later(tmp_path: Path) -> None:
    one = family(tmp_path)
    assert watching(one) == {"main": ["own"], "kid": ["its"]}


def test_it_has_another_name_where_its_own_is_taken(tmp_path: Path) -> None:
    one = family(tmp_path)
    Judging(one.session, runtime=one.runtime).install(one.agent("kid"), "guard")
    watch(one)
    assert watching(one)["kid"] == ["its", "guard", "guard (2)"]
    assert watching(one)["grandkid"] == ["guard", "guard (2)"]


@pytest.mark.req("S4-28", "S4-36")
@pytest.mark.parametrize("is_smart", [False, True])
def test_a_crash_leaves_nobody_out_and_what_left_stays_away(tmp_path: Path, is_smart: bool) -> None:
    one = family(tmp_path, guard=[call_message(call("quit", "q")), "OK", "OK"])
    assert isinstance(one.root, ToolAgent)
    if is_smart:
        hook: Any = new_hook(one.root, "Watch.", points=["response"]).install(one.root, "guard")
    else:
        hook = watch(one)
    births = [at for at, r in enumerate(one.select_lines()) if r.get("name") == "guard"]
    assert len(births) == 4
    whole = len(one.select_lines())
    one.session.close()
    installed = 0
    for kept in range(births[0], whole + 1):
        runtime = replace(one.runtime)
        root, session = load_session(
            cut_after(one.log, kept), runtime=runtime, options=fast_options()
        )
        counts = [len(a.hooks) for a in (root, root.subagents["kid"])]
        assert counts in ([1, 1], [2, 2]), kept
        if counts == [2, 2]:
            installed += 1
            assert unguarded(session, hook.agent_id) == [], kept
        first = full_state(session)
        session.close()
        _, session = load_session(session.path, runtime=runtime, options=fast_options())
        assert full_state(session) == first, kept
        session.close()
    assert installed == 1  # all copies are born in one group


@pytest.mark.req("S4-36")
def test_a_copy_that_left_does_not_come_again_with_a_resume(tmp_path: Path) -> None:
    one = family(tmp_path, kid=["Well."], guard=[call_message(call("quit", "q")), "OK"])
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.", points=["response"]).install(one.root, "guard")
    run(one.agent("kid").response("And?"))
    assert watching(one)["kid"] == ["its"]
    again = one.resume()
    assert watching(again)["kid"] == ["its"]
    assert Conversation(again.root).primary.name == "main"
