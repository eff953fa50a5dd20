"""A reviewer, its script and a change, and the commands of a review."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harken.core.commits import CommitId, TicketId
from harken.store.base import StoredCommit
from harken.store.sqlite.store import SqliteStore
from harken.tickets.ticket import TicketVersion
from harken.tickets.tracker import Tickets

DIFF = """\
--- a/parse.py
+++ b/parse.py
@@ -1,2 +1,2 @@
 def parse(text):
-    return text.splitlines()
+    return text.split("\\n")[:-1]
"""
FIRST, SECOND = "It drops the last line", "It splits at one kind of line end"
SCRIPT = f"""\
rules:
  - pattern: '^Review the ticket'
    calls: [{{read_change: {{}}}}]
  - pattern: 'text.splitlines'
    calls:
      - file_finding: {{title: {FIRST}, body: "parse.py:2", priority: 1}}
      - file_finding: {{title: {SECOND}}}
  - pattern: 'is filed'
    calls: [{{conclude_review: {{disposition: changes_requested, summary: Two findings.}}}}]
  - pattern: 'your review of'
    answer: I filed two findings.
  - pattern: 'what do you mean'
    answer: A text without a final line end loses its last line.
  - pattern: 'and which'
    answer: All but the first.
  - pattern: '(?s)closed.*not really.*Check'
    calls: [{{verify_finding: {{verdict: reopen, note: It is still there.}}}}]
  - pattern: 'Check whether it is resolved'
    calls: [{{verify_finding: {{verdict: accept, note: Seen.}}}}]
  - pattern: 'is accepted'
    answer: Accepted.
  - pattern: 'is open again'
    answer: Opened again.
  - pattern: '^Work on the ticket'
    answer: Done.
  - pattern: 'is in progress again'
    answer: I am on it.
"""
TEMPLATE = """\
---
tools: [read]
permission: plan
---
You are {name}, a careful reviewer.
"""


def write_reviewer(home: Path, name: str = "rita") -> None:
    """Write the template of a reviewer."""
    (home / "agents").mkdir(parents=True, exist_ok=True)
    (home / "agents" / f"{name}.md").write_text(TEMPLATE.format(name=name))


def write_script(folder: Path, text: str = SCRIPT) -> str:
    """Write a script and a diff into a folder, and return the name of the model."""
    script = folder / "review.yaml"
    script.write_text(text)
    (folder / "change.diff").write_text(DIFF)
    return f"scripted:{script}"


@contextmanager
def open_home_tickets(home: Path) -> Iterator[Tickets]:
    """Open the tickets of a home, as a reader."""
    store = SqliteStore(home / "store.db")
    try:
        yield Tickets(store, "reader")
    finally:
        store.close()


def find_ticket(home: Path, title: str) -> TicketId:
    """Return the ticket with this title."""
    with open_home_tickets(home) as tickets:
        [id_] = [ticket.id for ticket in tickets.list_tickets() if ticket.state.title == title]
        return id_


def read_history(home: Path, ticket: TicketId) -> list[TicketVersion]:
    """Return the versions of a ticket, oldest first."""
    with open_home_tickets(home) as tickets:
        return [version for _, version in tickets.history(ticket)]


def read_chain(home: Path, commit: str) -> list[StoredCommit]:
    """Return a commit and its ancestors, newest first."""
    with open_home_tickets(home) as tickets:
        return tickets.store.chain(CommitId(commit))


def read_messages(home: Path, commit: StoredCommit) -> list[tuple[str, str]]:
    """Return the roles and texts of the messages that a commit adds."""
    from harken.context.message_reader import read_entry_messages
    from harken.core.messages import text_of

    with open_home_tickets(home) as tickets:
        artifact = commit.commit.artifact
        entries = tickets.store.deltas([artifact])[artifact]
        messages = read_entry_messages(tickets.store, entries)
    return [(message.role, text_of(message.content)) for message in messages]


def count_actions(home: Path, ticket: TicketId) -> dict[str, int]:
    """Return the number of versions of a ticket by action."""
    actions = [version.action for version in read_history(home, ticket)]
    return {action: actions.count(action) for action in sorted(set(actions))}


def parse_json(text: str) -> Any:
    """Return a JSON value."""
    return json.loads(text)
