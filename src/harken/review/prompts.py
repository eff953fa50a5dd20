"""The messages to started agents. A prompt depends on the change that started the agent alone."""

from __future__ import annotations

from harken.tickets.ticket import Ticket, TicketVersion, short_id

REVIEW = """\
Review the ticket {ticket}: {title}
{body}
`read_change` shows the change. File each problem with `file_finding`, one call for each.
Then call `conclude_review`, and summarize your review in your answer."""
MESSAGE = """\
{author} writes on {ticket}, {title}:

{note}"""
VERIFICATION = """\
{author} closed {ticket}, {title}{reason}

Check whether it is resolved: `read_change` shows the newest change. Then call `verify_finding`."""
CLOSED = """\
{author} closed {ticket}, {title}{reason}

Check whether it is done. If it is not, open it again with a note."""
WORK = """\
Work on the ticket {ticket}: {title}
{body}
Close it when it is done, or set its status to `review` and name the reviewers."""
RETURNED = """\
The ticket {ticket}, {title}, is in progress again, and assigned to you{reason}

Its findings are its children. Resolve each one, then close it with a note on what you did.
To ask a reviewer, add a note to the finding."""


def build_prompt(event: str, ticket: Ticket, change: TicketVersion) -> str:
    """Return the message to the agent that a change of a ticket starts."""
    state = change.ticket
    is_finding = state.type == "review_finding"
    templates = {
        "review": REVIEW,
        "note": MESSAGE,
        "closed": VERIFICATION if is_finding else CLOSED,
        "ready": WORK,
        "in_progress": RETURNED,
    }
    return templates[event].format(
        ticket=short_id(ticket.id),
        title=state.title,
        body=f"\n{state.body.strip()}\n" if state.body.strip() else "",
        author=change.author,
        note=change.note,
        reason=f":\n\n{change.note}" if change.note else ".",
    )
