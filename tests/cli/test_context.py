"""What programs that an agent runs are told by `harken context current`, and what chats need."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.ids import AgentId
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, Cli, start
from tests.forks import processes

AGENT = (Path("s.jsonl"), AgentId("agent_001"))
CTX = "ctx-" + "a1" * 32


@pytest.mark.req("S2-39", "S2-40")
def test_the_commit_is_printed_by_its_full_name_and_without_a_socket_nothing(cli: Cli) -> None:
    sockets = ContextSocketServer()
    try:
        sockets.settle(AGENT, CTX)
        cli.environ[VARIABLE] = str(sockets.path(AGENT))
        assert cli.ok("context", "current").out == f"{CTX}\n"
        sockets.settle(AGENT, "")
        assert cli.ok("context", "current").out == ""
    finally:
        sockets.close()
    assert cli.ok("context", "current").out == ""
    for nowhere in ("", "/nowhere"):
        cli.environ[VARIABLE] = nowhere
        ran = cli.ok("context", "current")
        assert (ran.out, ran.err) == ("", "")


@pytest.mark.req("S2-40", "S2-41", "S2-39")
def test_a_command_of_a_chat_learns_which_commit_it_was_called_at(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "asking.yaml"
    ask = f"{sys.executable} -m harken context current > out; stat -c %a ${{{VARIABLE}%/*}} >> out"
    script.write_text(
        "rules:\n"
        f"  - {{pattern: go, calls: [{{bash: {{command: '{ask}'}}}}]}}\n"
        "  - {pattern: '.*', answer: Done.}\n"
    )
    cli.ok("chat", "--model", f"scripted:{script}", "--permission", "all", "-p", "go")
    said, mode = Path("out").read_text().split()
    commits = cli.ok("ctx", "log", "--json").json
    assert said == commits[-1]["id"]
    assert commits[-1]["checkpoint"] == "turn_boundary"
    assert mode == "700"
    run = cli.home / "run"
    assert not run.exists() or list(run.iterdir()) == []


@pytest.mark.full
def test_a_program_knows_its_commit_in_a_tenth_of_a_second(tmp_path: Path) -> None:
    sockets = ContextSocketServer()
    sockets.settle(AGENT, CTX)
    environ = {**os.environ, VARIABLE: str(sockets.path(AGENT))}
    try:
        seconds = []
        for _ in range(5):
            began = time.monotonic()
            ran = processes.run(
                [HARKEN, "context", "current"], env=environ, capture_output=True, check=True
            )
            seconds.append(time.monotonic() - began)
            assert ran.stdout.decode() == f"{CTX}\n"
    finally:
        sockets.close()
    assert min(seconds) < 0.5  # a tenth on a machine that does nothing else


def damaged(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\0" + b"x" * 5000)


def something_else(file: Path) -> None:
    file.write_text("my notes")


def too_new(file: Path) -> None:
    SqliteStore(file).close()
    data = bytearray(file.read_bytes())
    data[60:64] = (999).to_bytes(4, "big")  # SQLite's user_version
    file.write_bytes(data)


@pytest.mark.parametrize("spoil", [damaged, something_else, too_new])
def test_a_store_that_cannot_be_used_stops_no_chat(
    cli: Cli, script: str, spoil: Callable[[Path], None]
) -> None:
    cli.home.mkdir(mode=0o700)
    spoil(cli.home / "store.db")
    before = (cli.home / "store.db").read_bytes()
    ran = cli.ok("chat", "--model", script, "-p", "hello")
    assert ran.out == "Hi there.\n"
    [told] = [line for line in ran.err.splitlines() if "Commits are disabled" in line]
    assert "store.db" in told
    assert (cli.home / "store.db").read_bytes() == before
    assert cli.ok("chat", "--continue", "-p", "hello").out == "Hi there.\n"
    assert "store.db" in cli.refused(
        "chat", "--model", script, "--from-commit", "ctx-12", "-p", "hello"
    )


def test_what_began_with_a_commit_cannot_go_on_without_its_store(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [commit, *_] = cli.ok("ctx", "log", "--json").json
    cli.ok("chat", "--model", script, "--from-commit", commit["id"], "-p", "hello")
    (cli.home / "store.db").rename(cli.home / "kept.db")
    something_else(cli.home / "store.db")
    assert "store.db" in cli.refused("chat", "--continue", "-p", "hello")
    (cli.home / "kept.db").replace(cli.home / "store.db")
    assert cli.ok("chat", "--continue", "-p", "hello").out == "Hi there.\n"


@pytest.mark.req("S2-28")
def test_what_was_said_without_a_store_is_committed_when_there_is_one(
    cli: Cli, script: str
) -> None:
    cli.home.mkdir(mode=0o700)
    something_else(cli.home / "store.db")
    cli.ok("chat", "--model", script, "-p", "hello")
    (cli.home / "store.db").unlink()
    cli.ok("chat", "--continue", "-p", "hello")
    commits = cli.ok("ctx", "log", "--json").json
    assert [row["checkpoint"] for row in commits] == ["turn_boundary", "session_end"]


def test_the_folder_of_sockets_is_only_for_its_owner(cli: Cli, tmp_path: Path) -> None:
    short = Path("/tmp") / f"h{os.getpid()}"
    script = tmp_path / "looking.yaml"
    script.write_text(
        "rules:\n"
        f"  - {{pattern: go, calls: [{{bash: {{command: 'echo ${VARIABLE} > out'}}}}]}}\n"
        "  - {pattern: '.*', answer: Done.}\n"
    )
    try:
        chat = ["chat", "--model", f"scripted:{script}", "--permission", "all", "-p", "go"]
        assert start(short, *chat).returncode == 0
        path = Path(Path("out").read_text().strip())
        assert path.is_relative_to(short / "run")
        assert not path.parent.exists()
        assert stat.S_IMODE((short / "run").stat().st_mode) == 0o700
    finally:
        subprocess.run(["rm", "-rf", short], check=True)
