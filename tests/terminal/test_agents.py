"""The agents of a chat: commands that act on them, the tree that shows them, and forks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER, ESCAPE

CTRL_G, PAGE_DOWN = "\x07", "\x1b[6~"
SLEEPERS = """\
rules:
  - pattern: '^two'
    calls:
      - task: {name: Bob, instructions: You are Bob., prompt: slow}
      - task: {name: Cleo, instructions: You are Cleo., prompt: slow}
"""


@pytest.mark.req("S4-46")
def test_one_talks_with_a_subagent_and_comes_back(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat()
    terminal.say("/task Dan You are Dan.")
    terminal.wait("+ Dan")
    terminal.type("/talkwith ")
    terminal.wait(lambda: "\n Dan" in terminal.visible)  # a completion
    terminal.type("D")
    terminal.settle()
    terminal.type("\t")
    terminal.wait("› /talkwith Dan")
    terminal.type(ENTER + ENTER)  # the first one takes the completion
    terminal.wait("Dan; main is now its hook", "Dan › type", "Dan · ")
    terminal.type("hello" + ENTER)
    terminal.wait("Hi there, friend.")
    terminal.type("/talkwith main" + ENTER)
    terminal.wait("main; Dan is now its subagent")
    assert "Dan › " not in terminal.visible
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert '"agent_id":"user","role":"assistant","content":"/talkwith Dan"' in log()


@pytest.mark.req("S4-44")
def test_a_subagent_that_takes_over_with_a_prompt_answers_at_once(chat: Chat) -> None:
    terminal = chat()
    terminal.say("/task Dan You are Dan.")
    terminal.wait("+ Dan")
    terminal.say("/endo Dan hello points=")
    terminal.wait("you now talk to Dan", "Hi there, friend.", "Dan › ")


@pytest.mark.req("S4-47")
def test_the_tree_shows_what_each_does_while_a_turn_runs(chat: Chat, script: Path) -> None:
    script.write_text(script.read_text().replace("rules:\n", SLEEPERS, 1))
    terminal = chat()
    terminal.type(CTRL_G)
    terminal.wait("1 agent, 1 hook · Ctrl-G closes", "● main           talks to you")
    terminal.say("two")
    terminal.wait("└ Bob", "└ Cleo", "running 2 calls: task(Bob: slow)", "writing")
    terminal.type("type ahead")
    terminal.wait("› type ahead")
    terminal.type(CTRL_C)
    terminal.wait("stopped", "└ Cleo           idle")
    terminal.type(CTRL_C)
    for command, shown in (("/system Bob", "You are Bob."), ("/transcript Cleo", "user: slow")):
        terminal.say(command)
        terminal.wait(shown)
    terminal.settle()
    terminal.resize(40, 10)
    terminal.settle()
    terminal.type(PAGE_DOWN)
    terminal.wait(lambda: "to 6 of 6" in terminal.visible)
    terminal.type(ESCAPE)
    terminal.wait(lambda: "agents" not in terminal.visible)
    assert "› type a message" in terminal.visible


@pytest.mark.req("S4-47")
def test_prompts_and_transcripts_can_be_looked_at_while_a_turn_runs(chat: Chat) -> None:
    terminal = chat()
    terminal.say("slow")
    terminal.wait("First")
    terminal.say("/system")
    terminal.wait("You are main, an agent of Harken")
    terminal.say("/transcript")
    terminal.wait("user: slow", "(main is working: writing")
    terminal.say("/task Dan x")
    terminal.wait("main is in a turn: wait for its answer")


def test_what_was_said_last_is_undone_in_a_session_of_its_own(chat: Chat, tmp_path: Path) -> None:
    terminal = chat()
    terminal.say("/undo")
    terminal.wait("nothing to undo: no message since the context")
    terminal.say("hello")
    terminal.wait("12 out")
    terminal.say("say coffee, I mean tea")
    terminal.wait("I heard <say coffee, I mean tea>")
    terminal.say("/undo")
    terminal.wait("Undone: 'say coffee, I mean tea'", "of files are not undone")
    terminal.wait("› say coffee, I mean tea")
    terminal.type(CTRL_C)
    terminal.say("and now")
    terminal.wait("I heard <and now>.")
    terminal.say("/transcript")
    terminal.wait("user: hello", "user: and now")
    terminal.say("/undo")
    terminal.wait("Undone: 'and now'")
    terminal.type(CTRL_C)
    terminal.say("/undo")
    terminal.wait("Undone: 'hello'", lambda: "› hello" in terminal.visible)
    terminal.type(CTRL_C + CTRL_D)
    assert terminal.end() == 0
    assert len([*(tmp_path / "home" / "sessions").glob("*.jsonl")]) == 2


def test_undo_goes_by_what_the_user_said_last_whoever_heard_it(chat: Chat) -> None:
    terminal = chat()
    terminal.say("hello")
    terminal.wait("12 out")
    terminal.say("/task Dan You are Dan.")
    terminal.wait("+ Dan")
    terminal.say("/talkwith Dan")
    terminal.wait("you now talk to Dan")
    terminal.type("to Dan" + ENTER)
    terminal.wait("I heard <to Dan>.")
    terminal.type("and more" + ENTER)
    terminal.wait("I heard <and more>.")
    terminal.type("/talkwith main" + ENTER)
    terminal.wait("you now talk to main")
    for command, said in (("/dump it.dump Dan", "Dumped Dan"), ("/restore it.dump Zoe", "+ Zoe")):
        terminal.say(command)
        terminal.wait(said)
    terminal.say("/undo")  # not what Zoe remembers
    terminal.wait("Undone: 'and more'", "You talk to Dan again.")
    terminal.wait(lambda: "› and more" in terminal.visible.splitlines()[-2])
    terminal.type(CTRL_C)
    terminal.say("/transcript")
    terminal.wait("user: to Dan\n", "assistant: I heard <to Dan>.")
    terminal.say("/system")
    terminal.wait("Dan:\n  You are Dan.\nmain:\n  You are main, an agent of Harken")
    terminal.say("/agents")
    terminal.wait("Dan  scripted:tea.yaml, idle", "main  hook, scripted:tea.yaml")


def test_a_command_that_only_looks_stands_above_what_it_says(chat: Chat) -> None:
    terminal = chat()
    for command, said in (
        ("/mcp", "no MCP servers"),
        ("/tools", "main:\n  tools: "),
        ("/agents", "main  scripted:tea.yaml, idle"),
        ("/cost", "no model calls yet"),
        ("/talkwith", "you talk to main"),
        ("/plan", "planning mode is off"),
    ):
        terminal.say(command)
        terminal.wait(f"› {command}\n\n{said}")
    terminal.say("/plan on")
    terminal.wait("Planning mode is on")
    assert terminal.settle().count("› /plan on\n") == 1
    terminal.say("/nothing")
    terminal.wait("command /nothing")
    assert terminal.settle().count("› /nothing") == 1  # it stands in the input, to be mended


def test_a_fork_goes_on_from_here(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[hooks]\nuse = ["todo-reminder"]\n')
    terminal = chat()
    terminal.say("hello")
    terminal.wait("12 out")
    terminal.say("/task Dan You are Dan.")
    terminal.wait("+ Dan")
    terminal.say("/fork")
    terminal.wait(
        "A fork of session_",
        "session recorded; resume with: ",
        "› type a message",
    )
    assert "cut off" not in terminal.text  # what the user did wants no answer
    terminal.say("more")
    terminal.wait("I heard <more>.")
    terminal.say("/export")
    terminal.wait("narrative-v1: 6 messages")
    terminal.say("/export atif")
    terminal.wait("atif-v1 is for programs; name an output file: /export atif-v1 -o FILE")
    terminal.say("/export atif -o it.json")
    terminal.wait("atif-v1: 6 messages (tier 3, rendered), in it.json")
    terminal.say("/export -o nowhere/it.md")
    terminal.wait("write failed: No such file or directory")
    terminal.say("/export tea")
    terminal.wait("format 'tea' not found; existing formats: adk-events-v1, atif-v1, ")
    terminal.type("/export mess")
    terminal.wait("\n messages-v1")
    terminal.settle()
    terminal.type("\t")
    terminal.wait("› /export messages-v1")
    terminal.type(CTRL_C)
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    logs = (tmp_path / "home" / "sessions").glob("*.jsonl")
    first, second = sorted(logs, key=lambda log: (len(log.name), log.name))  # X, X-2
    assert '"content":"more"' not in first.read_text()
    started = json.loads(second.read_text().splitlines()[0])
    assert started["origin"]["session"] == first.stem
    assert second.stem == f"{first.stem}-fork"
    assert '"name":"Dan"' in second.read_text()


def test_a_template_goes_through_the_agent(chat: Chat, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "commands"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "brew.md").write_text("---\ndescription: Makes tea.\n---\nnow brew $1 for $2\n")
    (folder / "cost.md").write_text("never")
    terminal = chat()
    terminal.wait("1 command of your own ignored: /cost is built in")
    terminal.type("/bre")
    terminal.wait("Makes tea.")
    terminal.type("w green me" + ENTER)
    terminal.wait("› now brew green for me", "I heard <now brew green for me>.")


@pytest.mark.req("S4-46")
def test_a_dumb_terminal_can_act_on_agents_too(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat(TERM="dumb")
    terminal.type("/task Dan You are Dan." + ENTER)
    terminal.wait("Created subagent: Dan")
    terminal.type("/talkwith Dan" + ENTER)
    terminal.wait("Dan has taken your place.")
    terminal.type("/hooks" + ENTER)
    terminal.wait("main  scripted:", "silent")
    terminal.type("hello" + ENTER)
    terminal.wait("Hi **there**, friend.")
    terminal.type("/undo" + ENTER)
    terminal.wait("Undone: 'hello'")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
