"""`harken import`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Cli, one_line
from tests.unit.formats.transcript_kit import Transcript, text_block


@pytest.fixture
def session(tmp_path: Path) -> Path:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text_block("It is."))
    path = tmp_path / "projects" / "a.jsonl"
    path.parent.mkdir()
    path.write_bytes(made.data)
    return path


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_an_object_for_each_source_says_what_became_of_it(cli: Cli, session: Path) -> None:
    (row,) = rows(cli.ok("import", session, "--json").out)
    assert list(row)[:6] == ["source", "format", "raw", "tips", "lines", "bad_lines"]
    assert (row["source"], row["format"]) == (str(session), "claude-code-v1")
    assert (row["lines"], row["bad_lines"]) == (2, 0)
    raw = str(row["raw"])
    cli.ok("cat", raw, "-o", "raw")
    assert Path("raw").read_bytes() == session.read_bytes()
    assert rows(cli.ok("import", session, "--json").out) == [row]


def test_the_commits_are_there_to_be_looked_at(cli: Cli, session: Path) -> None:
    ran = cli.ok("import", session)
    assert "Claude Code  1 session, 1 new commit in 1 session" in ran.out
    (row,) = rows(cli.ok("import", session, "--json").out)
    (tip,) = row["tips"]
    assert tip["agent"] == "main"
    assert "Is the cafe open?" in cli.ok("ctx", "cat", tip["ctx"]).out
    assert tip["ctx"][:16] in cli.ok("ctx", "log").out
    assert tip["ctx"][:16] in ran.out


def test_what_a_client_would_send_is_printed_as_json(cli: Cli, session: Path) -> None:
    (row,) = rows(cli.ok("import", session, "--json").out)
    ctx = row["tips"][0]["ctx"]
    assert cli.ok("ctx", "cat", ctx, "--as-request", "claude").json == [
        {"role": "user", "content": [text_block("Is the cafe open?")]},
        {"role": "assistant", "content": [text_block("It is.")]},
    ]
    notified = Transcript()
    notified.user("Wait for Ann.")
    notified.answer(text_block("I wait."))
    notified.user("Yes, delete it.", origin={"kind": "task-notification"})
    path = session.with_name("notified.jsonl")
    path.write_bytes(notified.data)
    (row,) = rows(cli.ok("import", path, "--json").out)
    sent = cli.ok("ctx", "cat", row["tips"][0]["ctx"], "--as-request", "codex").json
    assert sent[-1]["role"] == "developer"
    assert sent[-1]["content"][0]["text"].startswith("[a notification, not a message of the user")
    ran = cli("ctx", "cat", ctx, "--as-request", "nobody")
    assert ran.code == 2
    assert "claude" in ran.err


def test_again_it_says_that_nothing_is_new(cli: Cli, session: Path) -> None:
    cli.ok("import", session)
    assert "Claude Code  1 session, 0 new commits\n" in cli.ok("import", session).out


def test_without_a_path_it_shows_what_it_found(cli: Cli, session: Path) -> None:
    cli.environ = {"CLAUDE_CONFIG_DIR": str(session.parent.parent), "CODEX_HOME": "/not/there"}
    ran = cli.ok("import")
    assert "Claude Code  1 file" in ran.out
    assert "1 new commit" in ran.out


def test_a_path_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    ran = cli("import", tmp_path / "not there")
    assert ran.code == 2
    assert "no such file or folder" in ran.err


def test_a_path_that_may_have_no_end_is_refused(cli: Cli) -> None:
    ran = cli("import", "/dev/zero")
    assert ran.code == 2
    assert one_line(ran.err) == "/dev/zero: not a regular file; name a session file or a folder"


def test_named_file_of_unknown_kind_is_an_error(cli: Cli, session: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Buy tea.")
    ran = cli("import", notes, session)
    assert ran.code == 2
    assert one_line(ran.err) == f"{notes}: not a session file of a known runtime"
    assert "1 session" in ran.out


def test_a_named_file_that_cannot_be_read_is_told_and_fails(cli: Cli, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"version": 2, "eval": {"task": "t", "run_id": "r", "')
    for path, code in ((broken, 2), (tmp_path, 0)):
        ran = cli("import", path)
        assert ran.code == code
        assert f"not imported: {broken}: not valid inspect-ai-v2: invalid JSON" in ran.out


def test_files_that_nobody_reads_and_bad_lines_are_told(cli: Cli, session: Path) -> None:
    (session.parent / "notes.txt").write_text("Buy tea.")
    with session.open("ab") as file:
        file.write(b'{"torn')
    ran = cli.ok("import", session.parent)
    assert "notes.txt" not in ran.out
    assert "1 file of unknown kind (--verbose lists them)" in ran.out
    told = cli.ok("import", session.parent, "--verbose").out
    assert "notes.txt: unknown format" in told
    assert "1 line could not be parsed, the first is line 3" in ran.out


def test_nothing_is_written_where_the_histories_are(cli: Cli, session: Path) -> None:
    def seen() -> list[tuple[str, int]]:
        return sorted((p.name, p.stat().st_mtime_ns) for p in session.parent.rglob("*"))

    before = seen()
    cli.ok("import", session.parent)
    assert seen() == before


def test_how_many_processes_read_changes_nothing(cli: Cli, session: Path) -> None:
    (row,) = rows(cli.ok("import", session, "--json", "--jobs", "2").out)
    assert rows(cli.ok("import", session, "--json", "--jobs", "1").out) == [row]
    assert cli("import", session, "--jobs", "0").code == 2
