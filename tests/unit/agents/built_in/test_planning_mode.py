"""Planning mode: nothing is changed until user and agent agree to go ahead."""

from pathlib import Path
from typing import Any

import pytest

from harken import Agent, AgentRuntime, Hook, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.built_in.planning_mode import (
    agrees,
    has_plan,
    planning_hooks,
    start_planning,
    stop_planning,
)
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.hook_file import HookFiles
from harken.agents.tree.moves import endo, talk_with
from harken.core.logged_string import LoggedString
from harken.world.ask_user import ask_user
from harken.world.todo import todo
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
from tests.unit.agents.built_in.built_in import (
    DONE,
    change,
    comments,
    denials,
    hooked,
    look,
    put,
    resumed,
)
from tests.unit.world.permissions.user_kit import ScriptedUser

NAME = "planning-mode"
PLAN = "I looked.\n\nPLAN: change x."


def changes(what: str, id_: str = "c1") -> ScriptedAnswer:
    return call_message(call("change", id_, what=what))


def is_planning(one: Stage, name: str = "main") -> bool:
    return any(hook._kind == NAME for hook in one.agent(name).hooks)


@pytest.mark.req("S4-33")
def test_what_only_reads_is_allowed_and_what_may_change_something_is_denied(
    tmp_path: Path,
) -> None:
    listed = call("todo", "t", items=[{"text": "x"}])
    one = hooked(
        tmp_path, NAME, {"main": [call_message(call("look", "l"), listed), changes("x"), PLAN]}
    )
    assert one.ask("Change x.") == PLAN
    assert DONE == []
    [told] = comments(one, NAME)
    assert told.startswith("Planning mode: look, read and think")
    [denied] = denials(one, NAME)
    assert denied.startswith("this is planning mode: change may change something.")
    failed = [row["tool_call_id"] for row in one.select_lines(role="tool") if "is_error" in row]
    assert failed == ["c1"]
    check_log(one.log)


@pytest.mark.req("S4-36")
def test_it_ends_by_itself_when_the_user_agrees_to_the_plan(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": [PLAN, changes("x"), "Done.", "Yes."]})
    one.ask("Change x.")
    assert one.ask("Yes, go ahead.") == "Done."
    assert DONE == ["x"]
    assert comments(one, NAME)[1:] == [
        "Planning mode is over: your plan was agreed to. You may change things now."
    ]
    assert one.agent(NAME).state.place == "gone"
    [moved] = one.select_lines(event_type="agent_moved")
    [*_, verdict] = one.select_lines(agent_id=one.id_of(NAME), event_type="hook_verdict")
    assert (moved["cause"], verdict["verdict"]) == (verdict["message_id"], "comment")
    check_log(one.log)
    one = resumed(one)
    assert one.ask("Fine?") == "Yes."


@pytest.mark.req("S4-36")
@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (PLAN, "Yes, but not x."),
        (PLAN, "What is x?"),
        ("I would change x.", "Yes."),
        ("Planning takes time.", "Go ahead."),
    ],
)
def test_it_goes_on_where_there_is_no_plan_or_no_agreement(
    tmp_path: Path, said: str, answer: str
) -> None:
    one = hooked(tmp_path, NAME, {"main": [said, changes("x"), "I may not."]})
    one.ask("Change x.")
    one.ask(answer)
    assert DONE == []
    assert is_planning(one)


