"""kill -9 of the process that pushes logs, and of the service that receives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from harken.cli.main import run_cli
from harken.session.session import Session
from harken.session.verify import verify
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from tests.session_kit import create_agent, log_user_message, session_options

ROOT = Path(__file__).parents[2]
KEY = "AKIAQ7WZX5T2MN3BVC4D"


@dataclass
class Children:
    """A process that forks, and its running child, if any."""

    process: subprocess.Popen[str]
    pid: int = 0

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.pid = int(self._line())

    def wait_exited(self) -> bool:
        """Wait until the child has exited by itself. Return False if it was not interrupted."""
        assert self._line() == "ended\n"
        self.pid = 0
        return False

    def kill(self) -> bool:
        """Kill the child. Return whether it was still running."""
        is_running = True
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            is_running = False
        self.wait_exited()
        return is_running

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def children(role: str, folder: Path, socket: Path) -> Iterator[Children]:
    command = [sys.executable, "-m", "tests.crash.ship_child", role, str(folder), str(socket)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        running = Children(process)
        yield running
        if running.pid:
            running.kill()
        assert process.stdin is not None
        process.stdin.close()


def lived_in(home: Path, lines: int) -> Path:
    """Create a home with commits and a credential in them. Return a log with many lines."""
    prompt = f"Let Jack and Jill meet. Use {KEY} in a cafe."
    chat = ["chat", "--home", str(home), "--model", "scripted:demo", "-p"]
    assert run_cli([*chat, prompt]) == 0
    store = SqliteStore(home / "store.db")
    tip = store.newest_commits(1)[0]
    store.close()
    assert run_cli([*chat, "And so on.", "--from-commit", tip]) in (0, 1)
    path = home / "sessions" / "long.jsonl"
    session = Session(path, options=session_options())
    agent = create_agent(session)
    for n in range(lines):
        log_user_message(
            session, agent, f"{n}: use {KEY[:-2]}{n % 90 + 10} " + "and a long story " * 600
        )
    session.close()
    return path


def grow(path: Path) -> None:
    session = Session.load(path, options=session_options())
    log_user_message(session, "agent_001", f"it goes on with {KEY}")
    session.close()


def shipped(home: Path, remote_home: Path, socket: Path) -> dict[str, bytes]:
    """Push all logs without a kill. Return the received logs without temporary files."""
    with (
        children("serve", remote_home, socket) as service,
        children("push", home, socket) as shipper,
    ):
        service.begin()
        shipper.begin()
        shipper.wait_exited()
    return {path.name: path.read_bytes() for path in (remote_home / "sessions").glob("[!.]*")}


def check(remote_home: Path, logs: dict[str, bytes]) -> None:
    """Check that the received data is complete and contains no credential."""
    store = SqliteStore(remote_home / "store.db")
    with closing(store):
        assert fsck(store) == []
        assert store.newest_commits()
        assert not [stored for stored in store.iter_objects() if KEY.encode() in stored.body]
    for name, data in logs.items():
        assert verify(remote_home / "sessions" / name) == []
        assert KEY.encode() not in data
    assert len(logs) == 3
    assert run_cli(["store", "fsck", "--home", str(remote_home)]) == 0


def kills(tmp_path: Path, runs: int, seed: int, lines: int) -> int:
    """Kill both ends repeatedly until a push was interrupted. Return the interruptions."""
    home, remote_home, dice = tmp_path / "home", tmp_path / "there", Random(seed)
    socket = tmp_path / "run" / "s"
    long, cut_count = lived_in(home, lines), 0
    with (
        children("serve", remote_home, socket) as service,
        children("push", home, socket) as shipper,
    ):
        for turn in range(10 * runs):
            if turn >= runs and cut_count:
                break
            if not service.pid:
                service.begin()
            shipper.begin()
            time.sleep(0.6 * dice.random() ** 3)  # mostly early: a fast machine finishes early
            first, second = dice.sample([service, shipper], 2)
            cut_count += first.kill() and first is shipper
            if first is service:
                cut_count += shipper.kill() if dice.random() < 0.5 else shipper.wait_exited()
            elif dice.random() < 0.5:
                second.kill()
            grow(long)
    after = shipped(home, remote_home, socket)
    assert after == shipped(home, tmp_path / "again", socket)
    check(remote_home, after)
    return cut_count


@pytest.mark.req("S3-34")
def test_kill_9_of_both_ends_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert kills(tmp_path, 4, seed=3, lines=120) > 0


@pytest.mark.full
@pytest.mark.req("S3-34")
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_of_both_ends_loses_nothing_200_times(tmp_path: Path, seed: int) -> None:
    assert kills(tmp_path, 20, seed, lines=400) > 0
