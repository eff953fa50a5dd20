"""The tools of a reviewer: read the change, file findings, conclude the review, verify a finding.

They are bound to one ticket. The parent, the author and the context of a finding come from the
start of the reviewer and from its context socket, never from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from harken.core import structs
from harken.core.commits import ArtifactRef, TicketId
from harken.store.base import Store
from harken.tickets import query
from harken.tickets.change import TicketChange
from harken.tickets.ticket import DEFAULT_PRIORITY, Disposition, Ticket, short_id
from harken.tickets.tools import as_tool_errors, open_tickets_for
from harken.tickets.tracker import Tickets
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import Tool, ToolContext, in_thread, tool

MAX_LINES = 500
"""The maximum number of lines of one result of `read_change`."""
MAX_LINE_CHARS = 1000
"""The length at which a line of a change is cut."""
_RESOURCE = "tickets"


class ChangePosition(NamedTuple):
    """A position in a change. Lines, characters and changes are counted from 1."""

    line: int
    character: int
    number: int
    """0 for the newest change."""


def reading_tool(store: Store, reviewed: TicketId) -> Tool:
    """Return the tool that shows the change of a ticket in review."""

    @tool(reads_only=True)
    async def read_change(first_line: int = 1, *, first_character: int = 1, number: int = 0) -> str:
        """Read the change of the ticket in review, with line numbers.

        A result has at most 500 lines; `first_line` continues. Of a line it has at most 1,000
        characters, from `first_character` on. The `number` chooses an older change, from 1; without
        it, you read the newest one.
        """
        position = ChangePosition(first_line, first_character, number)
        return str(await in_thread(lambda: _read_change(store, reviewed, position)))

    return read_change


def reviewing_tools(store: Store, reviewed: TicketId) -> list[Tool]:
    """Return the tools of a reviewer of a ticket."""

    @tool(idempotent=True)
    async def file_finding(
        title: str, caller: ToolContext, *, body: str = "", priority: int = DEFAULT_PRIORITY
    ) -> str:
        """File one problem of the change as a finding.

        The `title` is one line, the `body` says where it is and what would be right. The `priority`
        is 0 (the most urgent) to 4. You verify the finding when it was closed.
        """
        change = TicketChange(body=body, priority=priority, type="review_finding", parent=reviewed)
        return str(await in_thread(lambda: _file_finding(store, caller, title, change)))

    @tool(idempotent=True)
    async def conclude_review(
        disposition: Literal["approved", "changes_requested", "commented"],
        caller: ToolContext,
        *,
        summary: str = "",
    ) -> str:
        """Conclude your review, after your findings.

        "approved" needs that no finding of yours is open. "commented" is neither of the others.
        """
        return str(
            await in_thread(lambda: _conclude(store, caller, reviewed, disposition, summary))
        )

    return [reading_tool(store, reviewed), *map(_as_report, (file_finding, conclude_review))]


def verifying_tools(store: Store, finding: Ticket) -> list[Tool]:
    """Return the tools of a reviewer that verifies a finding of its own."""

    @tool(idempotent=True)
    async def verify_finding(
        verdict: Literal["accept", "reopen"], caller: ToolContext, *, note: str = ""
    ) -> str:
        """Accept that your finding is resolved, or open it again. The `note` says why."""
        accepts = verdict == "accept"
        return str(
            await in_thread(lambda: _verify(store, caller, finding.id, note, accepts=accepts))
        )

    tools = [_as_report(verify_finding)]
    parent = finding.state.parent
    return tools if parent is None else [reading_tool(store, parent), *tools]


def _as_report(new_tool: Tool) -> Tool:
    return structs.replace(new_tool, reports=True, changed_resource=_RESOURCE)


def _read_change(store: Store, reviewed: TicketId, position: ChangePosition) -> str:
    with as_tool_errors():
        ticket = Tickets(store, "reader").get(reviewed)
        changes: Sequence[ArtifactRef] = ticket.state.attachments
        if not changes:
            raise ToolError(f"{short_id(reviewed)} has no change attached: read the files")
        if not 0 <= position.number <= len(changes) or min(position[:2]) < 1:
            raise InvalidArguments(
                f"number is 1 to {len(changes)}; first_line and first_character are 1 or more"
            )
        lines = _split_lines(store.raw(changes[position.number - 1]))
    shown = lines[position.line - 1 : position.line - 1 + MAX_LINES]
    numbered = [
        _format_line(index, line, position.character)
        for index, line in enumerate(shown, position.line)
    ]
    last = position.line - 1 + len(shown)
    if last < len(lines):
        numbered.append(f"({len(lines) - last} more lines: continue with first_line={last + 1})")
    return "\n".join(numbered) or f"(the change has {len(lines)} lines)"


def _split_lines(data: bytes) -> list[str]:
    """Split a change as git does: other characters than a line feed do not end a line."""
    lines = data.decode("utf-8", "replace").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _format_line(number: int, line: str, first: int) -> str:
    """Format a line from a character on. A line that is cut says so: code must not be hidden."""
    end = first - 1 + MAX_LINE_CHARS
    rest = len(line) - end
    text = f"{number:>5} {line[first - 1 : end]}"
    if rest <= 0:
        return text
    return f"{text} ({rest} more characters: first_line={number}, first_character={end + 1})"


def _file_finding(store: Store, caller: ToolContext, title: str, change: TicketChange) -> str:
    with as_tool_errors():
        tickets = open_tickets_for(store, caller)
        assert change.parent is not None
        for finding in _own_findings(tickets, change.parent):
            if finding.state.title == title and not finding.is_closed:
                return f"{short_id(finding.id)} is filed already"
        change = structs.replace(change, add_reviewers=(tickets.author,))
        return f"{short_id(tickets.create(title, change).id)} is filed"


def _conclude(
    store: Store, caller: ToolContext, reviewed: TicketId, disposition: Disposition, summary: str
) -> str:
    with as_tool_errors():
        tickets = open_tickets_for(store, caller)
        before = tickets.get(reviewed)
        if tickets.author not in before.state.reviewers:
            raise ToolError(f"{tickets.author} is not a reviewer of {short_id(reviewed)}")
        if disposition == "approved":
            unresolved = _approve(tickets, before, summary)
            if unresolved:
                names = ", ".join(short_id(finding.id) for finding in unresolved)
                raise ToolError(f"not approved: your findings {names} are not resolved")
        else:
            _set_disposition(tickets, before, disposition, summary)
    return f"your review of {short_id(reviewed)}: {disposition}"


def _verify(
    store: Store, caller: ToolContext, finding: TicketId, note: str, *, accepts: bool
) -> str:
    with as_tool_errors():
        tickets = open_tickets_for(store, caller)
        before = tickets.get(finding)
        disposition: Disposition = "approved" if accepts else "changes_requested"
        change = TicketChange(reviews={tickets.author: disposition})

        def check(current: Ticket) -> None:
            if not current.is_closed:
                raise ToolError(f"{short_id(finding)} is {current.state.status}, not closed")

        if not before.is_closed and before.state.reviewers.get(tickets.author) != disposition:
            check(before)
        if accepts:
            if not _is_accepted(before):
                tickets.update(finding, change, note=note, check=check)
            parent = before.state.parent
            has_approved = parent is not None and _approve_if_resolved(tickets, parent)
            return f"{short_id(finding)} is accepted{', and the review' if has_approved else ''}"
        if before.is_closed:
            change = structs.replace(change, status="open")
            tickets.update(finding, change, note=note, action="reopen", check=check)
        return f"{short_id(finding)} is open again"


def _approve_if_resolved(tickets: Tickets, reviewed: TicketId) -> bool:
    """Approve a ticket in review if all findings of its reviewer are accepted."""
    before = tickets.get(reviewed)
    return tickets.author in before.state.reviewers and not _approve(tickets, before, "")


def _approve(tickets: Tickets, reviewed: Ticket, note: str) -> list[Ticket]:
    """Approve a ticket in review, and return the findings that are in the way of that.

    A finding that another process opens again meanwhile is seen here after the approval was
    written, or the approval is seen there (see `Tickets`) after the finding was opened.
    """
    unresolved = _list_unresolved(tickets, reviewed.id)
    if not unresolved:
        _set_disposition(tickets, reviewed, "approved", note)
        unresolved = _list_unresolved(tickets, reviewed.id)
        if unresolved:
            _set_disposition(tickets, tickets.get(reviewed.id), "changes_requested", "")
    return unresolved


def _set_disposition(
    tickets: Tickets, reviewed: Ticket, disposition: Disposition, note: str
) -> None:
    if reviewed.state.reviewers.get(tickets.author) != disposition:
        change = TicketChange(reviews={tickets.author: disposition})
        tickets.update(reviewed.id, change, note=note)


def _list_unresolved(tickets: Tickets, reviewed: TicketId) -> list[Ticket]:
    return [f for f in _own_findings(tickets, reviewed) if not _is_accepted(f)]


def _own_findings(tickets: Tickets, reviewed: TicketId) -> list[Ticket]:
    """Return the findings of the calling reviewer on a ticket."""
    return [
        ticket
        for ticket in query.children(reviewed, tickets.list_tickets())
        if ticket.state.type == "review_finding" and ticket.created.author == tickets.author
    ]


def _is_accepted(finding: Ticket) -> bool:
    """Whether a finding is closed, and its reviewer has accepted that."""
    dispositions = finding.state.reviewers.values()
    return finding.is_closed and all(value == "approved" for value in dispositions)
