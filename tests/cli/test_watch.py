"""`harken watch`: what is told of files that grow, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.unit.formats.transcript_kit import Transcript, text_block


@pytest.fixture
def session() -> Transcript:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text_block("It is."))
    return made


@pytest.fixture
def path(tmp_path: Path, session: Transcript) -> Path:
    made = tmp_path / "projects" / "-cafe" / "a.jsonl"
    made.parent.mkdir(parents=True)
    made.write_bytes(session.data)
    return made


def test_once_takes_in_what_is_new_and_tells_it(cli: Cli, path: Path, session: Transcript) -> None:
    first = cli.ok("watch", "--once", path.parent).out
    assert first.count("\n") == 1
    assert first.endswith("  Is the cafe open?: It is.\n")
    assert cli.ok("watch", "--once", path.parent).out == ""
    session.user("Since when?")
    session.answer(text_block("Since eight."))
    path.write_bytes(session.data)
    (row,) = [
        json.loads(line) for line in cli.ok("watch", "--once", "--json", path).out.splitlines()
    ]
    assert (row["agent"], row["summary"], row["source"]) == ("main", "Since eight.", str(path))
    assert "Since when?" in cli.ok("ctx", "cat", row["ctx"]).out
    assert "0 new commits" in cli.ok("import", path).out


def test_of_many_commits_the_last_are_told(cli: Cli, path: Path, session: Transcript) -> None:
    for at in range(20):
        session.user(f"{at}?")
        session.answer(text_block(f"{at}."))
    path.write_bytes(session.data)
    lines = cli.ok("watch", "--once", path.parent).out.splitlines()
    assert len(lines) == 11
    assert lines[0].split(maxsplit=4)[:4] == ["11", "commits", "before,", "of"]
    assert lines[0].endswith(" of Is the cafe open?")
    assert lines[-1].endswith("19.")


def test_only_the_files_of_a_runtime_are_followed_where_that_is_asked(cli: Cli, path: Path) -> None:
    assert cli.ok("watch", "--once", "--runtime", "copilot", path.parent).out == ""
    assert cli.ok("watch", "--once", "--runtime", "claude", path.parent).out != ""
    assert "supported runtimes: claude" in cli.refused("watch", "--once", "--runtime", "nobody")
    assert "no such file" in cli.refused("watch", "--once", path / "nowhere")


def test_what_is_told_cannot_harm_the_terminal(cli: Cli, path: Path, session: Transcript) -> None:
    session.user("x")
    session.answer(text_block("\x1b]0;owned\x07 done"))
    path.write_bytes(session.data)
    out = cli.ok("watch", "--once", path).out
    assert "\x1b" not in out
    assert "done" in out


def test_it_follows_what_is_written_and_an_interrupt_ends_it(
    path: Path, session: Transcript, tmp_path: Path
) -> None:
    config = {"CLAUDE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    process = processes.start(
        [HARKEN, "watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **config, "HARKEN_HOME": str(tmp_path / "h"), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"Watching; Ctrl-C ends it.\n"
    assert b"It is." in process.stdout.readline()
    session.user("Since when?")
    data = session.data
    session.answer(text_block("Since eight."))
    path.write_bytes(data + session.data[len(data) : -5])  # a last line without its end
    time.sleep(0.2)
    path.write_bytes(session.data)
    assert b"Since eight." in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, b"", b"")
