"""Hook inputs of Harken and of the real Claude Code in the same situations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.agents.smart_agent import SmartAgent
from harken.chat.open_chat import OpenChat
from harken.config.settings import Settings
from tests.agent_kit import call, call_message, run
from tests.clients.kit import needs, talk
from tests.unit.agents.command_hooks.command_kit import commanded, keeper, on, told

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)
NOT_TOLD = {"prompt_id", "effort", "duration_ms", "background_tasks", "session_crons"}
"""What only the client has."""
NOT_THERE = {"SessionStart": {"model"}}
"""What its reference names, and it does not send where it is given a prompt."""


def section(folder: Path) -> dict[str, Any]:
    keep = keeper(folder)
    return {name: part for event in EVENTS for name, part in on(event, keep).items()}


def client_inputs(folder: Path) -> list[dict[str, Any]]:
    settings = folder / "home" / "work" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": section(folder)}))
    prompts = ("RUNTOOL", "RUNFAIL", "WRITEFILE", "READFILE", "EDITFILE", "SUBAGENT")
    prompt_texts = (f"{word} please" for word in prompts)
    talk("claude", folder / "home", *prompt_texts, "/compact the numbers")
    return told(folder)


def harken_inputs(folder: Path) -> list[dict[str, Any]]:
    acts = [
        call("bash", "c1", command="echo tool-output-42"),
        call("bash", "c2", command="ls no-such-folder; exit 3"),
        call("write", "c3", path="hello.txt", content="line one\nline two\n"),
        call("read", "c4", path="hello.txt"),
        call("edit", "c5", path="hello.txt", old_string="line two", new_string="line 2 edited"),
    ]
    acts += [call("task", "c6", name="Ann", instructions="You are Ann.", prompt="Say hi.")]
    scene = commanded(
        folder, section(folder), main=[*map(call_message, acts), "Done."], Ann=["Hi."]
    )
    scene.set_answers(compaction=["The numbers."])
    scene.ask("Go!")
    assert isinstance(scene.root, SmartAgent)
    run(scene.root.compact("the numbers"))
    OpenChat(scene.root, scene.session, scene.runtime, Settings()).end()
    return told(folder)


def by_event(hook_inputs: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the first input of each event and tool."""
    first_inputs: dict[tuple[str, str], dict[str, Any]] = {}
    for hook_input in hook_inputs:
        first_inputs.setdefault(
            (hook_input["hook_event_name"], hook_input.get("tool_name", "")), hook_input
        )
    return first_inputs


@needs("claude")
@pytest.mark.full
def test_hooks_receive_the_input_of_claude_code(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    real, harken_by_event = (
        by_event(client_inputs(tmp_path / "theirs")),
        by_event(harken_inputs(tmp_path / "ours")),
    )
    assert real.keys() == harken_by_event.keys()
    for key, client_input in real.items():
        harken_input = harken_by_event[key]
        assert (
            harken_input.keys() - client_input.keys()
            == NOT_THERE.get(key[0], set()) & harken_input.keys()
        ), key
        assert client_input.keys() - harken_input.keys() <= NOT_TOLD, key
        for name in harken_input.keys() & client_input.keys():
            assert type(harken_input[name]) is type(client_input[name]), (key, name)
        inputs = (
            hook_input.get("tool_input", {}).keys() - {"description"}
            for hook_input in (harken_input, client_input)
        )
        assert next(inputs) == next(inputs), key
        response, real_response = (
            harken_input.get("tool_response", {}),
            client_input.get("tool_response", {}),
        )
        for name, value in response.items() if key[1] != "Agent" else ():  # Harken awaits it
            assert type(value) is type(real_response[name]), (key, name)
