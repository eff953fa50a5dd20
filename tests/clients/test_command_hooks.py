"""What hooks are told here and by the real Claude Code, in the same situations."""

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
from tests.unit.agents.command_hooks.commanding import commanded, keeper, on, told

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


def theirs(folder: Path) -> list[dict[str, Any]]:
    settings = folder / "home" / "work" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": section(folder)}))
    prompts = ("RUNTOOL", "RUNFAIL", "WRITEFILE", "READFILE", "EDITFILE", "SUBAGENT")
    said = (f"{word} please" for word in prompts)
    talk("claude", folder / "home", *said, "/compact the numbers")
    return told(folder)


def ours(folder: Path) -> list[dict[str, Any]]:
    acts = [
        call("bash", "c1", command="echo tool-output-42"),
        call("bash", "c2", command="ls no-such-folder; exit 3"),
        call("write", "c3", path="hello.txt", content="line one\nline two\n"),
        call("read", "c4", path="hello.txt"),
        call("edit", "c5", path="hello.txt", old_string="line two", new_string="line 2 edited"),
    ]
    acts += [call("task", "c6", name="Ann", instructions="You are Ann.", prompt="Say hi.")]
    one = commanded(folder, section(folder), main=[*map(call_message, acts), "Done."], Ann=["Hi."])
    one.set_answers(compaction=["The numbers."])
    one.ask("Go!")
    assert isinstance(one.root, SmartAgent)
    run(one.root.compact("the numbers"))
    OpenChat(one.root, one.session, one.runtime, Settings()).end()
    return told(folder)


def by_event(seen: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the first of each event and tool."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in seen:
        found.setdefault((one["hook_event_name"], one.get("tool_name", "")), one)
    return found


@needs("claude")
@pytest.mark.full
def test_hooks_are_told_what_claude_code_tells_them(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    real, own = by_event(theirs(tmp_path / "theirs")), by_event(ours(tmp_path / "ours"))
    assert real.keys() == own.keys()
    for key, there in real.items():
        here = own[key]
        assert here.keys() - there.keys() == NOT_THERE.get(key[0], set()) & here.keys(), key
        assert there.keys() - here.keys() <= NOT_TOLD, key
        for name in here.keys() & there.keys():
            assert type(here[name]) is type(there[name]), (key, name)
        inputs = (one.get("tool_input", {}).keys() - {"description"} for one in (here, there))
        assert next(inputs) == next(inputs), key
        response, real_response = here.get("tool_response", {}), there.get("tool_response", {})
        for name, value in response.items() if key[1] != "Agent" else ():  # it is awaited here
            assert type(value) is type(real_response[name]), (key, name)
