"""Settings of Claude Code: what is read, what is noted, what is an error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harken.agents.command_hooks.config import CommandHookConfig, read_hooks, read_settings
from harken.errors import ConfigError

X = {"type": "command", "command": "x"}


def test_settings_say_what_is_run_when(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(
        '{"model": "opus", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": ['
        '{"type": "command", "command": "a b", "timeout": 5, "onFailure": "block"}]}],'
        '"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "c"}]}],'
        '"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "d"}]}]}}'
    )
    found = read_settings(file)
    assert found.notes == ()
    assert found.entries == (
        CommandHookConfig(
            event="PreToolUse", matcher="Bash", command="a b", timeout_s=5, blocks=True
        ),
        CommandHookConfig(event="UserPromptSubmit", command="c", timeout_s=30),
        CommandHookConfig(event="Stop", command="d", timeout_s=600),
    )


def test_what_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "settings.json") == read_hooks({}, "x")


def test_what_has_no_place_here_is_noted() -> None:
    command = {"type": "command", "command": "x"}
    found = read_hooks(
        {
            "CwdChanged": [{"hooks": [command]}],
            "PreToolUse": [
                {"hooks": [{"type": "prompt", "prompt": "Is it right?"}]},
                {"hooks": [{**command, "shell": "powershell"}]},
                {"hooks": [{**command, "asyncRewake": True}]},
                {"hooks": [{**command, "cwd": "/"}]},
            ],
            "Stop": [{"hooks": [{**command, "if": "Bash(git *)"}]}],
        },
        "s.json",
    )
    assert [one.is_async for one in found.entries] == [True, False]
    assert found.notes == (
        "s.json: hooks of 'CwdChanged' are not supported",
        "s.json: a hook of type 'prompt' is not run: only commands are",
        "s.json: a hook for the shell 'powershell' is not run",
        "s.json: asyncRewake of a hook is treated as async: it wakes no agent",
        "s.json: 'cwd' of a hook is not supported and is ignored",
        "s.json: a hook of Stop with `if` is never run",
    )


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        ([], "hooks is not an object"),
        ({"Stop": {}}, "'Stop' is not a list"),
        ({"Stop": ["x"]}, "Stop[0] is not an object"),
        ({"Stop": [{}]}, "'Stop[0].hooks' is not a list"),
        ({"Stop": [{"hooks": ["x"]}]}, "Stop[0].hooks[0] is not an object"),
        (
            {"PreToolUse": [{"matcher": "(", "hooks": [X]}]},
            "PreToolUse hook: '(' is not a valid pattern",
        ),
        ({"PreToolUse": [{"matcher": 5, "hooks": []}]}, "PreToolUse[0].matcher is not a string"),
        (
            {"PreToolUse": [{"hooks": [{**X, "if": "Bash(git"}]}]},
            "'Bash(git' is not a rule such as",
        ),
        ({"PreToolUse": [{"hooks": [{**X, "if": 5}]}]}, "if is not a string"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "command is not a string"),
        ({"Stop": [{"hooks": [{"type": "command", "command": " "}]}]}, "command is empty"),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "\0"}]}]},
            "which a command cannot contain",
        ),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "\ud800"}]}]},
            "which a command cannot contain",
        ),
        ({"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": "5"}]}]}, "timeout"),
        ({"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": -1}]}]}, "timeout"),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "args": "y"}]}]},
            "is not a list",
        ),
    ],
)
def test_what_is_malformed_is_an_error_on_one_line(section: Any, wrong: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_hooks(section, "s.json")
    assert str(error.value).startswith("s.json: hooks: ")
    assert wrong in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_settings_is_an_error(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"settings\.json: (not a JSON object|invalid JSON)"):
        read_settings(file)


def test_a_pipe_is_no_settings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_settings(tmp_path / "settings.json")


def test_who_switched_all_hooks_off_has_none(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"disableAllHooks": true, "hooks": {"Stop": "whatever"}}')
    assert read_settings(file).entries == ()


@pytest.mark.parametrize(
    ("matcher", "name", "fits"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit, Write", "Write", True),
        ("Edit", "MultiEdit", False),
        ("Edit.*", "MultiEdit", True),
        ("^Edit", "MultiEdit", False),
        ("mcp__memory__.*", "mcp__memory__read", True),
        ("mcp__memory", "mcp__memory__read", False),
    ],
)
def test_a_matcher_is_a_name_or_a_pattern(matcher: str, name: str, fits: bool) -> None:
    assert (
        CommandHookConfig(event="PreToolUse", matcher=matcher, command="x").matches([name]) is fits
    )


def test_the_end_of_a_subagent_is_its_own() -> None:
    section = {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}
    [entry] = read_hooks(section, "ann.md", of_subagent=True).entries
    assert entry.event == "SubagentStop"
