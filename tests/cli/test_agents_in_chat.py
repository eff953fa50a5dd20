"""Who is there, who may do what, what each has heard: also while a turn runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import tool
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.chat.commands.agent_paths import find_agent, map_agent_paths
from harken.chat.commands.base import run_command
from harken.core.ids import AgentId
from harken.core.messages import Message
from harken.errors import NameNotFound
from harken.terminal.event_lines import iter_hook_lines
from harken.views.viewer import SessionViewer
from tests.agent_kit import ScriptedAnswer, Stage, call, call_message, open_stage, script_model
from tests.cli.chat_kit import Talking
from tests.unit.agents.hook_kit import watch


@tool(reads_only=True)
def look(at: str) -> str:
    """Look."""
    return "\n".join(f"{at} {n}" for n in range(20))


@pytest.fixture
def one(tmp_path: Path) -> Stage:
    asks = call_message(
        call("task", "a", name="Ann", instructions="You are Ann.\nA\nB\nC\nD", prompt="Tea?"),
        call("task", "b", name="Bob", tools=["look"]),
    )
    ann: list[ScriptedAnswer] = [call_message(call("task", name="Zoe", prompt="?")), "Tea."]
    stage_ = open_stage(
        tmp_path, script_model(main=[asks, "Done."], Ann=ann, Zoe=["Hm."], Bob=[]), tools=[look]
    )
    stage_.ask("Ask them.")
    return stage_


@pytest.fixture
def talk(one: Stage) -> Talking:
    return Talking(one)


@pytest.mark.req("S4-46")
def test_subagents_are_listed_with_what_they_said_last(one: Stage, talk: Talking) -> None:
    talk.doing = {AgentId(one.id_of("Bob")): "thinking"}
    assert talk("/subagents").splitlines() == [
        "Ann  play, idle, 1 subagent",
        "  assistant: Tea.",
        "Bob  play, thinking",
    ]
    assert talk("/subagents Ann").startswith("Zoe  play, idle")
    assert talk("/subagents Zoe") == "Zoe has no subagents"


def test_an_agent_is_meant_by_its_path_its_name_or_its_id(one: Stage, talk: Talking) -> None:
    assert [*map_agent_paths(one.session).values()] == ["", "Ann", "Bob", "Ann/Zoe"]
    zoe = one.id_of("Zoe")
    assert find_agent(talk, "Zoe") == find_agent(talk, "Ann/Zoe") == find_agent(talk, zoe) == zoe
    assert find_agent(talk, "") == one.root.agent_id
    with pytest.raises(NameNotFound, match="Bob"):
        find_agent(talk, "Cleo")
    for command in ("/talkwith Bob", "/task Zoe Another.", "/talkwith main"):
        talk(command)
    with pytest.raises(NameNotFound, match="agent 'Zoe' is ambiguous: Ann/Zoe, Bob/Zoe"):
        find_agent(talk, "Zoe")


def test_tools_and_actions_are_told_and_what_is_not_granted(talk: Talking) -> None:
    assert talk("/tools").splitlines()[:8] == [
        "main:",
        "  tools: look",
        "  actions: task, discuss, terminate",
        next(line for line in talk("/tools").splitlines() if "not granted: hook" in line),
        "Ann: as main",
        "Bob:",
        "  tools: look",
        "  actions: none",
    ]


def test_copies_of_a_hook_are_told_apart_by_their_paths(one: Stage, talk: Talking) -> None:
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.").install(one.root, "critic")
    said = talk("/tools").splitlines()
    assert [line for line in said if "critic" in line] == [
        "critic:",
        "Ann/critic: as critic",
        "Bob/critic: as critic",
        "Ann/Zoe/critic: as critic",
    ]


def test_what_a_hook_was_told_is_said_once_and_not_of_each_copy(one: Stage) -> None:
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.").install(one.root, "critic")
    watches = SessionViewer(one.session.path).watches()
    assert [len([*iter_hook_lines(row)]) for row in watches] == [2, 1, 1, 1]


def test_code_needs_no_tools(one: Stage, talk: Talking) -> None:
    watch(one)
    assert "guard" not in talk("/tools")
    assert talk("/tools guard") == "guard is code and has no tools"


@pytest.mark.req("S4-47")
def test_system_prompts_are_shown_one_whole_or_how_all_begin(talk: Talking) -> None:
    assert talk("/system Ann") == "You are Ann.\nA\nB\nC\nD"
    text = talk("/system")
    assert "main:\n  You are main." in text
    assert "Ann:\n  You are Ann.\n  A\n  B\n  … 2 more lines" in text


@pytest.mark.req("S4-47")
def test_transcripts_are_shown_the_last_messages_first_lines(talk: Talking) -> None:
    lines = talk("/transcript Ann").splitlines()
    assert lines[0].endswith("user: Tea?")
    assert lines[-1].endswith("assistant: Tea.")
    assert talk("/transcript Ann 1").splitlines()[0] == ("… 3 earlier messages (/transcript Ann 4)")
    assert talk("/transcript Bob") == "Bob has no messages"


def test_a_long_message_is_cut_and_says_how_it_is_shown_whole(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["\n".join("abcdefghij") + "\n" + "x" * 5000]))
    one.ask("Hi.")
    talk = Talking(one)
    text = talk("/transcript")
    [row] = one.select_lines(role="assistant")
    assert text.endswith(f"… 5 more lines (/show {int(row['message_id'][4:])})")
    assert "x" * 100 not in text


@pytest.mark.req("S4-47")
def test_all_of_it_can_be_looked_at_while_a_turn_runs(tmp_path: Path) -> None:
    shown: list[str] = []

    def looking(_: object) -> Message | str:
        talk = Talking(there)
        talk.doing = {AgentId(there.root.agent_id): "waiting for the model"}
        for command in ("/system", "/transcript", "/subagents", "/tools", "/hooks", "/context"):
            assert run_command(talk, command)
        shown.extend(talk.said)
        return "Done."

    there = open_stage(tmp_path, script_model(main=[looking]))
    there.ask("What now?")
    assert shown[0] == "main:\n  You are main."
    assert "user: What now?" in shown[1]
    assert shown[1].endswith("(main is working: waiting for the model)")
    assert shown[2] == "main has no subagents"
