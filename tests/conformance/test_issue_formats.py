"""Formats of issue trackers pass the conformance suite; GitHub's in the form that gh writes."""

from __future__ import annotations

import json
from typing import Any

from harken.store.memory import MemoryStore
from harken.testing.issues import IssueSuite
from harken.tickets.change import TicketChange
from harken.tickets.exchange import IssueFormat, export_issues, import_issues
from harken.tickets.github import GitHubIssues
from tests.unit.tickets.kit import open_tickets

RECORD: dict[str, Any] = {
    "assignees": [{"id": "MDQ6", "login": "bob", "name": "Bob"}],
    "author": {"id": "MDQ6VX", "is_bot": False, "login": "ann", "name": "Ann"},
    "body": "It leaks.\r\n\r\nSince noon.",
    "comments": [
        {
            "id": "IC_kw",
            "author": {"login": "bob"},
            "authorAssociation": "OWNER",
            "body": "The seal is broken.",
            "createdAt": "2026-01-31T13:00:00Z",
            "reactionGroups": [],
        }
    ],
    "createdAt": "2026-01-31T12:00:00Z",
    "labels": [
        {"id": "LA_1", "name": "bug", "description": "", "color": "d73a4a"},
        {"id": "LA_2", "name": "P1", "description": "", "color": "ffffff"},
    ],
    "milestone": None,
    "number": 12,
    "state": "OPEN",
    "title": "Repair the kettle",
    "url": "https://github.com/ann/tea/issues/12",
}


class TestGitHub(IssueSuite):
    def format(self) -> IssueFormat:
        return GitHubIssues()

    def sample(self) -> bytes:
        return json.dumps([RECORD, {**RECORD, "number": 13, "author": None}]).encode()


def test_fields_of_an_issue_become_fields_of_a_ticket() -> None:
    tickets = open_tickets()
    issues = GitHubIssues().read(json.dumps(RECORD).encode())
    assert GitHubIssues().find_project(issues[0]) == "ann/tea"
    [id_] = import_issues(tickets, issues, tracker="github:ann/tea").created
    ticket = tickets.get(id_)
    state = ticket.state
    assert (state.title, state.type, state.priority) == ("Repair the kettle", "bug", 1)
    assert (state.assignee, state.labels) == ("bob", ("P1", "bug"))
    assert (ticket.created.author, ticket.created.time) == ("ann", "2026-01-31T12:00:00.000000Z")
    assert state.origin is not None
    assert (state.origin.key, state.origin.url) == ("12", RECORD["url"])
    notes = [(v.author, v.time, v.note) for _, v in tickets.history(id_) if v.note]
    assert notes == [("bob", "2026-01-31T13:00:00.000000Z", "The seal is broken.")]


def test_the_next_import_updates_what_changed_and_keeps_local_fields() -> None:
    tickets = open_tickets()
    [id_] = import_issues(
        tickets, GitHubIssues().read(json.dumps(RECORD).encode()), tracker="g:a"
    ).created
    blocker = tickets.create("Buy a seal")
    tickets.update(id_, TicketChange(status="in_progress", add_blockers=(blocker.id,)))
    comment = {"author": {"login": "ann"}, "body": "Bought.", "createdAt": "2026-02-01T00:00:00Z"}
    changed = {**RECORD, "title": "Mend it", "comments": [*RECORD["comments"], comment]}
    result = import_issues(
        tickets, GitHubIssues().read(json.dumps(changed).encode()), tracker="g:a"
    )
    assert (result.created, result.updated) == ([], [id_])
    state = tickets.get(id_).state
    assert (state.title, state.status, state.blocked_by) == (
        "Mend it",
        "in_progress",
        (blocker.id,),
    )
    notes = [version.note for _, version in tickets.history(id_) if version.note]
    assert notes == ["The seal is broken.", "Bought."]
    closed = {**changed, "state": "CLOSED"}
    import_issues(tickets, GitHubIssues().read(json.dumps(closed).encode()), tracker="g:a")
    assert tickets.get(id_).is_closed


def test_tickets_without_an_origin_are_exported_with_labels_for_their_fields() -> None:
    store = MemoryStore()
    tickets = open_tickets(store)
    tickets.create("Plan", TicketChange(priority=0, type="epic", status="review"), note="a note")
    [issue] = export_issues(store, tickets.list_tickets())
    assert (issue.key, issue.labels) == ("1", ("P0", "epic", "status:review"))
    [record] = json.loads(GitHubIssues().write([issue]))
    assert (record["number"], record["state"], record["comments"][0]["body"]) == (
        1,
        "OPEN",
        "a note",
    )
    copy = open_tickets()
    import_issues(copy, [issue], tracker="github:x/y")
    state = copy.list_tickets()[0].state
    assert (state.priority, state.type, state.status) == (0, "epic", "review")
