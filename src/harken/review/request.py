"""Ask for a review of a ticket: changes of tickets. Find the reviewer of a finding."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.core.commits import TicketId
from harken.errors import TicketError
from harken.store.chunking import put_file
from harken.tickets.change import TicketChange
from harken.tickets.starts import RecordedStart, StartLedger
from harken.tickets.ticket import Disposition, Ticket, short_id
from harken.tickets.tracker import Tickets, resolve_context


class ChangeToReview(msgspec.Struct, frozen=True, kw_only=True):
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


def restart_reviews(
    ledger: StartLedger, ticket: TicketId, reviewers: Sequence[str]
) -> list[RecordedStart]:
    """Start the reviews of a ticket again in which these reviewers failed.

    A review that is due or running is not doubled. Raises TicketError if a reviewer is busy.
    """
    reading = ledger.read({ticket})
    is_open = {start.principal for start in reading.open if start.event == "review"}
    failed = {start.principal: start for start in reading.failed if start.event == "review"}
    states = Tickets(ledger.store, "reader").get(ticket).state.reviewers
    pending = [
        name
        for name in reviewers
        if name in failed and name not in is_open and states.get(name) == "pending"
    ]
    return [start for name in pending if (start := ledger.restart(failed[name])) is not None]


def find_reviewer(tickets: Tickets, ticket: TicketId) -> str:
    """Return the template of the agent that created a finding.

    Raises TicketError if it is no finding of an agent, or if the asker created it.
    """
    created = tickets.history(ticket)[0][1]
    kind = tickets.get(ticket).state.type
    if kind != "review_finding":
        raise TicketError(short_id(ticket), f"is a {kind}: only a review_finding is discussed")
    context_id = resolve_context(tickets.store, created)
    if context_id is None:
        reason = f"{created.author} created it without a context: there is no agent to ask"
        raise TicketError(short_id(ticket), reason)
    if created.author == tickets.author:
        reason = f"{tickets.author} created it: ask as another principal, with --as"
        raise TicketError(short_id(ticket), reason)
    commits = tickets.store.commits([context_id]).values()
    return next(filter(None, (c.commit.template for c in commits)), created.author)
