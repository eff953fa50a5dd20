"""The eight steps of a review by real processes, each killed, with a move to another home.

Source of the steps: the event-driven lifecycle of agent contexts. No agent runs between them.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harken.core.commits import TicketId
from harken.store.sqlite.store import SqliteStore
from harken.tickets.change import TicketChange
from harken.tickets.ticket import TicketVersion
from harken.tickets.tracker import Tickets
from tests.cli.kit import HARKEN
from tests.cli.review_kit import (
    FIRST,
    SECOND,
    find_ticket,
    open_home_tickets,
    read_chain,
    read_history,
    read_messages,
    write_reviewer,
)
from tests.forks import processes

TITLE = "Rewrite the parser"
WAIT_S = 600.0
CONFIG = """\
[start.work]
event = "ready"
template = "coder"

[start.returned]
event = "in_progress"
"""
SCRIPT = """\
rules:
  - pattern: '^Work on the ticket'
    calls: [{{ticket_update: {{ticket: {ticket}, status: review}}}}]
  - pattern: '\\[review\\] Rewrite'
    answer: It is ready for a review.
  - pattern: '^Review the ticket'
    calls:
      - file_finding: {{title: {first}}}
      - file_finding: {{title: {second}}}
  - pattern: 'is filed'
    calls: [{{conclude_review: {{disposition: changes_requested}}}}]
  - pattern: 'your review of'
    answer: I filed two findings.
  - pattern: 'is in progress again'
    calls: [{{ticket_note: {{ticket: {finding}, text: "what do you mean?"}}}}]
  - pattern: '^{finding} \\[open\\]'
    answer: I asked the reviewer.
  - pattern: 'what do you mean'
    answer: A text without a final line end loses its last line.
  - pattern: 'Check whether it is resolved'
    calls: [{{verify_finding: {{verdict: accept}}}}]
  - pattern: 'is accepted'
    answer: Accepted.
