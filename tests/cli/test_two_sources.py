"""A conversation that passes the proxy, is written to a file and printed is one session."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.cli.main import run_cli
from tests.cli.kit import HARKEN
from tests.forks import processes
from tests.toy_claude import FILE, SESSION, install, serve_model

NAME = f"claude:{SESSION}"
LOG = "rec-claude-code-5e551011"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model() as url:
        yield url


class Desk:
    """A home with the toy client, and the command line."""

    def __init__(self, folder: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.model, self._capsys = folder, model, capsys
        self.file = folder / FILE
        path = f"{install(folder / 'bin')}:{HARKEN.parent}:{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
        self.environ = {
            **kept,
            "PATH": path,
            "HOME": str(folder),
            "HARKEN_HOME": str(folder / "harken"),
            "HARKEN_PRINCIPAL": "alice",
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "none",
        }

    def run(self, *command: str) -> str:
        """Run a command that works. Return its output."""
        result = processes.run(
            command,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result
        self.err = result.stderr
        return str(result.stdout)

    def harken(self, *words: str) -> str:
        """Run Harken, in this process if it starts no other one."""
        if words[0] == "proxy":
            return self.run(str(HARKEN), *words)
        self._capsys.readouterr()
        code = run_cli([*words], self.environ)
        output, self.err = self._capsys.readouterr()
        assert code == 0, self.err
        return output

    def json(self, *words: str) -> Any:
        return json.loads(self.harken(*words, "--json"))

    def check(self, responses: int) -> None:
        """Check that there is one session with so many responses."""
        [row] = self.json("sessions")
        assert (row["session"], row["logs"], row["sources"]) == (NAME, [LOG], [str(self.file)])
        stats = self.json("stats")
        [session] = stats["sessions"]
        assert (session["session"], session["responses"]) == (NAME, responses)
        usage = stats["usage"]
        assert (usage["responses"], usage["input_tokens"]) == (responses, 100 * responses)
        assert stats["amplification"]["tool_calls"] == responses // 2
        assert stats["amplification"]["prompts"] == responses // 2


@pytest.fixture
def desk(
    tmp_path: Path,
    model: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    desk = Desk(tmp_path, model, capsys)
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "HARKEN_HOME", "HARKEN_PRINCIPAL"):
        monkeypatch.setenv(name, desk.environ[name])
    return desk


def test_a_recorded_and_imported_conversation_is_one_session(desk: Desk) -> None:
    desk.harken("proxy", "--", "claude", "-p", "Is the kettle on?")
    assert [row["session"] for row in desk.json("sessions")] == [NAME]
    desk.harken("import", str(desk.file))
    desk.check(2)
    desk.harken("proxy", "--", "claude", "-p", "And the tea?")
    desk.harken("import", str(desk.file))
    desk.check(4)
    assert "recorded, imported" in desk.harken("sessions")


def test_a_conversation_that_is_imported_before_it_is_recorded_is_one_session(desk: Desk) -> None:
    desk.run("claude", "-p", "Is the kettle on?")
    desk.harken("import", str(desk.file))
    [session] = desk.json("stats")["sessions"]
    assert (session["session"], session["responses"]) == (NAME, 2)
    desk.harken("proxy", "--", "claude", "-p", "And the tea?")
    [session] = desk.json("stats")["sessions"]
    assert (session["session"], session["responses"]) == (NAME, 4)
    desk.harken("import", str(desk.file))
    [session] = desk.json("stats")["sessions"]
    assert (session["session"], session["responses"], session["prompts"]) == (NAME, 4, 2)
    assert desk.json("stats")["usage"]["responses"] == 4


def test_every_name_shows_the_session(desk: Desk) -> None:
    desk.harken("proxy", "--", "claude", "-p", "Is the kettle on?")
    desk.harken("import", str(desk.file))
    shown = {name: desk.harken("view", name, "raw") for name in (LOG, NAME, SESSION, NAME[:15])}
    assert len({*shown.values()}) == 1
    assert "llm_request" in shown[NAME]
    assert f"Recorded as {LOG}; `" in desk.err
    assert f"view {desk.file}" in desk.err
    file_events = desk.harken("view", str(desk.file), "raw")
    assert "You are Claude Code." in shown[NAME]
    assert "You are Claude Code." not in file_events
    [hit] = desk.json("search", "ready")["hits"]
    assert hit["session"] == NAME
    assert desk.harken("view", NAME) == desk.harken("view", LOG)
    for name in (LOG, NAME):
        assert [row["session"]["session"] for row in [desk.json("stats", name)]] == [NAME]


def test_both_commits_of_the_session_are_resumed(desk: Desk) -> None:
    desk.harken("proxy", "--", "claude", "-p", "Is the kettle on?")
    desk.harken("import", str(desk.file))
    recorded = desk.harken("ctx", "cat", LOG)
    imported = desk.harken("ctx", "cat", NAME)
    assert "You are Claude Code." in recorded
    assert "You are Claude Code." not in imported
    for name in (LOG, NAME, str(desk.file)):
        command = desk.harken("resume", name, "--client", "claude", "--print")
        assert "claude --resume" in command
        assert desk.harken("export", name, "--format", "messages-v1")


def test_a_live_run_through_the_proxy_is_one_session(desk: Desk) -> None:
    desk.harken("proxy", "--", "harken", "run", "--", "claude", "-p", "Is the kettle on?")
    desk.check(2)
    [session] = desk.json("stats")["sessions"]
    assert session["outcome"] == "success"


def test_a_live_run_without_a_file_is_one_session(desk: Desk) -> None:
    arguments = ["-p", "Is the kettle on?", "--no-session-persistence"]
    desk.harken("proxy", "--", "harken", "run", "--", "claude", *arguments)
    [row] = desk.json("sessions")
    assert (row["session"], row["logs"]) == (NAME, [LOG])
    stats = desk.json("stats")
    [session] = stats["sessions"]
    assert (session["responses"], session["prompts"], session["tool_calls"]) == (2, 1, 1)
    assert (stats["usage"]["responses"], stats["usage"]["input_tokens"]) == (2, 200)