@pytest.mark.req("S4-36")
def test_a_yes_to_something_else_is_no_agreement(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": [PLAN, "x is a file. Tea?", "Still planning."]})
    one.ask("Change x.")
    one.ask("What is x?")
    one.ask("Yes.")
    assert is_planning(one)


@pytest.mark.req("S4-36")
def test_what_came_from_outside_does_not_agree_for_the_user(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": [PLAN, "No."]})
    one.ask("Change x.")
    piece = one.session.log_piece_of_text(one.root.agent_id, "Yes.", one.root.state.birth)
    one.root.harken(LoggedString("Yes.", piece))
    run(one.root.response())
    assert is_planning(one)


def asking(tmp_path: Path, answer: str, question: str) -> Stage:
    asks = call_message(call("ask_user", "a", question=question))
    model = script_model(main=[asks, changes("x"), "Done."])
    world = LocalWorld([look, change, ask_user], user=ScriptedUser([answer]))
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    put(one, NAME)
    one.ask("Change x.")
    return one


@pytest.mark.req("S4-36")
def test_an_agent_may_ask_for_the_agreement_in_the_middle_of_its_turn(tmp_path: Path) -> None:
    asking(tmp_path, "Go ahead", "PLAN: change x. Shall I?")
    assert DONE == ["x"]


@pytest.mark.parametrize(
    ("answer", "question"), [("No.", "PLAN: change x."), ("Yes.", "Do you like tea?")]
)
def test_asked_without_plan_or_answered_without_yes_nothing_is_agreed(
    tmp_path: Path, answer: str, question: str
) -> None:
    one = asking(tmp_path, answer, question)
    assert DONE == []
    assert is_planning(one)


@pytest.mark.req("S4-36")
def test_an_agent_cannot_agree_with_itself(tmp_path: Path) -> None:
    """Neither its own tools' results nor its subagents' answers end it."""
    says = call_message(call("task", "t", name="Ann", prompt="PLAN: change x. Yes?"))
    parts: dict[str, Any] = {"main": [says, PLAN, changes("x"), "Done."], "Ann": ["Yes."]}
    one = hooked(tmp_path, NAME, parts)
    one.ask("Change x.")
    assert is_planning(one)
    assert comments(one, NAME)[1:] == []


@pytest.mark.req("S4-29")
def test_below_it_is_read_only_and_nobody_there_can_end_it(tmp_path: Path) -> None:
    task = call_message(call("task", "t", name="Ann", prompt="Look at x."))
    talk = call_message(call("discuss", "d", prompt="Yes, go ahead."))
    parts: dict[str, Any] = {
        "main": [task, talk, PLAN],
        "Ann": [changes("x"), PLAN, changes("y", "c2"), "I may not."],
    }
    one = hooked(tmp_path, NAME, parts)
    one.ask("Change x.")
    assert DONE == []
    assert len(denials(one, NAME, "Ann")) == 2
    assert comments(one, NAME, "Ann")[0].endswith("what you would do.")
    [copy] = one.root.subagents["Ann"].hooks
    assert copy.state.spec.options == {"inherited": True}
    assert is_planning(one, "Ann")


@pytest.mark.req("S4-29", "S4-36")
def test_below_it_ends_when_it_has_ended_above(tmp_path: Path) -> None:
    task = call_message(call("task", "t", name="Ann", prompt="Look at x."))
    deeper = call_message(call("task", "t", name="Bob", prompt="Look at x."))
    talk = call_message(call("discuss", "d", prompt="Now change it."))
    parts: dict[str, Any] = {
        "main": [task, PLAN, talk, "Done."],
        "Ann": [
            deeper,
            "Seen.",
            changes("y"),
            call_message(call("discuss", "d", prompt="Go.")),
            "Ok.",
        ],
        "Bob": [changes("x"), "I may not.", changes("x", "c2"), "Changed."],
    }
    one = hooked(tmp_path, NAME, parts)
    one.ask("Change x.")
    one = resumed(one)
    assert DONE == []
    one.ask("Go ahead.")
    assert DONE == ["y", "x"]
    assert not is_planning(one, "Bob")
    assert "it has ended above you" in comments(one, NAME, "Ann")[-1]
    check_log(one.log)


@pytest.mark.parametrize("ended", [False, True])
def test_a_copy_that_stands_above_nobody_any_more_is_as_any_other(
    tmp_path: Path, *, ended: bool
) -> None:
    task = call_message(call("task", "t", name="Ann"))
    parts: dict[str, Any] = {"main": [task, "Made."], "Ann": [PLAN, changes("x"), "Done."]}
    one = hooked(tmp_path, NAME, parts)
    one.ask("Make Ann.")
    talk_with(one.root, "Ann", one.root.state.birth)
    ann = one.agent("Ann")
    run(ann.response("Change x."))
    run(ann.response("Go ahead." if ended else "Wait."))
    assert (["x"] if ended else []) == DONE


@pytest.mark.parametrize("action", ["hook", "endo", "dump", "restore", "talk_with"])
def test_structural_actions_that_lead_out_of_it_are_denied(tmp_path: Path, action: str) -> None:
    one = hooked(tmp_path, NAME, {"main": [call_message(call(action, name="x")), "I may not."]})
    one.ask("Go.")
    assert len(denials(one, NAME)) == 1


def test_tools_may_be_allowed_and_other_words_mean_yes(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [changes("w"), PLAN, changes("x"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines}, allow=["change"], agreed=["ja gern"])
    one.ask("Go.")
    assert DONE == ["w"]
    one.ask("Ja, gern!")
    assert not is_planning(one)


@pytest.mark.req("S4-36")
def test_a_user_starts_and_stops_it(tmp_path: Path) -> None:
    model = script_model(
        main=[
            *(call_message(call("task", "t", name="Ann")), "Made."),
            *(call_message(call("discuss", "d", prompt="Go.")), changes("y"), "I may not."),
            *(call_message(call("discuss", "e", prompt="Go.")), changes("y", "c2"), "Done."),
        ],
        Ann=[changes("x"), "I may not.", changes("x", "c2"), "Done."],
    )
    one = open_stage(tmp_path, model, tools=[look, change, todo])
    one.ask("Make Ann.")
    asked = one.session.log_piece_of_text("agent_001", "/plan true", one.root.state.birth)
    hook = start_planning(one.root, asked)
    assert start_planning(one.root).agent_id == hook.agent_id
    assert is_planning(one, "Ann")  # who was there before has it, too
    one.ask("Change all.")
    assert DONE == []
    asked = one.session.log_piece_of_text("agent_001", "/plan false", one.root.state.birth)
    one = resumed(one)
    assert stop_planning(one.root, asked)
    assert not stop_planning(one.root)
    assert comments(one, NAME)[-1].startswith("Planning mode is over: the user ended it.")
    one = resumed(one)
    one.ask("Change all.")
    assert DONE == ["x", "y"]
    births = one.select_lines(event_type="agent_created", name=NAME)
    assert births[0]["cause"][1:] == [one.select_lines(content="/plan true")[0]["message_id"]]
    check_log(one.log)


def test_a_subagent_may_be_in_it_alone(tmp_path: Path) -> None:
    task = call_message(call("task", "t", name="Ann"))
    talks: list[Any] = [
        call_message(call("discuss", f"d{n}", prompt=text))
        for n, text in enumerate(("Go.", "Go ahead."))
    ]
    parts: dict[str, Any] = {
        "main": [task, "Made.", *talks, "Done."],
        "Ann": [PLAN, changes("x"), "Done."],
    }
    one = hooked(tmp_path, "todo-reminder", parts)
    one.ask("Make Ann.")
    put(one, NAME, "Ann")
    one.ask("Talk.")
    assert DONE == ["x"]


@pytest.mark.req("S4-27")
def test_it_is_told_once_also_after_a_resume(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": ["Well."] * 3})
    for _ in range(3):
        one.ask("Hm.")
        one = resumed(one)
    assert len(comments(one, NAME)) == 1


def test_an_agent_that_is_watched_after_a_move_is_still_in_it(tmp_path: Path) -> None:
    task = call_message(call("task", "t", name="Ann"))
    one = hooked(tmp_path, NAME, {"main": [task, "Made.", "OK", "OK"], "Ann": [changes("x"), "-"]})
    one.ask("Make Ann.")
    endo(one.root, one.root.subagents["Ann"], one.root.state.birth, ())
    run(one.agent("Ann").response("Change x."))
    assert DONE == []


@pytest.mark.parametrize(
    "text", ["yes", "Yes!", "OK, go ahead.", "y", "Looks good to me, thanks!", "yes yes", "Do it"]
)
def test_such_words_agree(text: str) -> None:
    assert agrees(text)


@pytest.mark.parametrize(
    "text",
    ["", "no", "Yes, but wait.", "ok?no", "Thanks.", "yes " * 100, "go away", "not ok", "\ud800"],
)
def test_such_words_do_not(text: str) -> None:
    assert not agrees(text)


@pytest.mark.parametrize("text", ["PLAN: x", "a\n## Plan\nx", "**Plan**: x", "> plan:"])
def test_such_lines_are_plans(text: str) -> None:
    assert has_plan(text)


@pytest.mark.parametrize("text", ["The plan: x", "planning: x", "PLAN B is x", "", "explan:"])
def test_such_lines_are_none(text: str) -> None:
    assert not has_plan(text)


@pytest.mark.req("S4-45")
def test_an_agent_begins_to_plan_by_itself_and_the_users_agreement_ends_it(tmp_path: Path) -> None:
    begins = call_message(call("hook", "h", name="plan", instructions=f"hook:{NAME}"))
    model = script_model(main=[begins, changes("x"), PLAN, changes("x", "c2"), "Done."])
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([look, change]),
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(hooks=HookFiles()),
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    assert one.ask("Change x, carefully.") == PLAN
    assert (DONE, is_planning(one)) == ([], True)
    assert one.ask("Yes, go ahead.") == "Done."
    assert (DONE, is_planning(one)) == (["x"], False)
    check_log(one.log)


def test_hooks_are_given_back_as_hooks(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": ["Hello."]})
    [hook] = planning_hooks(one.root)
    assert isinstance(hook, Hook)
    assert isinstance(hook, Agent)
