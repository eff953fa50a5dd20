"""What a command is told: the members that Claude Code 2.1.329 sends, as far as there are such.

`tests/clients/test_command_hooks.py` compares with what the client itself sends.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken import Permissions
from harken.world.permissions.mode import Mode
from tests.agent_kit import call, call_message
from tests.unit.agents.command_hooks.command_kit import commanded, environment, keeper, on, told

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
)
ALWAYS = {"session_id", "transcript_path", "cwd", "hook_event_name"}
IN_TURN = ALWAYS | {"permission_mode"}
OF_TOOL = IN_TURN | {"tool_name", "tool_input", "tool_use_id"}
MEMBERS = {
    "SessionStart": ALWAYS | {"source", "model"},
    "UserPromptSubmit": IN_TURN | {"prompt"},
    "PreToolUse": OF_TOOL,
    "PostToolUse": OF_TOOL | {"tool_response"},
    "PostToolUseFailure": OF_TOOL | {"error", "is_interrupt"},
    "Stop": IN_TURN | {"stop_hook_active", "last_assistant_message"},
}


def everything(tmp_path: Path) -> list[dict[str, Any]]:
    keep = keeper(tmp_path)
    section = {name: part for event in EVENTS for name, part in on(event, keep).items()}
    acts = [
        call("bash", "c1", command="echo hi; exit 3"),
        call("write", "c2", path="a.txt", content="one\ntwo\n"),
        call("read", "c3", path="a.txt"),
        call("edit", "c4", path="a.txt", old_string="two", new_string="2"),
        call("edit", "c5", path="a.txt", old_string="nothing", new_string="2"),
        call("glob", "c6", pattern="*.txt"),
    ]
    one = commanded(tmp_path, section, main=[*map(call_message, acts), "Done."])
    one.runtime.world.permissions = Permissions(mode="all")
    one.ask("Go!")
    return told(tmp_path)


def test_each_event_has_its_members(tmp_path: Path) -> None:
    seen = everything(tmp_path)
    for one in seen:
        assert one.keys() == MEMBERS[one["hook_event_name"]]
        assert one["cwd"] == str(tmp_path / "desk")
        assert one["session_id"] == "s"
    assert environment(tmp_path)["CLAUDE_PROJECT_DIR"] == str(tmp_path / "desk")
    assert seen[1]["prompt"] == "Go!"
    assert seen[1]["permission_mode"] == "bypassPermissions"
    assert seen[-1]["last_assistant_message"] == "Done."
    assert seen[-1]["stop_hook_active"] is False


def test_each_tool_has_its_answer(tmp_path: Path) -> None:
    after = [one for one in everything(tmp_path) if one["hook_event_name"].startswith("Post")]
    file = f"{tmp_path}/desk/a.txt"
    assert [one["tool_name"] for one in after] == ["Bash", "Write", "Read", "Edit", "Edit", "Glob"]
    assert after[0]["error"] == "Exit code 3\nhi"
    assert after[1]["tool_input"] == {"file_path": file, "content": "one\ntwo\n"}
    assert after[1]["tool_response"] == {
        "type": "create",
        "filePath": file,
        "content": "one\ntwo\n",
    }
    assert after[2]["tool_response"] == {
        "type": "text",
        "file": {"filePath": file, "content": "one\ntwo", "numLines": 2, "startLine": 1},
    }
    assert after[3]["tool_response"]["oldString"] == "two"
    assert after[4]["hook_event_name"] == "PostToolUseFailure"
    assert after[5]["tool_response"] == "a.txt"


def test_secrets_of_the_environment_are_not_told(tmp_path: Path) -> None:
    one = commanded(tmp_path, on("UserPromptSubmit", keeper(tmp_path)), main=["Yes."])
    ours = {"PATH": os.environ["PATH"], "GITHUB_TOKEN": "x1", "PLAIN": "yes"}
    runtime = one.root.hooks[0].runtime
    one.root.hooks[0].runtime = replace(
        runtime,
        policy=replace(runtime.policy, environment=lambda _: runtime.policy.environment(ours)),
    )
    one.ask("Go!")
    seen = environment(tmp_path)
    assert seen["PLAIN"] == "yes"
    assert "GITHUB_TOKEN" not in seen


@pytest.mark.parametrize(
    ("mode", "there"), [("ask", "default"), ("edits", "acceptEdits"), ("plan", "plan")]
)
def test_modes_have_other_names(tmp_path: Path, mode: Mode, there: str) -> None:
    one = commanded(tmp_path, on("UserPromptSubmit", keeper(tmp_path)), main=["Yes."])
    one.runtime.world.permissions = Permissions(mode=mode)
    one.ask("Go!")
    assert told(tmp_path)[0]["permission_mode"] == there
