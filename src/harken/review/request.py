"""Ask for a review of a ticket, and for an answer about a finding: changes of tickets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harken.core.commits import TicketId
from harken.errors import TicketError
from harken.store.chunking import put_file
from harken.tickets.change import TicketChange
from harken.tickets.ticket import Disposition, Ticket, short_id
from harken.tickets.tracker import Tickets, resolve_context


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeToReview:
    """A change: its diff, and the texts of a new ticket for it."""

    title: str
    diff: bytes
    body: str = ""


def create_review(tickets: Tickets, change: ChangeToReview, *, title: str = "") -> Ticket:
    """Create a ticket with the diff as its attachment. Raises StoreError, ValueError."""
    diff = put_file(tickets.store, [change.diff])
    return tickets.create(
        title or change.title, TicketChange(body=change.body, add_attachments=(diff,))
    )


def request_review(tickets: Tickets, ticket: TicketId, reviewers: Sequence[str]) -> Ticket:
    """Set a ticket to `review`; each of these reviewers is asked, also one that has reviewed.

    Raises TicketError for a closed ticket.
    """
    before = tickets.get(ticket)
    if before.is_closed:
        raise TicketError(short_id(before.id), "is closed: reopen it first")
    pending: dict[str, Disposition] = dict.fromkeys(reviewers, "pending")
    return tickets.update(ticket, TicketChange(status="review", reviews=pending))


def ask_about(tickets: Tickets, ticket: TicketId, question: str) -> Ticket:
    """Add a question to a ticket, for the agent that created it.

    Raises TicketError if it is no finding of an agent, or if the asker created it.
    """
    created = tickets.history(ticket)[0][1]
    kind = tickets.get(ticket).state.type
    if kind != "review_finding":
        raise TicketError(short_id(ticket), f"is a {kind}: only a review_finding is discussed")
    if resolve_context(tickets.store, created) is None:
        reason = f"{created.author} created it without a context: there is no agent to ask"
        raise TicketError(short_id(ticket), reason)
    if created.author == tickets.author:
        reason = f"{tickets.author} created it: ask as another principal, with --as"
        raise TicketError(short_id(ticket), reason)
    return tickets.note(ticket, question)
