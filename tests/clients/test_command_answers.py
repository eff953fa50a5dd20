"""Effects of hook answers in the real Claude Code equal those in Harken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kit import needs, talk
from tests.unit.agents.command_hooks.command_kit import on
from tests.unit.agents.command_hooks.test_output import BEFORE, TEXTS

pytestmark = [pytest.mark.full, needs("claude")]


def talked(folder: Path, section: dict[str, Any], *prompts: str) -> Path:
    """Let the client hold a conversation with these hooks. Return its file."""
    settings = folder / "home" / "work" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"hooks": section}))
    return talk("claude", folder / "home", *prompts)


def result(file: Path) -> dict[str, Any]:
    """Return the only result of a tool."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    contents = [row["message"]["content"] for row in rows if row.get("type") == "user"]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    [tool_result] = [block for block in blocks if block["type"] == "tool_result"]
    assert isinstance(tool_result, dict)
    return tool_result


@pytest.mark.parametrize("case", BEFORE)
def test_pre_tool_use_answers(tmp_path: Path, case: str) -> None:
    line, reason = BEFORE[case]
    tool_result = result(talked(tmp_path, on("PreToolUse", line, "Bash"), "RUNTOOL please"))
    assert tool_result.get("is_error", False) is (reason is not None)
    assert (reason or "tool-output-42") in tool_result["content"]


@pytest.mark.parametrize("case", TEXTS)
def test_user_prompt_submit_answers(tmp_path: Path, case: str) -> None:
    line, expected_text = TEXTS[case]
    talked(tmp_path, on("UserPromptSubmit", line), "hello")
    logs = sorted((tmp_path / "home/logs").glob("*.requests.jsonl"))
    sent_text = "".join(log.read_text() for log in logs)
    assert ("KETTLE-42" in sent_text) is (expected_text is not None)


@pytest.mark.parametrize(("rule", "fits"), [("Bash(echo *)", True), ("Bash(git *)", False)])
def test_stop_condition_answers(tmp_path: Path, rule: str, fits: bool) -> None:
    section = on("PreToolUse", "exit 2", **{"if": rule})
    tool_result = result(talked(tmp_path, section, "RUNTOOL please"))
    assert tool_result.get("is_error", False) is fits


def test_pre_compact_answers_deny_or_add_context(tmp_path: Path) -> None:
    line = 'grep -q \'"custom_instructions":"no"\' && exit 2; echo KETTLE-42'
    talked(tmp_path, on("PreCompact", line), "hello", "/compact no", "/compact yes")
    logs = sorted((tmp_path / "home/logs").glob("*.requests.jsonl"))
    first, blocked, completed = (log.read_text() for log in logs)
    assert blocked == ""
    assert "KETTLE-42" not in first
    assert "yes\\n\\nKETTLE-42" in completed
