"""Agent Trace records of commits: written by `harken git trace`, read by `harken why`."""

from __future__ import annotations

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from harken.attribution.agent_trace import hash_lines, parse_record
from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.ids import AgentId
from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli

AGENT = (Path("s.jsonl"), AgentId("agent_001"))
CTX = "ctx-" + "a1" * 32
TOTAL = "def total(order):\n    return order.price * order.count\n"
HEAD = "import math\nimport string\nimport sys\n"


@pytest.fixture
def repository(cli: Cli) -> Repository:
    return Repository.create(Path.cwd())


@pytest.fixture
def commit(cli: Cli, repository: Repository, tmp_path: Path) -> str:
    """A commit with lines of an agent below those of a person."""
    session = Session(repository).ask("Add a total for orders").write("a.py", TOTAL, "As asked.")
    cli.ok("import", session.save(tmp_path))
    return repository.commit("Add totals", a_py=HEAD + TOTAL)


def record_of(path: str, first: int, last: int, **options: Any) -> dict[str, Any]:
    """Return a record of another tool."""
    contributor = {"type": "ai", "model_id": "openai/gpt-4o"}
    place = {"start_line": first, "end_line": last, **options}
    conversation = {
        "url": "https://example.com/conversations/1",
        "contributor": contributor,
        "ranges": [place],
    }
    return {
        "version": "0.1.0",
        "id": str(uuid.UUID(int=1)),
        "timestamp": "2026-01-23T14:30:00Z",
        "tool": {"name": "cursor", "version": "2.4.0"},
        "files": [{"path": path, "conversations": [conversation]}],
    }


def test_a_record_has_the_ranges_of_the_messages(cli: Cli, commit: str) -> None:
    record = cli.ok("git", "trace").json
    assert record["version"] == "0.1.0"
    assert uuid.UUID(record["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["timestamp"])
    assert record["vcs"] == {"type": "git", "revision": commit}
    assert record["tool"]["name"] == "harken"
    (file,) = record["files"]
    (conversation,) = file["conversations"]
    assert file["path"] == "a.py"
    assert conversation["contributor"] == {
        "type": "ai",
        "model_id": "anthropic/claude-opus-4-5-20251101",
    }
    ctx, _, position = conversation["url"].removeprefix("harken:").partition("#")
    assert ctx.startswith("ctx-")
    assert position.isdigit()
    digest = hash_lines(TOTAL.splitlines())
    assert conversation["ranges"] == [{"start_line": 4, "end_line": 5, "content_hash": digest}]


def test_a_note_answers_where_the_session_is_not_recorded(
    cli: Cli, repository: Repository, commit: str, tmp_path: Path
) -> None:
    record = cli.ok("git", "trace", "--note").json
    other = Session(repository, 2).ask("Unrelated").write("z.py", "unrelated = 1\n")
    home = ("--home", tmp_path / "other")
    cli.ok("import", other.save(tmp_path / "more"), *home)
    (row,) = cli.ok("why", "a.py:5", "--json", *home).json
    assert (row["by"], row["edit"]) == ("author", None)
    assert row["record"]["trace"] == {
        "contributor": "ai",
        "model": "anthropic/claude-opus-4-5-20251101",
        "url": record["files"][0]["conversations"][0]["url"],
        "tool": "harken",
    }
    assert "(Agent Trace of harken)" in cli.ok("why", "a.py:5", *home).out
    (row,) = cli.ok("why", "a.py:1", "--json", *home).json
    assert row["record"] is None


def test_a_record_without_lines_is_not_stored(
    cli: Cli, repository: Repository, commit: str
) -> None:
    repository.commit("Person", b_py="typed = 'by hand'\n")
    assert cli.ok("git", "trace", "--note").json["files"] == []
    assert "agent-trace" not in repository.git("for-each-ref")


@pytest.mark.parametrize(
    ("options", "is_read"),
    [
        ({}, True),
        ({"content_hash": hash_lines(["import math"])}, True),
        ({"content_hash": hash_lines(["import os"])}, False),
        ({"content_hash": "murmur3:9f2e8a1b"}, True),
    ],
)
def test_records_of_other_tools_are_read(
    cli: Cli, repository: Repository, commit: str, options: dict[str, str], is_read: bool
) -> None:
    record = record_of("a.py", 1, 1, **options)
    record["vcs"] = {"type": "git", "revision": commit}
    broken = ["{", "[]", json.dumps({**record, "files": 1}), "\x00"]
    lines = "\n".join([*broken, json.dumps(record)])
    repository.write(".agent-trace/traces.jsonl", lines)
    (row,) = cli.ok("why", "a.py:1", "--json").json
    assert row["by"] == "author"
    assert (row["record"] is not None) == is_read
    if is_read:
        assert row["record"]["trace"]["tool"] == "cursor"
        assert "trace   ai, openai/gpt-4o, https://example.com" in cli.ok("why", "a.py:1").out


def test_a_hostile_record_is_ignored_or_shown_without_its_escapes(
    cli: Cli, repository: Repository, commit: str
) -> None:
    record = record_of("a.py", 1, 1)
    record["vcs"] = {"type": "git", "revision": commit}
    record["tool"]["name"] = "\x1b]0;owned\x07"
    repository.write(".agent-trace/traces.jsonl", json.dumps(record))
    assert "\x1b" not in cli.ok("why", "a.py:1").out
    for first in (0, -1, 1 << 40, "1", None):
        assert parse_record(json.dumps(record_of("a.py", 1, 1, start_line=first)).encode()) == []
    assert parse_record(b"[" * 100_000) == []


def test_the_hooks_record_the_context_and_the_messages_of_a_commit(
    cli: Cli, repository: Repository, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("git", "install")
    sockets = ContextSocketServer()
    try:
        sockets.settle(AGENT, CTX)
        monkeypatch.setenv(VARIABLE, str(sockets.path(AGENT)))
        repository.git("commit", "-q", "--amend", "-m", "Amended")
    finally:
        sockets.close()
    (row,) = cli.ok("why", "a.py:1", "--json").json
    assert row["record"]["contexts"] == [CTX]
    assert f"context {CTX[:16]} made the commit" in cli.ok("why", "a.py:1").out
    until = time.monotonic() + 60
    while "agent-trace" not in repository.git("for-each-ref"):
        assert time.monotonic() < until
        time.sleep(0.1)
    note = json.loads(repository.git("notes", "--ref=agent-trace", "show"))
    (conversation,) = note["files"][0]["conversations"]
    assert [item["start_line"] for item in conversation["ranges"]] == [4]
