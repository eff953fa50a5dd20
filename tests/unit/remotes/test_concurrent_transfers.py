"""Several homes push and pull at once, and sessions are written meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.remotes.mirror import open_mirror
from harken.session.session import Session
from harken.session.verify import verify
from harken.store.fsck import fsck
from harken.tickets.check import check_tickets
from harken.tickets.tracker import Tickets
from tests.remote_kit import Machine, read_state, serve_home
from tests.session_kit import create_agent, log_user_message, session_options


def work(folder: Path, url: str, number: int, rounds: int) -> None:
    """Change a home and push it again and again, while a session of it is being written."""
    machine = Machine(folder)
    session = Session(machine.sessions / f"live-{number}.jsonl", options=session_options())
    agent = create_agent(session)
    tickets = Tickets(machine.store, f"author-{number}")
    parent: CommitId | None = None
    for turn in range(rounds):
        log_user_message(session, agent, f"turn {turn}")
        parent = machine.commit(f"{number} {turn}", parent=parent, second=turn)
        for id_ in [*machine.store.heads("tkt-")][:2]:
            tickets.note(id_, f"note {number} {turn}")
        tickets.create(f"Ticket {number} {turn}")
        machine.push(url)
        machine.pull(url)
    session.close()
    machine.close()


def test_homes_that_push_and_pull_at_once_lose_nothing(tmp_path: Path) -> None:
    homes, rounds = 3, 4
    folders = [tmp_path / f"home-{number}" for number in range(homes)]
    with serve_home(tmp_path / "there") as server:
        with ThreadPoolExecutor(homes) as pool:
            jobs = [
                pool.submit(work, folder, server.url, number, rounds)
                for number, folder in enumerate(folders)
            ]
        for job in jobs:
            job.result()
        machines = [Machine(folder) for folder in folders]
        for _ in range(homes + 1):
            for machine in machines:
                machine.pull(server.url)
                machine.push(server.url)
        states = [read_state(machine.store, machine.sessions) for machine in machines]
        there = read_state(server.store, server.folder / "sessions")
        for state in states:
            assert state["tickets"] == there["tickets"]
            assert state["commits"] == there["commits"]
            assert state["logs"] == there["logs"]
        assert len(there["commits"]) == homes * rounds
        assert len(there["tickets"]) == homes * rounds
        assert len(there["logs"]) == homes
        for machine in machines:
            assert fsck(machine.store) == []
            assert check_tickets(machine.store) == []
            notes = {
                version.note
                for id_ in machine.store.heads("tkt-")
                for _, version in Tickets(machine.store, "x").history(id_)
            }
            assert {f"note {n} {t}" for n in range(homes) for t in range(1, rounds)} <= notes
            assert all(verify(log) == [] for log in machine.sessions.glob("*.jsonl"))
            machine.close()


def test_a_session_that_is_written_here_is_not_touched(tmp_path: Path) -> None:
    alice, bob = Machine(tmp_path / "alice"), Machine(tmp_path / "bob")
    with serve_home(tmp_path / "there") as server:
        alice.log("s", "1")
        alice.push(server.url)
        bob.pull(server.url)
        alice.log("s", "2")
        alice.push(server.url)
        session = Session.load(bob.sessions / "s.jsonl", options=session_options())
        before = (bob.sessions / "s.jsonl").read_bytes()
        result = bob.pull(server.url)
        assert [log.relation for log in result.problems] == ["skipped"]
        assert "being written here" in result.problems[0].reason
        assert (bob.sessions / "s.jsonl").read_bytes() == before
        session.close()
        assert bob.pull(server.url).new_logs[0].lines == 1
    alice.close()
    bob.close()


def test_one_process_at_a_time_uses_a_mirror(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home")
    with (
        serve_home(tmp_path / "there") as server,
        open_mirror(machine.folder / "remotes" / "origin"),
        pytest.raises(ConfigError, match="already pushing to or pulling from origin"),
    ):
        machine.pull(server.url)
    machine.close()


@pytest.mark.parametrize("damage", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_mirror_is_made_again(tmp_path: Path, damage: bytes) -> None:
    machine = Machine(tmp_path / "home")
    with serve_home(tmp_path / "there") as server:
        machine.commit("1")
        machine.push(server.url)
        (machine.folder / "remotes" / "origin" / "mirror.db").write_bytes(damage)
        assert machine.pull(server.url).is_up_to_date
        assert machine.push(server.url).is_up_to_date
        machine.commit("2")
        assert machine.push(server.url).commits == 1
    machine.close()


def test_a_remote_that_lost_commits_gets_them_again(tmp_path: Path) -> None:
    """A service that was restored from an old backup does not have the cursor."""
    machine = Machine(tmp_path / "home")
    parent = machine.commit("1")
    with serve_home(tmp_path / "there") as server:
        machine.push(server.url)
        for number in range(3):
            parent = machine.commit(f"later {number}", parent=parent)
        machine.push(server.url)
    with serve_home(tmp_path / "restored") as server:
        machine.push(server.url)
        assert (
            read_state(server.store, machine.sessions)["commits"]
            == (read_state(machine.store, machine.sessions)["commits"])
        )
    machine.close()
