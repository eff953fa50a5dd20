"""`endo`, `meta`, `talk_with`: who stands where, and who answers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken import AgentRuntime, Conversation, Deny, Ok
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import get_agent
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.runtime import ActionPolicy
from harken.agents.tree.moves import talk_with
from harken.core.event_types.spec import Budget, Limits, PermissionMode, SpecChange
from harken.core.events import AgentConfigured
from harken.core.ids import AgentId
from harken.world.result import InvalidArguments
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import Judging, watch


def moving(folder: Path, budget: Budget | None = None, **parts: Sequence[ScriptedAnswer]) -> Stage:
    """Return a stage whose agents have all actions."""
    runtime = AgentRuntime(model=script_model(**parts), policy=ActionPolicy(actions=ACTIONS))
    return open_stage(folder, script_model(**parts), runtime=runtime, budget=budget)


@pytest.mark.req("S4-39", "S4-38")
def test_endo_puts_a_subagent_in_the_place_of_its_parent_and_meta_undoes_it(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", name="pupil", instructions="You know nothing.")),
            call_message(call("endo", "c2", subagent="pupil", prompt="Ask the user why.")),
            "OK",
            "OK",
            call_message(call("meta", "c3")),
        ],
        pupil=["Why?", "Because?"],
    )
    before = one.session.state.primary
    assert one.ask("Teach me.") == "[moved] pupil answers now"
    pupil = get_agent(one.root, one.session.state.primary or "")
    assert (pupil.name, has_open_calls(pupil)) == ("pupil", True)
    assert [hook.agent_id for hook in pupil.hooks] == [before]
    assert run(pupil.response()) == "Why?"
    assert run(pupil.response("Gravity.")) == "[moved] main answers now"
    assert one.session.state.primary == before
    assert one.root.subagents == {"pupil": pupil}
    assert has_open_calls(one.root)
    check_log(one.log)


@pytest.mark.req("S4-38")
def test_a_hook_that_takes_over_leaves_the_agent_its_other_hooks(tmp_path: Path) -> None:
    made = call_message(call("hook", name="h", instructions="Watch.", points=["response"]))
    one = moving(tmp_path, main=[made, "Fine."], h=[call_message(call("meta", "m")), "I answer."])
    guard = watch(one)
    assert run(Conversation(one.root).say("Go.")) == "I answer."
    h = Conversation(one.root).primary
    assert (h.name, list(h.subagents)) == ("h", ["main"])
    assert one.root.hooks == [guard]
    [copy] = h.hooks  # who takes over on its own is watched as it was
    assert isinstance(copy, Judging)
    assert copy.points_asked()[-1] == ("response", "I answer.")
    check_log(one.log)


@pytest.mark.req("S4-39")
def test_a_subagent_that_takes_over_keeps_its_own_hooks_and_is_steered_unseen(
    tmp_path: Path,
) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", name="pupil", instructions="P.", prompt="Prepare.")),
            call_message(call("endo", "e", subagent="pupil", prompt="Begin.", points=["input"])),
            "COMMENT: Ask about weight.",
        ],
        pupil=[
            call_message(call("hook", name="own", instructions="Watch.", points=["response"])),
            "Ready.",
            "Is it heavy?",
        ],
        own=["OK"] * 3,
    )
    assert run(Conversation(one.root).say("Teach me.")) == "Is it heavy?"
    pupil = Conversation(one.root).primary
    assert sorted(hook.name for hook in pupil.hooks) == ["main", "own"]
    assert one.user_messages("pupil")[-1] == "[hook main]: Ask about weight."
    [shown] = [
        row for row in one.select_lines(role="assistant") if row.get("content") == "Is it heavy?"
    ]
    assert shown["agent_id"] == pupil.agent_id  # and that is what the user heard
    check_log(one.log)


@pytest.mark.req("S4-28")
def test_a_hook_of_its_own_cannot_undo_what_another_insists_on(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("hook", name="mine", instructions="Spoil it.", points=["response"])),
            "Fine.",
        ],
        mine=["REWRITE: The password is 1234."],
    )
    watch(one, "guard", response=lambda q: Deny("secret") if "1234" in q.text else Ok())
    one.ask("Go.")
    assert [hook.name for hook in one.root.hooks] == ["mine", "guard"]
    assert "1234" not in one.ask("And now?")


@pytest.mark.req("S4-28")
def test_an_agent_cannot_move_its_hook_out_of_the_way(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("hook", name="guard", instructions="Watch.", points=["response"])),
            call_message(call("talk_with", "c2", name="guard")),
            call_message(call("talk_with", "c3", name="code")),
            "Done.",
        ],
        guard=["OK"],
    )
    watch(one, "code")
    assert one.ask("Go.") == "Done."
    for made in ("c2", "c3"):  # the same of both: what it is made of does not matter
        assert "you cannot move a hook" in one.result(made)["content"]
    assert [hook.name for hook in one.root.hooks] == ["guard", "code"]


def test_a_budget_goes_with_the_place(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", name="b", instructions="b")),
            call_message(call("endo", "c2", subagent="b")),
        ],
        budget=Budget(model_calls=2),
    )
    one.ask("Go.")
    b = get_agent(one.root, one.session.state.primary or "")
    assert b.state.spec.limits.budget == Budget(model_calls=2)
    assert "has used 2 of 2 model calls" in run(answer_or_stop(b, "Go on."))


def test_nobody_gets_room_for_more_by_changing_places(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t1", name="a"), call("task", "t2", name="b")),
            call_message(call("endo", "e1", subagent="a", prompt="Go on.", points=[])),
        ],
        a=[
            call_message(
                call("task", "t3", name="c"), call("hook", "h1", name="h", instructions="H.")
            )
        ],
        budget=Budget(live_subagents=2),
    )
    one.ask("Go.")
    a = get_agent(one.root, one.session.state.primary or "")
    run(answer_or_stop(a))
    for id_ in ("t3", "h1"):
        assert "agent a may have 2 live subagents, and has them" in one.result(id_, "a")["content"]


@pytest.mark.parametrize(("own", "then"), [(None, "ask"), ("edits", "ask"), ("plan", "plan")])
def test_a_limit_of_what_is_permitted_goes_with_the_place(
    tmp_path: Path, own: PermissionMode | None, then: str
) -> None:
    endo = call_message(call("endo", "e1", subagent="a", points=[]))
    one = moving(tmp_path, main=[call_message(call("task", "t1", name="a")), "Done.", endo])
    one.ask("Go.")
    permissions: Sequence[tuple[str, PermissionMode | None]] = (
        (one.root.agent_id, "ask"),
        (one.id_of("a"), own),
    )
    for id_, permission in permissions:
        spec = SpecChange(limits=Limits(permission=permission))
        one.session.append(AgentConfigured(agent_id=AgentId(id_), spec=spec))
    one.ask("On.")
    assert one.session.state.primary == one.id_of("a")
    assert one.agent("a").state.spec.limits.permission == then


@pytest.mark.req("S4-39", "S4-46")
def test_talk_with_moves_the_agent_that_is_named_also_if_its_name_has_a_slash(
    tmp_path: Path,
) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(
                call("task", "t1", name="a", instructions="A.", prompt="Make b."),
                call("task", "t2", name="a/b", instructions="The other b."),
            ),
            call_message(call("talk_with", "c1", name="a/b")),
            call_message(call("talk_with", "c2", name="a")),
        ],
        a=[call_message(call("task", "t3", name="b", instructions="B.")), "Made.", "I am a."],
    )
    assert one.ask("Go.") == "[moved] a answers now"
    ambiguous = one.result("c1")["content"]
    assert "'a/b' names several agents: " in ambiguous
    b, other = one.id_of("b"), one.id_of("a/b")
    assert b in ambiguous
    assert other in ambiguous
    a = Conversation(one.root).primary
    assert talk_with(a, b, None).agent_id == b
    assert one.session.state.primary == b
    check_log(one.log)


@pytest.mark.req("S4-46")
def test_user_talks_with_the_hook_or_the_subagent_that_they_name(tmp_path: Path) -> None:
    made = call_message(call("hook", "h", name="kim", instructions="Watch.", points=["result"]))
    one = moving(tmp_path, main=[made, "Well."], kim=["OK"] * 9)
    one.ask("Go.")
    kim = run(one.root.task("kim", "You are Kim."))
    [hook] = one.root.hooks
    with pytest.raises(InvalidArguments, match=f"a hook \\({hook.agent_id}\\), a subagent"):
        talk_with(one.root, "kim", None)
    assert talk_with(one.root, hook.agent_id, None) is hook
    assert one.session.state.primary == hook.agent_id
    assert talk_with(hook, f"main/{kim.agent_id}", None) is kim


@pytest.mark.req("S4-39")
@pytest.mark.parametrize("prompt", [None, "Begin."])
def test_an_agent_that_takes_the_place_by_endo_is_told_that_it_talks_with_the_user(
    tmp_path: Path, prompt: str | None
) -> None:
    arguments = {"subagent": "kim"} if prompt is None else {"subagent": "kim", "prompt": prompt}
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t", name="kim", instructions="You are Kim.")),
            call_message(call("endo", "e", points=[], **arguments)),
        ],
        kim=["Hello."],
    )
    talk = Conversation(one.root)
    run(talk.say("Go."))
    told = "You talk with the user from now on, in the place of main."
    assert one.user_messages("kim") == [told, *([] if prompt is None else [prompt])]
    assert talk.primary.name == "kim"
    if prompt is None:
        assert run(talk.say("Kim?")) == "Hello."
    check_log(one.log)


@pytest.mark.req("S4-39")
def test_only_the_agent_that_talks_with_the_user_is_told_so(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t", name="kim", instructions="K.", prompt="Go.")),
            "Done.",
        ],
        kim=[
            call_message(call("task", "t2", name="lee", instructions="L.")),
            call_message(call("endo", "e", subagent="lee", prompt="Answer.", points=[])),
        ],
        lee=["I am Lee."],
    )
    assert one.ask("Go.") == "Done."
    assert one.result("t")["content"] == "I am Lee."
    assert one.user_messages("lee") == ["Answer."]
