"""What agents do with actions, the user does with commands: the same, past the hooks, and logged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.hooks.hook import hook_points
from harken.agents.runtime import ActionPolicy
from harken.agents.tree.hook_action import MAX_HOOKS
from harken.agents.tree.registry import RUN
from harken.chat.commands.base import COMMANDS, run_command
from harken.chat.commands.tree import COMMAND_OF
from harken.core.ids import USER
from tests.agent_kit import Stage, check_log, open_stage, request_texts, run, script_model
from tests.cli.chat_kit import Talking
from tests.unit.agents.hook_kit import watch
from tests.unit.world.permissions.user_kit import ScriptedUser

EXCEPTIONS = Path(__file__).parents[2] / "docs/how-to/change-the-agent-tree.md"
"""The page with the table of commands without an action, and of actions without a command."""


def read_exceptions() -> dict[str, str]:
    """Return the reasons of the table of exceptions by command (`/undo`) and action."""
    section = EXCEPTIONS.read_text("utf-8").partition("## Commands and actions\n")[2]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert len(rows) == len(dict(rows))
    return dict(rows)


@pytest.fixture
def one(tmp_path: Path) -> Stage:
    parts = {
        "main": ["Hello.", "Back again.", "Still here."],
        "Ann": ["Tea.", "Ann here.", "Well."],
        "Bob": ["No."],
        "critic": ["OK"] * 9,
    }
    runtime = AgentRuntime(model=script_model(**parts), policy=ActionPolicy(actions=tuple(ACTIONS)))
    return open_stage(tmp_path, script_model(**parts), runtime=runtime)


@pytest.fixture
def talk(one: Stage) -> Talking:
    return Talking(one)


@pytest.mark.req("S4-45")
def test_every_command_has_its_action_and_the_other_way_round_or_is_a_documented_exception() -> (
    None
):
    exceptions = read_exceptions()
    acting = {f"/{command}" for command in COMMAND_OF.values()}
    assert {f"/{name}" for name in COMMANDS} == acting | {
        name for name in exceptions if name.startswith("/")
    }
    assert set(ACTIONS) == set(COMMAND_OF) | {
        name for name in exceptions if not name.startswith("/")
    }
    assert not acting & exceptions.keys()
    assert not COMMAND_OF.keys() & exceptions.keys()
    assert all(len(reason) > 20 for reason in exceptions.values())


@pytest.mark.req("S4-45")
def test_every_action_of_a_command_runs() -> None:
    assert set(RUN) == set(ACTIONS)


def test_help_shows_all_that_a_command_means(talk: Talking) -> None:
    lines = [line for line in talk("/help").splitlines() if line.startswith("  /")]
    assert len(lines) == len(COMMANDS)
    assert not [line for line in lines if line.endswith("…")]


@pytest.mark.req("S4-45")
def test_a_subagent_is_made_asked_and_ended(one: Stage, talk: Talking) -> None:
    assert talk("/task Ann You are Ann. prompt=Tea?") == "Tea."
    assert talk("/discuss Who is there?") == "Ann here."
    assert talk("/terminate Ann") == "Terminated subagent: Ann"
    assert not one.root.subagents
    typed = [row["content"] for row in one.select_lines(agent_id=USER, role="assistant")]
    assert typed == [
        "/task Ann You are Ann. prompt=Tea?",
        "/discuss Who is there?",
        "/terminate Ann",
    ]
    check_log(one.log)


def test_the_user_leads_a_discussion_of_rounds_and_takes_part(tmp_path: Path) -> None:
    model = script_model(Ann=["Tea.", "Tea!"], Bob=["DONE", "CONTINUE: not yet", "DONE: tea"])
    user = ScriptedUser(["Coffee.", "Tea, then."])
    runtime = AgentRuntime(model=model, world=LocalWorld(user=user))
    one = open_stage(tmp_path, model, runtime=runtime)
    talk = Talking(one)
    talk("/task Ann You are Ann.")
    talk("/task Bob You are Bob. prompt=Hello")
    result = talk("/discuss Which one? speakers=Ann,user rounds=5 until=judge:Bob order=random:2")
    assert "The discussion ended after 2 of 5 rounds: the judge Bob says" in result
    assert sorted(re.findall(r"\[user\]: (.*)|\[Ann\]: (.*)", result)) == sorted(
        [("Coffee.", ""), ("Tea, then.", ""), ("", "Tea."), ("", "Tea!")]
    )
    assert len(user.questions) == 2
    assert "rounds is 50" in talk("/discuss More? speakers=Ann rounds=50")
    assert one.session.state.rounds == {}
    check_log(one.log)


@pytest.mark.req("S4-46")
def test_one_talks_with_whom_one_names_and_comes_back(one: Stage, talk: Talking) -> None:
    talk("/task Ann You are Ann.")
    talk("/task Bob You are Bob.")
    assert talk("/talkwith Ann") == "Ann has taken your place."
    assert talk.primary.name == "Ann"
    assert [hook.name for hook in talk.primary.hooks] == ["main"]
    now = "You talk with the user from now on, in the place of main."
    assert one.user_messages("Ann") == [f"[the user did this: /talkwith Ann] {now}"]
    assert talk("/talkwith Ann") == "you talk to Ann; other agents: main, main/Bob"
    talk("/talkwith Bob")  # further away: the way there is found
    assert talk.primary.name == "Bob"
    talk("/talkwith main")
    assert (talk.primary.name, talk.primary.hooks) == ("main", [])
    assert "agent 'Cleo' not found" in talk("/talkwith Cleo")
    check_log(one.log)


@pytest.mark.req("S4-46")
def test_a_hook_and_a_subagent_of_the_same_name_are_told_apart_by_their_ids(
    one: Stage, talk: Talking
) -> None:
    talk("/task critic You are a critic.")
    talk("/hook critic Watch.")
    hook, subagent = one.root.hooks[0].agent_id, one.root.subagents["critic"].agent_id
    answer = talk("/talkwith critic")
    assert hook in answer
    assert subagent in answer
    talk(f"/talkwith {hook}")
    assert talk.primary.agent_id == hook


@pytest.mark.req("S4-46")
def test_hooks_are_listed_put_there_and_taken_away(one: Stage, talk: Talking) -> None:
    assert talk("/hooks") == "main has no hooks"
    watch(one)
    assert talk("/hooks add critic Watch the tea.") == "Installed hook critic on main"
    guard, critic = talk("/hooks").splitlines()
    assert guard == "guard  code (test-judge) · at all points · from the beginning"
    assert critic == "critic  play · at all points · by you"
    one.ask("Hello?")
    assert "  last: OK" in talk("/hooks")
    assert talk("/hooks remove critic") == "Removed hook: critic"
    assert talk("/hooks remove critic") == "Error: main has no hook 'critic'; existing hooks: guard"
    assert talk("/hooks remove") == "/hooks: name a hook: guard"
    assert talk("/hooks add").startswith("/hooks: no hook given")
    check_log(one.log)


@pytest.mark.parametrize("command", ["/hook", "/hooks add"])
def test_a_hook_without_a_name_is_told_the_whole_text(
    one: Stage, talk: Talking, command: str
) -> None:
    assert talk(f"{command} Be brief.") == "Installed hook be-brief on main"
    assert talk(f"{command} Be brief.") == "Installed hook be-brief (2) on main"
    assert talk(f"{command} never push to main") == "Installed hook never-push-to on main"
    assert talk(f"{command} critic: watch it") == "Installed hook critic on main"
    told = {hook.name: hook.transcript[0]["content"].split("\n")[0] for hook in one.root.hooks}
    assert told["be-brief (2)"] == "Be brief."
    assert (told["never-push-to"], told["critic"]) == ("never push to main", "watch it")


def test_a_hook_can_be_said_by_name(one: Stage, talk: Talking) -> None:
    assert talk("/hook Be brief. points=response") == "Installed hook be-brief on main"
    assert hook_points(one.root.hooks[0]) == {"response"}
    assert talk("/hook name=x Be brief.") == "Installed hook x on main"
    assert talk("/hook y").startswith("Error: a hook needs instructions")
    assert talk("/hook").startswith("/hook: name missing")


def test_an_agents_own_hooks_take_no_room_from_the_users(one: Stage, talk: Talking) -> None:
    for number in range(MAX_HOOKS):
        watch(one, f"h{number}")
    assert talk("/hook critic Watch.") == "Installed hook critic on main"


@pytest.mark.req("S4-45")
def test_planning_is_begun_and_ended_by_the_user(one: Stage, talk: Talking) -> None:
    assert talk("/plan") == "planning mode is off: /plan on starts it"
    assert talk("/plan on").startswith("Planning mode is on")
    assert [hook.name for hook in one.root.hooks] == ["planning-mode"]
    assert talk("/plan").startswith("planning mode is on")
    assert talk("/plan off") == "Planning mode is off."
    assert one.root.hooks == []
    assert talk("/plan off") == "Planning mode was not on."
    assert talk("/plan true").startswith("Planning mode is on")
    assert talk("/plan false") == "Planning mode is off."
    assert talk("/plan maybe") == "/plan: expected on or off"
    assert talk("/hooks add planning-mode").startswith("Planning mode is on")
    check_log(one.log)


def test_a_built_in_hook_is_put_there_by_its_name(one: Stage, talk: Talking) -> None:
    assert talk("/hooks add todo-reminder") == "Installed hook todo-reminder on main"
    assert "todo-reminder  code (todo-reminder)" in talk("/hooks")
    assert "by you" in talk("/hooks")
    assert "built-in hook 'nope' not found" in talk("/hooks add nope")
    assert "single-minded is a built-in hook: " in talk(
        "/hooks add single-minded Help one at a time."
    )
    assert "todo-reminder" in [*COMMANDS["hooks"].completes(talk, ["add"])]


def test_a_hook_of_code_is_nobody_to_talk_with(one: Stage, talk: Talking) -> None:
    watch(one)
    assert talk("/talkwith guard") == "guard is a hook in code: you cannot talk to it"
    assert talk("/meta guard") == "guard is a hook in code: it cannot answer"
    assert talk("/meta") == "/meta: main has no hook that can answer"
    assert one.select_lines(agent_id=USER) == []
    talk("/hook critic Watch.")
    assert talk("/meta") == "/meta: name a hook: critic"


def test_meta_lets_a_hook_answer_and_endo_undoes_it(one: Stage, talk: Talking) -> None:
    talk("/hook critic Watch.")
    assert talk("/meta critic").startswith("You have taken the place of main, now your subagent.")
    assert talk.primary.name == "critic"
    assert talk("/endo main points=response").startswith("main has taken your place")
    assert talk.primary.name == "main"
    check_log(one.log)


def test_what_cannot_be_is_one_line_and_nothing_is_logged(one: Stage, talk: Talking) -> None:
    assert talk("/task") == (
        "/task: name missing; usage: NAME [INSTRUCTIONS] [prompt=..] [tools=..] [model=..]"
    )
    assert one.select_lines(agent_id=USER) == []


@pytest.mark.req("S4-45", "S4-48")
def test_the_user_dumps_somebody_who_wakes_takes_over_and_the_old_primary_goes(
    tmp_path: Path,
) -> None:
    parts = {"main": ["Hello."], "Ann": ["Noted."], "Eve": ["", "It is 7."]}
    model = script_model(**parts)
    runtime = AgentRuntime(
        model=model, policy=ActionPolicy(actions=tuple(ACTIONS)), world=LocalWorld(folder=tmp_path)
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    talk = Talking(one)
    talk('/task Ann You are Ann. prompt="The key is 7."')
    assert talk("/dump ann.json Ann").startswith("Dumped Ann to ann.json: 1 agent, ")
    assert (tmp_path / "ann.json").is_file()
    talk("/terminate Ann")
    restored = "Restored Eve from ann.json: it is your subagent"
    assert talk("/restore ann.json Eve") == restored
    assert one.user_messages("Eve")[-1].startswith(
        "You were restored from a dump and have just woken up"
    )
    talk("/endo Eve")
    assert talk("/hooks remove main") == "Removed hook: main"
    assert (talk.primary.name, talk.primary.hooks) == ("Eve", [])
    assert run(talk.primary.response("The key?")) == "It is 7."
    read = request_texts(model.requests_of("Eve")[-1])
    assert read.index("The key is 7.") < read.index("The key?")
    check_log(one.log)


@pytest.mark.req("S4-44")
def test_nothing_is_done_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    said: list[str] = []

    def busy(_: object) -> str:
        talk = Talking(there)
        assert run_command(talk, "/task Ann")
        said.extend(talk.said)
        return "Done."

    there = open_stage(tmp_path, script_model(main=[busy]))
    there.ask("Go.")
    assert said == ["main is in a turn: wait for its answer"]


def test_names_are_completed_where_they_are_meant(one: Stage, talk: Talking) -> None:
    def offered(command: str, *before: str) -> list[str]:
        return [*COMMANDS[command].completes(talk, before)]

    talk("/task Ann You are Ann.")
    talk("/hooks add critic Watch.")
    assert offered("talkwith") == ["critic", "Ann", "Ann/critic"]
    assert offered("talkwith", "Ann") == []
    assert offered("terminate") == offered("endo") == ["Ann"]
    assert offered("hooks")[:2] == ["add", "remove"]
    assert offered("hooks", "remove") == ["critic"]
    assert "prompt=" in offered("task", "Bob")
    assert offered("context") == ["main", "critic", "Ann", "Ann/critic"]


def test_a_command_of_an_agent_is_the_same_for_all_who_look(one: Stage, talk: Talking) -> None:
    """What a model did and what the user did with a command stand in the same tree."""
    talk("/task Ann You are Ann.")
    assert "Ann" in talk("/view tree")
    assert "/task Ann" in talk("/view timeline")
