"""The tools `tickets` and `ticket`: agents read and change the tickets of a store.

They have the verbs of `harken ticket`. A change carries the commit of the agent that calls: the
agent's context socket is queried, as a command that the agent runs queries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from harken.context.socket_client import VARIABLE, current_context
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, TicketId
from harken.errors import HarkenError, LogError
from harken.store.base import Store
from harken.tickets.change import TicketChange
from harken.tickets.query import TicketFilter, filter_tickets, sort_tickets
from harken.tickets.ticket import STATUSES, Disposition, Status, Ticket, TicketType, short_id
from harken.tickets.tracker import Tickets
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import Tool, ToolContext, in_thread, tool

MAX_LISTED = 50
"""The maximum number of tickets in a result."""
MAX_CHANGES = 30
"""The number of last changes in the result of `show`."""
_OPEN_STATUSES = tuple(status for status in STATUSES if status != "closed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketFields:
    """The fields of a ticket, as a model sets them."""

    title: str | None = None
    body: str | None = None
    status: Status | None = None
    priority: int | None = None
    """0 (the most urgent) to 4."""
    type: TicketType | None = None
    assignee: str | None = None
    parent: str | None = None
    deferred_until: str = ""
    """RFC 3339; only for "defer"."""
    add_labels: Sequence[str] = ()
    remove_labels: Sequence[str] = ()
    add_blockers: Sequence[str] = ()
    """Tickets that must be closed first."""
    remove_blockers: Sequence[str] = ()
    add_attachments: Sequence[str] = ()
    """Full names of artifacts: art-..."""
    add_reviewers: Sequence[str] = ()
    reviews: dict[str, Disposition] | None = None
    """Reviewers with their dispositions."""

    def as_change(self, tickets: Tickets) -> TicketChange:
        """Return the change of these fields. Raises NameNotFound, AmbiguousName."""
        return TicketChange(
            title=self.title,
            body=self.body,
            status=self.status,
            priority=self.priority,
            type=self.type,
            assignee=self.assignee,
            parent=tickets.find_id(self.parent) if self.parent else None,
            has_no_parent=self.parent == "",
            add_labels=tuple(self.add_labels),
            remove_labels=tuple(self.remove_labels),
            add_blockers=tuple(map(tickets.find_id, self.add_blockers)),
            remove_blockers=tuple(map(tickets.find_id, self.remove_blockers)),
            add_attachments=tuple(map(ArtifactRef, self.add_attachments)),
            add_reviewers=tuple(self.add_reviewers),
            reviews=self.reviews or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketConditions:
    """Conditions of a list, as a model sets them."""

    status: Status | None = None
    type: TicketType | None = None
    label: str = ""
    assignee: str | None = None
    """Empty: not assigned."""
    parent: str = ""
    text: str = ""
    """A part of the title or the body."""

    def as_filter(self, tickets: Tickets) -> TicketFilter:
        """Return the filter. Raises NameNotFound, AmbiguousName for the parent."""
        return TicketFilter(
            statuses=_OPEN_STATUSES if self.status is None else (self.status,),
            types=None if self.type is None else (self.type,),
            labels=(self.label,) if self.label else (),
            assignee=self.assignee,
            parent=tickets.find_id(self.parent) if self.parent else None,
            text=self.text,
        )


@check_arguments
def ticket_tools(store: Store) -> list[Tool]:
    """Return the tools that read and change the tickets of a store."""
    return [_reading_tool(store), replace(_changing_tool(store), changed_resource="tickets")]


def _reading_tool(store: Store) -> Tool:
    @tool(reads_only=True)
    async def tickets(
        operation: Literal["list", "ready", "show"],
        caller: ToolContext,
        *,
        ticket: str = "",
        conditions: TicketConditions | None = None,
    ) -> str:
        """Read tickets, the work items of this project.

        "ready" lists those that can be worked on, the most urgent first: open, and not blocked.
        "list" lists all that are not closed, or those that fulfill all `conditions`. "show" prints
        one `ticket` with its notes.
        """
        call = TicketCall(store, caller)
        filtered = conditions or TicketConditions()
        return str(await in_thread(lambda: call.read(operation, ticket, filtered)))

    return tickets


def _changing_tool(store: Store) -> Tool:
    @tool
    async def ticket(
        operation: Literal["create", "update", "close", "reopen", "defer", "note", "claim"],
        caller: ToolContext,
        *,
        ticket: str = "",
        text: str = "",
        fields: TicketFields | None = None,
    ) -> str:
        """Change tickets, the work items of this project. Every change is kept, with its author.

        "create" makes a ticket with `fields`, at least a `title`. "update" sets `fields` of a
        `ticket`. "close", "reopen" and "defer" take a `text` as the reason. "note" adds a `text`.
        "claim" assigns a `ticket` to you and begins it; without a `ticket`, the most urgent one
        that is ready. If another agent was faster, claim another one. A finding of a review has the
        type `review_finding` and the ticket in review as its `parent`.
        """
        call = TicketCall(store, caller)
        new_fields = fields or TicketFields()
        return str(await in_thread(lambda: call.change(operation, ticket, text, new_fields)))

    return ticket


class TicketCall:
    """A call of one of the tools. Its methods block, and run in a thread.

    The author is the principal of the agent's commit, so that `resolve_context` finds its commits.
    Without a commit it is the name of the agent.
    """

    def __init__(self, store: Store, caller: ToolContext) -> None:
        self.store, self.agent = store, caller.agent
        self.socket = caller.environment({}).get(VARIABLE, "")

    def read(self, operation: str, ticket: str, conditions: TicketConditions) -> str:
        """Return the result of a verb that reads. Raises ToolError."""
        with _as_tool_errors():
            tickets = self._open()
            if operation == "show":
                return _format_ticket(tickets, tickets.get(ticket))
            reading = tickets.read_all()
            if operation == "ready":
                matches = tickets.select_ready(reading.tickets)
            else:
                criteria = conditions.as_filter(tickets)
                matches = sort_tickets(filter_tickets(reading.tickets, criteria))
            return "\n".join([_format_list(matches), *_format_damaged(reading.damaged)])

    def change(self, operation: str, ticket: str, text: str, fields: TicketFields) -> str:
        """Return the result of a verb that changes a ticket. Raises ToolError."""
        with _as_tool_errors():
            after = _change(self._open(), operation, ticket, text, fields)
        return f"{short_id(after.id)} [{after.state.status}] {after.state.title}"

    def _open(self) -> Tickets:
        context_id = current_context(self.socket) if self.socket else ""
        commits = self.store.commits([CommitId(context_id)]) if context_id else {}
        principal = "".join(stored.commit.principal for stored in commits.values())
        names = (principal, getattr(self.agent, "name", ""), getattr(self.agent, "agent_id", ""))
        return Tickets(self.store, next(filter(None, names), "agent"), context=lambda: context_id)


def _change(
    tickets: Tickets, operation: str, ticket: str, text: str, fields: TicketFields
) -> Ticket:
    match operation:
        case "create":
            if fields.title is None:
                raise InvalidArguments("ticket: create needs fields with a title")
            return tickets.create(fields.title, fields.as_change(tickets), note=text)
        case "claim":
            return tickets.claim(ticket or None, note=text)
        case "update":
            return tickets.update(ticket, fields.as_change(tickets), note=text)
        case "close":
            return tickets.close(ticket, note=text)
        case "reopen":
            return tickets.reopen(ticket, note=text)
        case "defer":
            return tickets.defer(ticket, until=fields.deferred_until, note=text)
        case _:
            return tickets.note(ticket, text)


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    """Convert errors of tickets to results that the model reads. Errors of the log are raised."""
    try:
        yield
    except LogError:
        raise
    except (HarkenError, ValueError) as error:
        raise ToolError(str(error)) from None


def _format_list(tickets: Sequence[Ticket]) -> str:
    lines = [_format_line(ticket) for ticket in tickets[:MAX_LISTED]]
    if len(tickets) > MAX_LISTED:
        lines.append(f"({len(tickets) - MAX_LISTED} more)")
    return "\n".join(lines) or "(no tickets)"


def _format_damaged(damaged: Mapping[TicketId, str]) -> list[str]:
    return [f"{short_id(id_)} cannot be read: {problem}" for id_, problem in damaged.items()]


def _format_line(ticket: Ticket) -> str:
    state = ticket.state
    owner = f" ({state.assignee})" if state.assignee else ""
    kind = f"p{state.priority} {state.type}"
    return f"{short_id(ticket.id)} [{state.status}] {kind}: {state.title}{owner}"


def _format_ticket(tickets: Tickets, ticket: Ticket) -> str:
    """Return the fields, the body and the last changes of a ticket as text."""
    fields = {
        name: value
        for name, value in ticket.as_json().items()
        if value not in ("", None, [], {}) and name not in ("title", "body", "version")
    }
    lines = [_format_line(ticket), *(f"{name}: {value}" for name, value in fields.items())]
    if ticket.state.body.strip():
        lines += ["", ticket.state.body.strip(), ""]
    for _, version in tickets.history(ticket.id)[-MAX_CHANGES:]:
        note = f": {version.note}" if version.note else ""
        context = f" ({version.context_id})" if version.context_id else ""
        lines.append(f"- {version.time} {version.author}{context} {version.action}{note}")
    return "\n".join(lines)
