"""Exchange tickets with other trackers: issues as values, and the format of a tracker.

An import names the issue in the ticket's origin, so that the next import changes the same ticket.
The first version has the author and the time of the issue, each comment becomes a note with its
own, and a change of fields is made by the importer. An unchanged issue changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, get_args

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.core.clock import normalize_rfc3339, parse_rfc3339
from harken.core.commits import TicketId
from harken.errors import BranchConflict, TicketError
from harken.store.base import Store
from harken.tickets.change import TicketChange
from harken.tickets.ticket import Status, Ticket, TicketOrigin, TicketState, TicketType, short_id
from harken.tickets.tracker import Tickets

UNKNOWN_AUTHOR = "unknown"
_DIGEST_CHARS = 32
_NONCE_CHARS = 16
_STATUS_PREFIX = "status:"
_PRIORITY_LABELS = ("P0", "P1", "P2", "P3", "P4")


class IssueComment(msgspec.Struct, frozen=True):
    """A comment of an issue."""

    author: str
    time: str
    """UTC, RFC 3339 with microseconds."""
    text: str


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """An issue of a tracker, with the fields that trackers have in common."""

    key: str
    """The name of the issue in its tracker, such as its number."""
    title: str
    body: str = ""
    is_closed: bool = False
    labels: tuple[str, ...] = ()
    assignee: str = ""
    author: str = UNKNOWN_AUTHOR
    created_at: str
    """UTC, RFC 3339 with microseconds."""
    url: str = ""
    comments: tuple[IssueComment, ...] = ()
    """Oldest first."""


class IssueFormat(Protocol):
    """The export format of a tracker. `harken.testing.issues.IssueSuite` checks it."""

    name: str
    """The kind of tracker: `github`."""

    def read(self, data: bytes) -> list[Issue]:
        """Return the issues of a file. Raises FormatError if it is not of this format."""
        ...

    def write(self, issues: Sequence[Issue]) -> bytes:
        """Return the file of these issues: `read` returns them again."""
        ...

    def find_project(self, issue: Issue) -> str:
        """Return the project of an issue, such as `owner/name`, or an empty text."""
        ...


class IssueImport(msgspec.Struct):
    """The tickets that an import created, changed, or left unchanged."""

    created: list[TicketId] = msgspec.field(default_factory=list)
    updated: list[TicketId] = msgspec.field(default_factory=list)
    unchanged: list[TicketId] = msgspec.field(default_factory=list)


def import_issues(tickets: Tickets, issues: Iterable[Issue], *, tracker: str) -> IssueImport:
    """Create or update the tickets of issues.

    tracker: `github:owner/name`. The tracker decides on title, body, labels and assignee, and on
    whether a ticket is closed. Raises ValueError for an invalid issue; the issues before it are
    imported. Raises TicketError if a ticket is damaged, since it may be that of an issue.
    """
    result, reading = IssueImport(), tickets.read_all()
    for id_, problem in reading.damaged.items():
        raise TicketError(short_id(id_), f"cannot be read; nothing was imported: {problem}")
    origins = {
        (ticket.state.origin.tracker, ticket.state.origin.key): ticket
        for ticket in reading.tickets
        if ticket.state.origin is not None
    }
    for issue in issues:
        digest = _digest(issue)
        before = origins.get((tracker, issue.key))
        origin = TicketOrigin(tracker, issue.key, issue.url, digest)
        if before is None:
            ticket_id = _create(tickets, issue, origin)
            result.created.append(ticket_id)
        elif before.state.origin is not None and before.state.origin.digest == digest:
            result.unchanged.append(before.id)
            continue
        else:
            ticket_id = tickets.update(before.id, _build_change(issue, origin, before.state)).id
            result.updated.append(ticket_id)
        _add_comments(tickets, ticket_id, issue.comments)
    return result


def _create(tickets: Tickets, issue: Issue, origin: TicketOrigin) -> TicketId:
    """Create the ticket of an issue. The same import on another machine creates the same one."""
    created_us = parse_rfc3339(issue.created_at)
    nonce = blake3(f"{origin.tracker}\n{origin.key}".encode()).hexdigest()[:_NONCE_CHARS]
    importer = Tickets(tickets.store, issue.author, clock=lambda: created_us, nonce=lambda: nonce)
    change = _build_change(issue, origin, TicketState(title=issue.title))
    try:
        return importer.create(issue.title, change, action="import").id
    except BranchConflict as error:  # Another process imported it meanwhile.
        return TicketId(error.branch)


def _add_comments(tickets: Tickets, ticket: TicketId, comments: Sequence[IssueComment]) -> None:
    """Add the comments that the history of a ticket lacks."""
    history = tickets.history(ticket) if comments else []
    existing = {(version.author, version.time, version.note) for _, version in history}
    for comment in comments:
        if (comment.author, comment.time, comment.text) not in existing and comment.text.strip():
            comment_us = parse_rfc3339(comment.time)
            author = Tickets(tickets.store, comment.author, clock=lambda us=comment_us: us)  # type: ignore[misc]
            author.update(ticket, TicketChange(), note=comment.text, action="import")


def _build_change(issue: Issue, origin: TicketOrigin, before: TicketState) -> TicketChange:
    """Return the change of a ticket to the fields of its issue."""
    labels = set(issue.labels)
    types = [type_ for type_ in get_args(TicketType) if type_ in labels and type_ != _FINDING]
    priorities = [n for n, label in enumerate(_PRIORITY_LABELS) if label in labels]
    return TicketChange(
        title=issue.title,
        body=issue.body,
        status=_find_status(issue, before),
        assignee=issue.assignee,
        type=types[0] if types else None,
        priority=priorities[0] if priorities else None,
        add_labels=tuple(sorted(labels)),
        remove_labels=tuple(sorted({*before.labels} - labels)),
        origin=origin,
    )


_FINDING = "review_finding"


def _find_status(issue: Issue, before: TicketState) -> Status:
    """Return the status of an issue. An open issue keeps a more exact status."""
    if issue.is_closed:
        return "closed"
    for status in get_args(Status):
        if f"{_STATUS_PREFIX}{status}" in issue.labels and status != "closed":
            return status  # type: ignore[no-any-return]
    return "open" if before.status == "closed" else before.status


def export_issues(store: Store, tickets: Iterable[Ticket]) -> list[Issue]:
    """Return tickets as issues, with their notes as comments.

    Priority, type and status become labels where an issue has no such field. A ticket without an
    origin gets the next free number as its key.
    """
    exported = list(tickets)
    used = [t.state.origin.key for t in exported if t.state.origin is not None]
    next_number = max((int(key) for key in used if key.isdecimal()), default=0) + 1
    issues: list[Issue] = []
    for ticket in exported:
        origin = ticket.state.origin
        if origin is None:
            origin, next_number = TicketOrigin("", str(next_number)), next_number + 1
        issues.append(_build_issue(store, ticket, origin))
    return issues


def _build_issue(store: Store, ticket: Ticket, origin: TicketOrigin) -> Issue:
    state = ticket.state
    history = Tickets(store, UNKNOWN_AUTHOR).history(ticket.id)
    return Issue(
        key=origin.key,
        title=state.title,
        body=state.body,
        is_closed=ticket.is_closed,
        labels=tuple(sorted({*state.labels, *_list_field_labels(state)})),
        assignee=state.assignee,
        author=ticket.created.author,
        created_at=normalize_rfc3339(ticket.created.time),
        url=origin.url,
        comments=tuple(
            IssueComment(version.author, version.time, version.note)
            for _, version in history
            if version.note
        ),
    )


def _list_field_labels(state: TicketState) -> list[str]:
    """Return the labels for fields that an issue lacks and that differ from the default."""
    default = TicketState(title="")
    labels: list[str] = []
    if state.priority != default.priority:
        labels.append(_PRIORITY_LABELS[state.priority])
    if state.type != default.type:
        labels.append(state.type)
    if state.status not in ("open", "closed"):
        labels.append(f"{_STATUS_PREFIX}{state.status}")
    return labels


def _digest(issue: Issue) -> str:
    return blake3(canonical.to_canonical_bytes(issue)).hexdigest()[:_DIGEST_CHARS]
