"""A killed purge leaves a sound store, and the next one completes it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.session.repair import verify
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN
from tests.forks import processes
from tests.session_kit import create_agent, log_user_message, new_session

KEY = "sk-live-0123456789abcdef"
NOON = "2026-01-31T12:00:00.000000Z"


def filled(home: Path, commits: int) -> CommitId:
    """Create a home with the key in many objects. Return its last commit."""
    (home / "sessions").mkdir(parents=True)
    store, last = SqliteStore(home / "store.db"), None
    for number in range(commits):
        message = Message("user", f"{number}: the key is {KEY}, " + "and so on " * 40)
        last = checkpoint(store, CommitDraft(parent=last, messages=[message], created_at=NOON))
    store.close()
    for number in range(3):
        folder = home / f"s{number}"
        folder.mkdir()
        with new_session(folder) as session:
            agent = create_agent(session)
            for number in range(200):
                log_user_message(session, agent, f"{number}: the key is {KEY}")
        session.path.rename(home / "sessions" / f"{number}.jsonl")
        folder.rmdir()
    assert last is not None
    return last


def purging(home: Path) -> subprocess.Popen[bytes]:
    command = [str(HARKEN), "store", "purge", "--yes", "--home", str(home)]
    nowhere = subprocess.DEVNULL
    process = processes.start(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
    assert process.stdin is not None
    process.stdin.write(KEY.encode())
    process.stdin.close()
    return process


def kills(home: Path, runs: int, seed: int) -> None:
    tip, dice = filled(home, 300), Random(seed)
    for _ in range(runs):
        process = purging(home)
        time.sleep(dice.uniform(0.3, 1.5))
        process.kill()
        process.wait()
        store = SqliteStore(home / "store.db")
        assert fsck(store) == []
        texts = [str(message.content) for message in materialize(store, tip).messages]
        store.close()
        assert len(texts) == 300
        assert all((KEY in text) != ("[purged]" in text) for text in texts)
        for log in (home / "sessions").glob("*.jsonl"):
            assert verify(log) == []
    completed = purging(home)
    assert completed.wait() == 0
    for path in home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    store = SqliteStore(home / "store.db")
    assert all(KEY not in str(message.content) for message in materialize(store, tip).messages)
    assert all(KEY not in stored.notes.summary for stored in store.chain(tip))
    store.close()


def test_killed_purge_leaves_a_sound_store_and_the_next_completes(tmp_path: Path) -> None:
    kills(tmp_path / "home", 3, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_purge_killed_20_times(tmp_path: Path, seed: int) -> None:
    kills(tmp_path / "home", 20, seed)
