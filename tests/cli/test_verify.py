"""`harken verify`: what a client sends is what was materialized; the exit code tells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.kit import Cli
from tests.toy_clients import Manner, install
from tests.unit.formats.transcript_kit import Transcript, text_block, thinking_block, tool_use_block

SESSION = "5e551011-0000-4000-8000-000000000001"


@pytest.fixture
def talk(cli: Cli, tmp_path: Path) -> None:
    made = Transcript(SESSION)
    made.user("Is the cafe open?")
    made.answer(
        thinking_block("I should look."),
        text_block("I look."),
        tool_use_block("t1", where="inside"),
    )
    made.result("t1", "It is open.")
    made.answer(text_block("Yes."))
    path = tmp_path / "talk.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)


def having(cli: Cli, tmp_path: Path, runtime: str, manner: Manner = "faithful") -> Cli:
    """Return the command line of who has a toy client."""
    programs = install(tmp_path / "bin", runtime, manner)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    cli.environ = {"PATH": path, "ANTHROPIC_API_KEY": "sk-secret", "HOME": str(tmp_path)}
    return cli


@pytest.mark.usefixtures("talk")
def test_the_same_is_told_message_by_message(cli: Cli, tmp_path: Path) -> None:
    ran = having(cli, tmp_path, "codex").ok("verify", SESSION, "--client", "codex")
    lines = ran.out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["same", "1", "user"],
        ["same", "2", "assistant"],
    ]
    assert "Is the cafe open?" in lines[0]
    assert lines[-1] == "same: Codex sends the materialized context (4 messages)"
    assert "skipped: thinking: not part of the dialog" in ran.out


@pytest.mark.usefixtures("talk")
def test_a_difference_is_shown_and_the_exit_code_tells(cli: Cli, tmp_path: Path) -> None:
    having(cli, tmp_path, "claude", "forgetful")
    ran = cli("verify", SESSION, "--client", "claude")
    assert ran.code == 1
    assert "missing     2 assistant  I should look. I look." in ran.out
    assert "different: 1 message of 4 messages, in Claude Code" in ran.out
    row = cli("verify", SESSION, "--client", "claude", "--json").json
    assert (row["same"], row["client"], row["message"]) == (False, "claude", 4)
    assert [one["state"] for one in row["messages"]] == ["same", "missing", "same", "same"]
    assert {item["place"] for item in row["lost"]} == {1}
    assert (row["reordered"], row["omitted_by_client"]) == ([], [])


@pytest.mark.usefixtures("talk")
def test_what_was_sent_can_be_kept_to_look_at(cli: Cli, tmp_path: Path) -> None:
    having(cli, tmp_path, "claude")
    kept = tmp_path / "kept"
    ran = cli.ok("verify", SESSION, "--client", "claude", "--keep", kept, "--at", "1")
    assert "(1 message)" in ran.out
    sent = json.loads((kept / "sent.json").read_text())
    assert json.loads((kept / "expected.json").read_text()) == sent[:-1]
    (file,) = kept.glob("home/.claude/projects/*/*.jsonl")
    assert b"Is the cafe open?" in file.read_bytes()
    assert b"sk-secret" not in (kept / "home" / "called.json").read_bytes()
    assert f"{kept} exists; choose another folder" in cli.refused(
        "verify", SESSION, "--client", "claude", "--keep", kept
    )


@pytest.mark.usefixtures("talk")
def test_what_cannot_be_seen_is_an_error_in_one_line(cli: Cli, tmp_path: Path) -> None:
    having(cli, tmp_path, "pi", "deaf")
    assert "I do not hear you." in cli.refused("verify", SESSION, "--client", "pi")
    assert "npm install -g" in cli.refused(
        "verify", SESSION, "--client", "gemini", "--home", cli.home
    )
    assert "not found" in cli.refused("verify", SESSION, "--client", "pi", "--at", "99")


@pytest.mark.usefixtures("talk")
def test_nothing_is_left_behind(cli: Cli, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*.jsonl"))
    having(cli, tmp_path, "claude").ok("verify", SESSION, "--client", "claude")
    assert sorted(tmp_path.rglob("*.jsonl")) == before
