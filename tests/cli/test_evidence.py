"""How a request is known: a context that was rebuilt is never shown as one that was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Cli
from tests.unit.formats.native_kit import encode_lines
from tests.unit.formats.runtimes.codex.test_reader import (
    CALL,
    DONE,
    META,
    OUTPUT,
    THOUGHT,
    USER,
    item,
    line,
)
from tests.unit.formats.sent_requests_kit import build_transcript
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

NAME = "claude:5e551011"


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Cli:
    """`harken` after a session of Claude Code was imported."""
    transcript = Transcript()
    transcript.user("Which tea?")
    transcript.answer(tool_use_block("c1", "Look", at="shelf"))
    transcript.result("c1", "Green.")
    transcript.answer(text_block("Green tea."))
    folder = tmp_path / "projects"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(transcript.data)
    cli.ok("import", folder)
    return cli


@pytest.fixture
def recorded(cli: Cli, script: str) -> Cli:
    """`harken` after a chat, whose requests Harken made itself."""
    cli.ok("chat", "--model", script, "-p", "make Ann")
    return cli


def replay(cli: Cli, session: str) -> list[dict[str, Any]]:
    lines = cli.ok("replay", session, "--json", "--context").out.splitlines()
    return [json.loads(line) for line in lines]


def test_context_of_a_transcript_is_rebuilt_and_not_verified(imported: Cli) -> None:
    view = imported.ok("view", NAME, "context", "main", "--json").json
    assert (view["evidence"], view["verified"]) == ("rebuilt", False)
    assert view["missing"] == ["messages", "system", "tools", "parameters"]
    lines = imported.ok("view", NAME, "context", "main").out.splitlines()
    assert lines[1].startswith("Rebuilt from a transcript, not recorded; unknown: ")
    assert lines[-1] == "system prompt: unknown; tools: unknown; parameters: unknown"
    assert "none" not in lines[-1]
    assert not any("hash" in line for line in lines)


def test_context_of_harkens_own_agent_is_recorded_and_verified(recorded: Cli) -> None:
    view = recorded.ok("view", "latest", "context", "main", "--json").json
    assert (view["evidence"], view["verified"], "missing" in view) == ("recorded", True, False)
    text = recorded.ok("view", "latest", "context", "main").out
    assert "unknown" not in text
    assert "Rebuilt" not in text


def test_replay_says_how_each_request_is_known(imported: Cli) -> None:
    rows = replay(imported, NAME)
    assert {(row["evidence"], row["verified"], row["tools"]) for row in rows} == {
        ("rebuilt", False, None)
    }
    text = imported.ok("replay", NAME, "--context").out
    assert " · rebuilt" in text
    assert "Rebuilt from a transcript, not recorded" in text


def test_replay_of_harkens_own_session_is_verified(recorded: Cli) -> None:
    rows = replay(recorded, "latest")
    assert {(row["evidence"], row["verified"]) for row in rows} == {("recorded", True)}
    assert "recorded" not in recorded.ok("replay", "latest").out


def test_interactions_say_how_each_request_is_known(imported: Cli, tmp_path: Path) -> None:
    out = imported.ok("interactions", "show", NAME, "--json").out
    rows = [json.loads(line) for line in out.splitlines()]
    requests = [row for row in rows if row["eventType"] == "LLM_REQUEST"]
    assert [row["evidence"] for row in requests] == ["rebuilt", "rebuilt"]
    assert imported.ok("interactions", "show", NAME).out.count("(rebuilt)") == 2
    imported.ok("interactions", "export", NAME, tmp_path / "out")
    index = json.loads((tmp_path / "out/index.json").read_bytes())
    (thread,) = index["threads"]
    assert thread["evidence"] == "rebuilt"
    lines = (tmp_path / "out/threads" / thread["file"]).read_text().splitlines()
    exported = [json.loads(line) for line in lines]
    assert [row.get("evidence") for row in exported] == [row.get("evidence") for row in rows]


def test_exported_evidence_is_imported_again(imported: Cli, tmp_path: Path) -> None:
    imported.ok("interactions", "export", NAME, tmp_path / "out")
    imported.ok("interactions", "import", tmp_path / "out")
    threads = imported.ok("interactions", "list", "--json").json
    assert [thread["evidence"] for thread in threads] == ["rebuilt", "rebuilt"]
    view = imported.ok("view", imported.sessions()[0], "context", "agent_001", "--json").json
    assert (view["evidence"], view["verified"]) == ("rebuilt", False)
    assert "tools" in view["missing"]


def test_imported_session_is_shown_with_its_recorded_tools(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(build_transcript())
    cli.ok("import", tmp_path / "a.jsonl")
    lines = cli.ok("view", "claude:5e551011", "context", "main").out.splitlines()
    assert lines[1] == "Rebuilt from a transcript, not recorded."
    assert lines[-1] == (
        "system prompt: 1 block, with --json in full; tools: Look; parameters: max_tokens=8"
    )


@pytest.fixture
def imported_codex(cli: Cli, tmp_path: Path) -> Cli:
    """`harken` after a session of Codex was imported, whose rollout states its turns."""
    (tmp_path / "rollout-1.jsonl").write_bytes(encode_lines(*TURNS))
    cli.ok("import", tmp_path / "rollout-1.jsonl")
    return cli


TURNS = [
    line(
        "session_meta",
        {**META, "originator": "codex-tui", "base_instructions": {"text": "Be brief."}},
    ),
    line("turn_context", {"model": "gpt-x", "cwd": "/w", "effort": "high", "summary": "auto"}),
    item(USER, 1),
    item(THOUGHT, 2),
    item(CALL, 2),
    item(OUTPUT, 3),
    item(DONE, 4),
]


def test_context_of_codex_has_the_parts_that_its_rollout_determines(imported_codex: Cli) -> None:
    name = f"codex:{META['id'][:8]}"
    view = imported_codex.ok("view", name, "context", "main", "--json").json
    assert (view["evidence"], view["verified"]) == ("rebuilt", False)
    assert view["missing"] == ["tools", "parameters"]
    reasoning = {"effort": "high", "summary": "auto"}
    include = ["reasoning.encrypted_content"]
    assert view["parameters"] == {"include": include, "reasoning": reasoning}
    lines = imported_codex.ok("view", name, "context", "main").out.splitlines()
    assert lines[1] == ("Rebuilt from a transcript, not recorded; unknown: its tools, parameters.")
    assert lines[-1].startswith("tools: unknown; parameters: ")
    assert lines[-1].endswith(", others unknown")
    rows = replay(imported_codex, name)
    assert [row["missing"] for row in rows] == [["tools", "parameters"]] * 2