"""


@dataclass
class Watched:
    """A home whose watchers are killed."""

    home: Path
    folder: Path
    script: str = ""

    def write(self, text: str, slow: str = "") -> list[str]:
        """Write the script; a rule with the text `slow` takes ten minutes. Return its options."""
        if slow:
            assert text.count(slow) == 1, slow
            text = text.replace(slow, f"{slow}\n    delay_s: 600")
        path = self.folder / ("slow.yaml" if slow else "fast.yaml")
        path.write_text(text)
        return ["--model", f"scripted:{path}", "--permission", "all"]

    @contextmanager
    def open_tickets(self, author: str) -> Iterator[Tickets]:
        """Open the tickets of the home for an author."""
        store = SqliteStore(self.home / "store.db")
        try:
            yield Tickets(store, author)
        finally:
            store.close()

    def kill_at(self, slow: str, reached: Callable[[], bool]) -> None:
        """Kill a watcher as soon as it waits for the model in the rule `slow`."""
        words = ["agents", "watch", *self.write(self.script, slow), "--home", str(self.home)]
        log = self.folder / "watch.err"
        with (
            log.open("wb") as err,
            processes.start(
                [HARKEN, *words], cwd=self.folder, stderr=err, stdout=subprocess.DEVNULL
            ) as process,
        ):
            try:
                self._wait(process, reached, log)
            finally:
                process.kill()

    def _wait(
        self, process: subprocess.Popen[bytes], reached: Callable[[], bool], log: Path
    ) -> None:
        ends = time.monotonic() + WAIT_S
        while not reached():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < ends, log.read_text()
            assert " failed" not in log.read_text(), log.read_text()
            time.sleep(0.3)

    def watch_once(self, *words: str) -> None:
        """Run all that is due, to its end."""
        words = ("agents", "watch", "--once", *self.write(self.script), *words)
        ran = processes.run(
            [HARKEN, *words, "--home", str(self.home)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran

    def starts(self, ticket: TicketId) -> list[TicketVersion]:
        """Return the versions of a ticket that record a start or its end."""
        return [version for version in read_history(self.home, ticket) if version.start]

    def waits_in(self, ticket: TicketId, condition: str, requests: int) -> Callable[[], bool]:
        """Return whether the last start of a ticket waits for this answer of its model."""

        def is_reached() -> bool:
            records = self.starts(ticket)
            if not records or records[-1].start is None or records[-1].action == "finish":
                return False
            start = records[-1].start
            log = self.home / "sessions" / f"{start.session}.jsonl"
            text = log.read_text() if log.exists() else ""
            count = text.count('"event_type":"llm_request"')
            return start.condition == condition and count == requests

        return is_reached


def check_last_start(watched: Watched, ticket: TicketId, principal: str, note: str) -> None:
    """Check that the last start of a ticket was recorded once and has ended."""
    last = watched.starts(ticket)[-1]
    assert (last.action, last.author, last.note) == ("finish", principal, note)
    assert last.start is not None
    records = [v.action for v in watched.starts(ticket) if v.start and v.start.id == last.start.id]
    assert records == ["start", "finish"]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    home, folder = tmp_path / "first", tmp_path / "here"
    folder.mkdir()
    for name in ("rita", "coder"):
        write_reviewer(home, name)
    coder = home / "agents" / "coder.md"
    coder.write_text("You are the coder.")
    (home / "config.toml").write_text(CONFIG)
    return Watched(home, folder)


@pytest.mark.req("S2-47", "S2-49", "S2-50", "S2-51")
def test_the_steps_of_a_review_survive_kills_between_all_of_them_and_a_move(
    watched: Watched,
) -> None:
    ticket = _work(watched)
    first, second = _review(watched, ticket)
    _ask(watched, ticket, first)
    watched = _move(watched, first)
    _verify(watched, ticket, first, second)
    _check_all(watched, [ticket, first, second])


def _work(watched: Watched) -> TicketId:
    """Steps 1 and 2: the author works on the ticket, sets it to `review`, and ends."""
    with watched.open_tickets("pm") as tickets:
        ticket = tickets.create(TITLE).id
    watched.script = SCRIPT.format(ticket=ticket, first=FIRST, second=SECOND, finding="tkt-0")
    watched.kill_at("answer: It is ready for a review.", watched.waits_in(ticket, "work", 2))
    state = read_history(watched.home, ticket)[-1].ticket
    assert (state.status, state.assignee) == ("review", "coder")
    watched.watch_once()
    check_last_start(watched, ticket, "coder", "It is ready for a review.")
    return ticket


def _review(watched: Watched, ticket: TicketId) -> tuple[TicketId, TicketId]:
    """Steps 3 and 4: a reviewer is assigned; it files findings with its context."""
    with watched.open_tickets("pm") as tickets:
        tickets.update(ticket, TicketChange(add_reviewers=("rita",)))
    slow = "calls: [{conclude_review: {disposition: changes_requested}}]"
    watched.kill_at(slow, watched.waits_in(ticket, "review", 2))
    watched.watch_once()
    check_last_start(watched, ticket, "rita", "I filed two findings.")
    first, second = find_ticket(watched.home, FIRST), find_ticket(watched.home, SECOND)
    contexts = {read_history(watched.home, finding)[0].context_id for finding in (first, second)}
    assert len(contexts) == 1
    assert contexts != {""}
    return first, second


def _ask(watched: Watched, ticket: TicketId, first: TicketId) -> None:
    """Steps 5 and 6: the author continues, and asks; the watcher of the reviewer is killed."""
    finding = first[:16]
    watched.script = SCRIPT.format(ticket=ticket, first=FIRST, second=SECOND, finding=finding)
    worked = watched.starts(ticket)[1].context_id
    with watched.open_tickets("pm") as tickets:
        tickets.update(ticket, TicketChange(status="in_progress"))
    slow = "answer: A text without a final line end loses its last line."
    watched.kill_at(slow, watched.waits_in(first, "discussion", 1))
    returned = watched.starts(ticket)[-1]
    assert (returned.action, returned.note) == ("finish", "I asked the reviewer.")
    assert worked in [stored.id for stored in read_chain(watched.home, returned.context_id)]


def _move(watched: Watched, first: TicketId) -> Watched:
    """Move the store to another home, where the reviewer answers."""
    moved = Watched(watched.folder.parent / "second", watched.folder, watched.script)
    moved.home.mkdir()
    for name in ("store.db", "store.db-wal", "config.toml", "agents"):
        if (watched.home / name).exists():
            (watched.home / name).rename(moved.home / name)
    shutil.rmtree(watched.home)
    moved.watch_once()
    assert moved.starts(first)[-1].action == "start", "the first home may be alive"
    moved.watch_once("--take-over", "0s")
    last = moved.starts(first)[-1]
    assert (last.action, last.note) == (
        "finish",
        "A text without a final line end loses its last line.",
    )
    thread = [s for s in read_chain(moved.home, last.context_id) if s.commit.thread_id == first]
    texts = [text for stored in thread for _, text in read_messages(moved.home, stored)]
    assert len(thread) == 2
    assert sum("what do you mean?" in text for text in texts) == 1, "it is asked once"
    assert thread[-1].commit.parent == read_history(moved.home, first)[0].context_id
    return moved


def _verify(watched: Watched, ticket: TicketId, first: TicketId, second: TicketId) -> None:
    """Steps 7 and 8: the findings are closed and verified, the review is approved."""
    tip = watched.starts(first)[-1].context_id
    with watched.open_tickets("coder") as tickets:
        tickets.close(first, note="kept it")
    watched.kill_at("answer: Accepted.", watched.waits_in(first, "verification", 2))
    watched.watch_once()
    check_last_start(watched, first, "rita", "Accepted.")
    verified = watched.starts(first)[-1].context_id
    assert tip in [stored.id for stored in read_chain(watched.home, verified)]
    with watched.open_tickets("coder") as tickets:
        tickets.close(second, note="all of them")
    watched.watch_once()
    assert read_history(watched.home, ticket)[-1].ticket.reviewers == {"rita": "approved"}
    with watched.open_tickets("pm") as tickets:
        tickets.close(ticket, note="approved")


def _check_all(watched: Watched, tickets: list[TicketId]) -> None:
    """Check that each start has ended once, and that there is no other ticket."""
    starts = [version for ticket in tickets for version in watched.starts(ticket)]
    ended = Counter(v.start.id for v in starts if v.start and v.action == "finish")
    assert {*ended.values()} == {1}
    assert {v.start.id for v in starts if v.start} == {*ended}
    assert sorted(v.start.condition for v in starts if v.start and v.action == "finish") == [
        *("discussion", "returned", "review", "verification", "verification", "work")
    ]
    with open_home_tickets(watched.home) as reader:
        assert {ticket.id for ticket in reader.list_tickets()} == {*tickets}
