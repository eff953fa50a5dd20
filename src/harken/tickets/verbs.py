"""The verbs of tickets for models: each is a type with the arguments, a description, and `run`.

The tools of agents and those of MCP clients are made from these types, so a verb has one schema,
one description and one behavior. The docstring of a verb is the description that models read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from harken.core import structs
from harken.core.commits import ArtifactRef, TicketId
from harken.tickets.change import TicketChange
from harken.tickets.query import TicketFilter, filter_tickets, sort_tickets
from harken.tickets.ticket import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    STATUSES,
    Disposition,
    Status,
    Ticket,
    TicketType,
    short_id,
)
from harken.tickets.tracker import Tickets
from harken.world.page import Limit, Offset, TextOffset, format_list_page, format_text_page

DEFAULT_LISTED = 50
"""The default number of tickets in a list."""
MAX_CHANGES = 30
"""The number of last changes in the result of `show`."""
_OPEN_STATUSES = tuple(status for status in STATUSES if status != "closed")

TicketName = Annotated[str, Meta(description="The id of a ticket (tkt-...), or a unique prefix.")]
Priority = Annotated[
    int,
    Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY, description="0 is the most urgent, 2 the default."),
]
Note = Annotated[str, Meta(description="A note with the change.")]
Reason = Annotated[str, Meta(description="The reason, kept as a note.")]
Blockers = Annotated[tuple[str, ...], Meta(description="Tickets that must be closed first.")]
Attachments = Annotated[
    tuple[str, ...], Meta(description="Full names of artifacts in the store: art-...")
]


class TicketVerb(Struct, frozen=True, kw_only=True):
    """A call of a verb. Its fields are the arguments."""

    name: ClassVar[str]
    reads_only: ClassVar[bool] = False

    def run(self, tickets: Tickets) -> str:
        """Return the result for the model. Raises HarkenError, and ValueError for a bad field."""
        raise NotImplementedError


class _Fields(TicketVerb, frozen=True, kw_only=True):
    """The fields that a new ticket may have, too."""

    body: str | None = None
    status: Status | None = None
    priority: Priority | None = None
    type: TicketType | None = None
    assignee: str | None = None
    parent: TicketName | None = None
    add_labels: tuple[str, ...] = ()
    add_blockers: Blockers = ()
    add_attachments: Attachments = ()
    add_reviewers: tuple[str, ...] = ()
    note: Note = ""


class CreateTicket(_Fields, frozen=True, kw_only=True):
    """Create a ticket, a work item of this project, and return its id.

    The author, the time and the current context of the author are kept. A finding of a review has
    the type `review_finding` and the ticket in review as its `parent`.
    """

    name: ClassVar[str] = "create"

    title: str

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.create(self.title, _build_change(tickets, self), note=self.note))


class UpdateTicket(_Fields, frozen=True, kw_only=True):
    """Change fields of a ticket. Fields that are not passed stay as they are.

    An empty `assignee` or `parent` removes it. `reviews` sets the disposition of reviewers.
    """

    name: ClassVar[str] = "update"

    ticket: TicketName
    title: str | None = None
    remove_labels: tuple[str, ...] = ()
    remove_blockers: Blockers = ()
    remove_attachments: Attachments = ()
    remove_reviewers: tuple[str, ...] = ()
    reviews: dict[str, Disposition] = {}

    def run(self, tickets: Tickets) -> str:
        change = _build_change(tickets, self)
        return _describe(tickets.update(self.ticket, change, note=self.note))


class CloseTicket(TicketVerb, frozen=True, kw_only=True):
    """Close a ticket."""

    name: ClassVar[str] = "close"

    ticket: TicketName
    reason: Reason = ""

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.close(self.ticket, note=self.reason))


class ReopenTicket(TicketVerb, frozen=True, kw_only=True):
    """Open a closed or deferred ticket again."""

    name: ClassVar[str] = "reopen"

    ticket: TicketName
    reason: Reason = ""

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.reopen(self.ticket, note=self.reason))


class DeferTicket(TicketVerb, frozen=True, kw_only=True):
    """Defer a ticket, until a time or until it is reopened."""

    name: ClassVar[str] = "defer"

    ticket: TicketName
    until: Annotated[
        str, Meta(description="When it is ready again, in RFC 3339: 2026-12-24T09:00:00Z.")
    ] = ""
    reason: Reason = ""

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.defer(self.ticket, until=self.until, note=self.reason))


class AddNote(TicketVerb, frozen=True, kw_only=True):
    """Add a note to a ticket, also to a closed one."""

    name: ClassVar[str] = "note"

    ticket: TicketName
    text: str

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.note(self.ticket, self.text))


class ClaimTicket(TicketVerb, frozen=True, kw_only=True):
    """Assign a ready ticket to yourself and begin it: without `ticket`, the most urgent one.

    Of all that claim a ticket at once, one gets it. If another was faster, claim another ticket.
    """

    name: ClassVar[str] = "claim"

    ticket: TicketName = ""
    note: Note = ""

    def run(self, tickets: Tickets) -> str:
        return _describe(tickets.claim(self.ticket or None, note=self.note))


class ListTickets(TicketVerb, frozen=True, kw_only=True):
    """List the tickets that fulfill all conditions, the most urgent first.

    Without a `status`, closed tickets are left out. An empty `assignee` means: not assigned.
    """

    name: ClassVar[str] = "list"
    reads_only: ClassVar[bool] = True

    status: Status | None = None
    type: TicketType | None = None
    label: str = ""
    assignee: str | None = None
    reviewer: str | None = None
    parent: TicketName = ""
    text: Annotated[str, Meta(description="A part of the title or the body.")] = ""
    offset: Offset = 0
    limit: Limit = DEFAULT_LISTED

    def run(self, tickets: Tickets) -> str:
        reading = tickets.read_all()
        conditions = TicketFilter(
            statuses=_OPEN_STATUSES if self.status is None else (self.status,),
            types=None if self.type is None else (self.type,),
            labels=(self.label,) if self.label else (),
            assignee=self.assignee,
            reviewer=self.reviewer,
            parent=tickets.find_id(self.parent) if self.parent else None,
            text=self.text,
        )
        matches = sort_tickets(filter_tickets(reading.tickets, conditions))
        return _format_list(matches, reading.damaged, self.offset, self.limit)


class ListReadyTickets(TicketVerb, frozen=True, kw_only=True):
    """List the tickets that can be worked on, the most urgent first.

    They are open, and all tickets that block them are closed.
    """

    name: ClassVar[str] = "ready"
    reads_only: ClassVar[bool] = True

    offset: Offset = 0
    limit: Limit = DEFAULT_LISTED

    def run(self, tickets: Tickets) -> str:
        reading = tickets.read_all()
        matches = tickets.select_ready(reading.tickets)
        return _format_list(matches, reading.damaged, self.offset, self.limit)


class ShowTicket(TicketVerb, frozen=True, kw_only=True):
    """Show a ticket: its fields, its body, and its last changes with their notes.

    The name in parentheses after an author is the commit of the author's context at that change.
    """

    name: ClassVar[str] = "show"
    reads_only: ClassVar[bool] = True

    ticket: TicketName
    offset: TextOffset = 0

    def run(self, tickets: Tickets) -> str:
        lines = _iter_ticket_lines(tickets, tickets.get(self.ticket))
        return format_text_page((f"{line}\n" for line in lines), offset=self.offset).rstrip()


VERBS: tuple[type[TicketVerb], ...] = (
    *(CreateTicket, UpdateTicket, CloseTicket, ReopenTicket, DeferTicket, AddNote, ClaimTicket),
    *(ListTickets, ListReadyTickets, ShowTicket),
)


def _build_change(tickets: Tickets, fields: CreateTicket | UpdateTicket) -> TicketChange:
    """Return the change of the arguments. Raises NameNotFound, AmbiguousName."""
    change = TicketChange(
        body=fields.body,
        status=fields.status,
        priority=fields.priority,
        type=fields.type,
        assignee=fields.assignee,
        parent=tickets.find_id(fields.parent) if fields.parent else None,
        has_no_parent=fields.parent == "",
        add_labels=fields.add_labels,
        add_blockers=tuple(map(tickets.find_id, fields.add_blockers)),
        add_attachments=tuple(map(ArtifactRef, fields.add_attachments)),
        add_reviewers=fields.add_reviewers,
    )
    if isinstance(fields, CreateTicket):
        return change
    return structs.replace(
        change,
        title=fields.title,
        remove_labels=fields.remove_labels,
        remove_blockers=tuple(map(tickets.find_id, fields.remove_blockers)),
        remove_attachments=tuple(map(ArtifactRef, fields.remove_attachments)),
        remove_reviewers=fields.remove_reviewers,
        reviews=fields.reviews,
    )


def _describe(ticket: Ticket) -> str:
    return f"{short_id(ticket.id)} [{ticket.state.status}] {ticket.state.title}"


def _format_list(
    matches: list[Ticket], damaged: Mapping[TicketId, str], offset: int, limit: int
) -> str:
    lines = map(_format_line, matches[offset:])
    page = format_list_page(lines, offset=offset, limit=limit, total=len(matches))
    problems = [f"{short_id(id_)} cannot be read: {text}" for id_, text in damaged.items()]
    return "\n".join([page or "(no tickets)", *problems])


def _format_line(ticket: Ticket) -> str:
    state = ticket.state
    owner = f" ({state.assignee})" if state.assignee else ""
    kind = f"p{state.priority} {state.type}"
    return f"{short_id(ticket.id)} [{state.status}] {kind}: {state.title}{owner}"


def _format_value(value: object) -> str:
    """Format a field: the members of a list or an object in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(member)}" for name, member in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_value, value))
    return "" if value is None else str(value)


def _iter_ticket_lines(tickets: Tickets, ticket: Ticket) -> Iterator[str]:
    """Yield the fields, the body and the last changes of a ticket."""
    yield _format_line(ticket)
    for name, value in ticket.as_json().items():
        text = _format_value(value)
        if text and name not in ("title", "body", "version"):
            yield f"{name}: {text}"
    if ticket.state.body.strip():
        yield from ("", _indent(f"  {ticket.state.body.strip()}"), "")
    for _, version in tickets.history(ticket.id)[-MAX_CHANGES:]:
        note = f": {_indent(version.note)}" if version.note else ""
        context = f" ({version.context_id})" if version.context_id else ""
        yield f"- {version.time} {version.author}{context} {version.action}{note}"


def _indent(text: str) -> str:
    """Indent the later lines of a text, so that they are not taken for fields or changes."""
    return text.replace("\n", "\n  ")
