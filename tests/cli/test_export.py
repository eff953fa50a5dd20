"""`harken export` and `harken cat`: conversations and bytes for others."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from harken.cli.commands.cat import pieces_of
from harken.context.checkpoint import CommitDraft, checkpoint
from harken.core.commits import hash_raw
from harken.core.messages import Message
from harken.formats import events_v1
from harken.formats.registry import FORMATS
from harken.store.base import WriteBatch
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, Cli, start
from tests.forks import processes
from tests.unit.formats.transcript_kit import (
    Transcript,
    read_transcript,
    text_block,
    thinking_block,
    tool_use_block,
)

NOON = "2026-01-31T12:00:00.000000Z"


@pytest.fixture
def talked(cli: Cli, script: str) -> Cli:
    """`harken` after a chat."""
    cli.ok("chat", "--model", script, "-p", "hello")
    return cli


def last(cli: Cli) -> str:
    name: str = cli.ok("ctx", "log", "--json", "-n", "1").json[0]["id"]
    return name


def commit_raw(cli: Cli, data: bytes, format: str) -> str:
    """Commit bytes on top of the last commit."""
    parent = last(cli)
    store = SqliteStore(cli.home / "store.db")
    store.write(WriteBatch(raw={hash_raw(data): data}))
    (found,) = store.names_with_prefix(parent)
    draft = CommitDraft(artifact=hash_raw(data), parent=found, format=format, created_at=NOON)  # type: ignore[arg-type]
    name = checkpoint(store, draft)
    store.close()
    return name


@pytest.mark.req("S2-59")
def test_a_conversation_is_told(talked: Cli) -> None:
    ran = talked.ok("export", last(talked))
    assert "## User" in ran.out
    assert "```\nHi there.\n```" in ran.out
    assert ran.err == "narrative-v1: 3 messages (tier 3, rendered)\n"
    assert talked.ok("export", last(talked)).out == ran.out


@pytest.mark.req("S2-52", "S2-61")
def test_its_events_are_written_to_a_file_or_a_pipe(talked: Cli, tmp_path: Path) -> None:
    file = tmp_path / "talk.cbor"
    ran = talked.ok("export", last(talked), "--format", "events", "-o", file)
    assert (ran.out, ran.err) == ("", "events-v1: 3 messages (tier 1, native)\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [event.type for event in events_v1.decode_events(file.read_bytes())] == [
        "system",
        "prompt",
        "response",
    ]
    piped = start(talked.home, "export", last(talked), "--format", "events-v1")
    assert piped.stdout == file.read_bytes()
    assert list(tmp_path.glob(".*.part")) == []


def test_a_request_is_taken_out_with_other_tools(talked: Cli) -> None:
    ran = talked.ok("export", last(talked), "--format", "messages-v1")
    assert json.loads(ran.out)["anthropic"]["messages"][0]["content"][0]["text"] == "hello"


def test_the_formats_are_listed(cli: Cli) -> None:
    lines = cli.ok("export", "--format", "list").out.splitlines()
    assert lines == sorted(lines)
    for line in (
        ["claude-code-v1", "application/jsonl", "read", "and", "written"],
        ["events-v1", "application/cbor", "read", "and", "written"],
        ["messages-v1", "application/json", "read", "and", "written"],
        ["narrative-v1", "text/markdown", "written"],
        ["pi-v3", "application/jsonl", "read", "and", "written"],
    ):
        assert line in [line.split() for line in lines]


@pytest.mark.req("S2-56")
@pytest.mark.parametrize(
    "format", ["claude-code-v1", "codex-v1", "gemini-cli-v1", "opencode-v1", "pi-v3"]
)
def test_a_conversation_of_an_agent_becomes_a_session_of_another_runtime(
    talked: Cli, format: str
) -> None:
    ran = talked.ok("export", last(talked), "--format", format)
    assert ran.err == f"{format}: 3 messages (tier 3, rendered)\n"
    found = FORMATS.find(format)
    assert found.reads
    asked, heard = found.reads(ran.out.encode())[-2:]
    assert (asked.message, heard.message) == (
        Message("user", "hello"),
        Message("assistant", "Hi there."),
    )
    assert talked.ok("export", last(talked), "--format", format).out == ran.out


@pytest.mark.req("S2-54")
def test_a_transcript_that_was_imported_is_written_again(cli: Cli, tmp_path: Path) -> None:
    made = Transcript()
    made.user("Is somebody at the door?")
    made.answer(thinking_block("Hm."), text_block("I look."), tool_use_block("c1"))
    made.result("c1", "Nobody.")
    made.answer(text_block("Nobody."))
    file = tmp_path / "a.jsonl"
    file.write_bytes(made.data)
    tip = cli.ok("import", file, "--json").json["tips"][0]["ctx"]
    written = cli.ok("export", tip, "--format", "claude-code-v1").out.encode()
    again, once = read_transcript(written), read_transcript(made)
    assert again.entries() == once.entries()
    assert [r.get("uuid") for r in map(json.loads, written.splitlines())] == [
        record["uuid"] for record in made.records
    ]


def test_what_cannot_be_exported_is_said(talked: Cli, tmp_path: Path) -> None:
    name = last(talked)
    assert "messages-v1" in talked.refused("export", name, "--format", "cobol")
    nobody = "ctx-" + 64 * "0"
    assert f"commit '{nobody}'" in talked.refused("export", nobody)
    assert "no commit given" in talked.refused("export")
    assert "No such file" in talked.refused("export", name, "-o", tmp_path / "no" / "file")
    assert "ancestor commit" in talked.refused(
        "export", name, "--stop", commit_raw(talked, b"", "x-v1")
    )


@pytest.mark.req("S2-60")
def test_what_nobody_can_read_is_shown_as_it_is(talked: Cli) -> None:
    data = b'{"a": "transcript"}\x1b[2J'
    name = commit_raw(talked, data, "codex-v9")
    ran = talked.ok("export", name, "--format", "messages-v1")
    assert ran.err == "raw-v1: 3 messages (tier 4, raw)\n"
    assert '{"a": "transcript"}\\x1b[2J' in ran.out
    assert hash_raw(data) in ran.out
    assert start(talked.home, "cat", hash_raw(data)[:16]).stdout == data
    assert "codex-v9" in talked.ok("ctx", "cat", name).out


def test_a_delta_is_its_json(talked: Cli) -> None:
    artifact = talked.ok("ctx", "show", last(talked), "--json").json["artifact"]
    entries = json.loads(talked.ok("cat", artifact).out)
    assert [set(entry) for entry in entries] == [{"message", "occurrence", "time"}] * len(entries)
    refusal = talked.refused("cat", "art-" + 64 * "0")
    assert artifact[:16] in refusal
    assert "ctx-" not in refusal
    assert "harken export" in talked.refused("cat", last(talked))


def test_nothing_but_a_file_is_replaced(talked: Cli, tmp_path: Path) -> None:
    name = last(talked)
    said = talked.ok("export", name).out
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for file in ("pipe", "link"):
        talked.ok("export", name, "-o", tmp_path / file)
    assert os.read(reader, 1 << 20).decode() == said
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == said


def test_what_is_large_is_printed_piece_by_piece(talked: Cli) -> None:
    pieces = [bytes([at]) * 1000 for at in range(5)]
    refs = [hash_raw(piece) for piece in pieces]
    with closing(SqliteStore(talked.home / "store.db")) as store:
        whole = hash_raw(b"".join(pieces))
        store.write(WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={whole: refs}))
        assert list(pieces_of(store, whole)) == pieces
    assert start(talked.home, "cat", whole).stdout == b"".join(pieces)


def test_an_output_that_is_closed_is_written_nothing(talked: Cli) -> None:
    for command in (["ctx", "log"], ["export", last(talked)], ["ctx", "log", "--graph"]):
        words = ["sh", "-c", '"$@" >&-', "sh", str(HARKEN), *command]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (ran.returncode, "bug" in ran.stderr) == (0, False), ran


def shown(home: Path, *arguments: str) -> tuple[int, str]:
    """Run `harken` at a terminal; return the exit code and what the terminal was sent."""
    ours, theirs = pty.openpty()
    with processes.start(
        [HARKEN, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "HARKEN_HOME": str(home)},
    ) as child:
        os.close(theirs)
        found = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # how Linux says that the other side is closed
                break
            if not data:
                break
            found += data
    os.close(ours)
    return child.returncode, found.decode()


def test_a_terminal_is_sent_no_bytes_but_harmless_text(talked: Cli) -> None:
    raw = commit_raw(talked, b"\x1b[2J\x00", "codex-v9")
    code, text = shown(talked.home, "export", raw, "--format", "events")
    assert code == 0, text  # it is raw, which is text
    assert "\x1b" not in text
    code, text = shown(talked.home, "cat", hash_raw(b"\x1b[2J\x00"))
    assert (code, text.count("\n")) == (2, 1)
    assert "-o FILE" in text
