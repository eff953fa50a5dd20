"""Hook scripts as people write them for Claude Code run here as they are."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from harken.chat.open import open_chat
from harken.chat.options import ChatOptions
from harken.config.home import Home
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion
from tests.cli.kit import Cli
from tests.mcp_kit import TOY

FIXTURES = Path(__file__).parents[1] / "fixtures" / "claude-hooks"


@pytest.fixture
def project(cli: Cli, tmp_path: Path) -> Path:
    """A trusted project with the scripts where people keep them."""
    folder = tmp_path / "here"
    hooks = folder / ".claude/hooks"
    hooks.parent.mkdir()
    shutil.copytree(FIXTURES, hooks)
    (hooks / "settings.json").rename(hooks.parent / "settings.json")
    (folder / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"toy": {"command": sys.executable, "args": [str(TOY)]}}})
    )
    cli.ok("trust")
    return folder


def acting(tmp_path: Path, *calls: dict[str, Any]) -> str:
    """Return the name of a model that makes these calls, one after the other, and is done then."""
    rules = [{"agent": "main", "turn": at, "calls": [one]} for at, one in enumerate(calls, 1)]
    rules += [{"answer": "Done."}]
    path = tmp_path / "model.yaml"
    path.write_text(json.dumps({"rules": rules}))
    return f"scripted:{path}"


def chat(cli: Cli, model: str) -> list[dict[str, Any]]:
    """Let an agent work; return the log."""
    ran = cli.ok("chat", "--model", model, "--claude-hooks", "--permission", "all", "-p", "Go!")
    assert ran.out.endswith("Done.\n"), ran
    assert "hook claude-hooks failed" not in ran.err
    [log] = cli.sessions()
    return [json.loads(line) for line in log.read_text().splitlines()]


def results(rows: list[dict[str, Any]]) -> list[str]:
    return [row["content"] for row in rows if row.get("role") == "tool"]


def heard(rows: list[dict[str, Any]]) -> list[str]:
    said = [row["content"] for row in rows if row.get("role") == "user"]
    return [text for text in said if text.startswith("[hook claude-hooks]")]


def test_a_guard_blocks_what_it_knows(cli: Cli, tmp_path: Path, project: Path) -> None:
    (project / ".env").write_text("KEY=1")
    (project / "build").mkdir()
    model = acting(
        tmp_path,
        {"bash": {"command": "cd . && rm -rf build"}},
        {"read": {"path": "./sub/../.env"}},
        {"bash": {"command": "rmdir build"}},
    )
    deleted, read, done = results(chat(cli, model))
    assert "delete files one by one" in deleted
    assert "secrets stay where they are" in read
    assert done.startswith("exit code 0")


def test_a_formatter_runs_after_an_edit_and_who_changed_something_tests_it(
    cli: Cli, tmp_path: Path, project: Path
) -> None:
    (project / "Makefile").write_text("test:\n\t@echo tested\n")
    model = acting(
        tmp_path,
        {"write": {"path": "a.txt", "content": "one  \ntwo\n"}},
        {"read": {"path": "a.txt"}},
        {"edit": {"path": "a.txt", "old_string": "two", "new_string": "2 "}},
    )
    rows = chat(cli, model)
    assert (project / "a.txt").read_text() == "one\n2\n"
    assert any("You changed files: run `make test` first." in text for text in heard(rows))


def test_who_has_tested_may_stop(cli: Cli, tmp_path: Path, project: Path) -> None:
    (project / "Makefile").write_text("test:\n\t@echo tested\n")
    write = {"write": {"path": "a.txt", "content": "one\n"}}
    rows = chat(cli, acting(tmp_path, write, {"bash": {"command": "make test"}}))
    assert not any("You changed files" in text for text in heard(rows))


def test_prompts_and_tools_are_logged_by_the_names_that_scripts_know(
    cli: Cli, tmp_path: Path, project: Path
) -> None:
    (project / "a.txt").write_text("one\n")
    model = acting(
        tmp_path,
        {"bash": {"command": "make test", "timeout_s": 5}},
        {"read": {"path": "a.txt"}},
        {"glob": {"pattern": "*.txt"}},
        {"grep": {"pattern": "one"}},
        {"fetch": {"url": "http://127.0.0.1:9/"}},
        {"task": {"name": "Ann", "instructions": "You are Ann.", "prompt": "Hi."}},
        {"mcp__toy__echo": {"text": "tea"}},
    )
    rows = chat(cli, model)
    [folder] = (project / "logs").iterdir()
    assert json.loads((folder / "prompts.jsonl").read_text()) == {
        "prompt": "Go!",
        "mode": "bypassPermissions",
    }
    assert heard(rows)[0].endswith("Branch: main, 0 files changed")
    assert (folder / "tools.txt").read_text().splitlines() == [
        "Bash command timeout",
        "Read file_path",
        "Glob pattern",
        "Grep pattern",
        "WebFetch url",
        "Agent description prompt subagent_type",
        "mcp__toy__echo text",
    ]


class Somebody:
    """A user who allows everything."""

    async def ask(self, asked: UserQuestion) -> str:
        return "yes"

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(allowed=True)


def test_a_notifier_calls_the_user(cli: Cli, tmp_path: Path, project: Path) -> None:
    wish = ChatOptions(model=acting(tmp_path, {"bash": {"command": "true"}}), claude_hooks=True)
    opened = open_chat(Home(str(cli.home)), wish, user=Somebody())
    with opened:
        assert str(asyncio.run(opened.primary.response("Go!"))) == "Done."
    message = "Claude needs your permission to use Bash"
    assert (project / "logs/rung").read_text() == message
    [told] = json.loads((project / "logs/notification.json").read_text())
    assert (told["message"], told["notification_type"]) == (message, "permission_prompt")
