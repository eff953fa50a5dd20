"""Conformance tests of formats of issue trackers (`harken.tickets.exchange.IssueFormat`)."""

from __future__ import annotations

from harken.errors import FormatError
from harken.store.memory import MemoryStore
from harken.testing.store_kit import refused
from harken.tickets.exchange import Issue, IssueComment, IssueFormat, export_issues, import_issues
from harken.tickets.tracker import Tickets

_NOON = "2026-01-31T12:00:00.000000Z"
_LATER = "2026-01-31T13:30:00.250000Z"
ISSUES = [
    Issue(key="7", title="Repair the kettle", created_at=_NOON),
    Issue(
        key="8",
        title="Ünïcode ☕",
        body="two\nlines",
        is_closed=True,
        labels=("bug", "tea"),
        assignee="bob",
        author="ann",
        created_at=_LATER,
        comments=(IssueComment("bob", _LATER, "a comment"), IssueComment("ann", _LATER, "no")),
    ),
]
"""Issues with and without values."""


class IssueSuite:
    """The tests of a format. Override `format` and `sample` in a class `Test...`."""

    def format(self) -> IssueFormat:
        """Return the format."""
        raise NotImplementedError

    def sample(self) -> bytes:
        """Return a file as the tracker writes it, with at least one issue."""
        raise NotImplementedError

    def test_a_sample_is_read(self) -> None:
        issues = self.format().read(self.sample())
        assert issues
        assert len({issue.key for issue in issues}) == len(issues)

    def test_written_issues_are_read_again(self) -> None:
        issue_format = self.format()
        for issues in (ISSUES, [], issue_format.read(self.sample())):
            assert issue_format.read(issue_format.write(issues)) == issues

    def test_anything_else_is_refused(self) -> None:
        for data in (b"", b"\xff", b"{", b"[1]", b'"text"'):
            refused(FormatError, self.format().read, data)

    def test_a_second_import_changes_nothing_and_a_changed_issue_its_ticket(self) -> None:
        tickets = Tickets(MemoryStore(), "importer")
        issues = self.format().read(self.sample())
        first = import_issues(tickets, issues, tracker="test:a")
        assert len(first.created) == len(issues)
        before = tickets.list_tickets()
        second = import_issues(tickets, issues, tracker="test:a")
        assert (second.created, second.updated) == ([], [])
        assert tickets.list_tickets() == before
        other = Tickets(MemoryStore(), "another importer")
        assert import_issues(other, issues, tracker="test:a") == first, "the same ids elsewhere"

    def test_an_import_and_an_export_keep_the_issues(self) -> None:
        issue_format = self.format()
        store = MemoryStore()
        tickets = Tickets(store, "importer")
        issues = issue_format.read(issue_format.write(ISSUES))
        import_issues(tickets, issues, tracker="test:a")
        exported = sorted(export_issues(store, tickets.list_tickets()), key=lambda i: int(i.key))
        assert exported == issues
