"""Queries of tickets: pure functions of the tickets that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harken.core.clock import parse_rfc3339
from harken.core.commits import TicketId
from harken.tickets.ticket import Status, Ticket, TicketType

SortKey: TypeAlias = Literal["priority", "created", "updated", "title", "status", "id"]


class TicketFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list, all of which a ticket must fulfill. A value of None fits any ticket."""

    statuses: tuple[Status, ...] | None = None
    types: tuple[TicketType, ...] | None = None
    labels: tuple[str, ...] = ()
    """Labels that a ticket must have."""
    assignee: str | None = None
    """Empty: tickets without an assignee."""
    author: str | None = None
    """The author of the first version."""
    reviewer: str | None = None
    parent: TicketId | None = None
    priorities: tuple[int, ...] | None = None
    text: str = ""
    """A part of the title or the body, in any case."""

    def matches(self, ticket: Ticket) -> bool:
        """Whether a ticket fulfills all conditions."""
        state = ticket.state
        text = self.text.casefold()
        return (
            (self.statuses is None or state.status in self.statuses)
            and (self.types is None or state.type in self.types)
            and (self.priorities is None or state.priority in self.priorities)
            and set(self.labels) <= {*state.labels}
            and self.assignee in (None, state.assignee)
            and self.author in (None, ticket.created.author)
            and self.parent in (None, state.parent)
            and (self.reviewer is None or self.reviewer in state.reviewers)
            and (not text or text in f"{state.title}\n{state.body}".casefold())
        )


def filter_tickets(tickets: Iterable[Ticket], conditions: TicketFilter) -> list[Ticket]:
    """Return the tickets that fulfill the conditions, in the given order."""
    return [ticket for ticket in tickets if conditions.matches(ticket)]


def sort_tickets(
    tickets: Iterable[Ticket], key: SortKey = "priority", *, is_reversed: bool = False
) -> list[Ticket]:
    """Sort tickets; equal ones by the time of creation, then by id."""
    by_age = sorted(tickets, key=lambda ticket: (ticket.created.time, ticket.id))
    return sorted(by_age, key=_SORT_KEYS[key], reverse=is_reversed)


_SORT_KEYS: Mapping[SortKey, Callable[[Ticket], Any]] = {
    "priority": lambda ticket: ticket.state.priority,
    "created": lambda ticket: ticket.created.time,
    "updated": lambda ticket: ticket.version.time,
    "title": lambda ticket: ticket.state.title.casefold(),
    "status": lambda ticket: ticket.state.status,
    "id": lambda ticket: ticket.id,
}


def ready(tickets: Iterable[Ticket], *, now: str) -> list[Ticket]:
    """Return the tickets that can be worked on, the most urgent first.

    A ticket is ready if it is open and all tickets that block it are closed. A deferred ticket is
    open from its time on. `now` is RFC 3339. A blocker that does not exist is not closed.
    """
    by_id = {ticket.id: ticket for ticket in tickets}
    now_us = parse_rfc3339(now)
    return sort_tickets(
        ticket
        for ticket in by_id.values()
        if _is_open(ticket, now_us) and not open_blockers(ticket, by_id)
    )


def open_blockers(ticket: Ticket, by_id: Mapping[TicketId, Ticket]) -> list[TicketId]:
    """Return the tickets that block a ticket and are not closed, or do not exist."""
    blockers = ticket.state.blocked_by
    return [id_ for id_ in blockers if id_ not in by_id or not by_id[id_].is_closed]


def _is_open(ticket: Ticket, now_us: int) -> bool:
    state = ticket.state
    if state.status == "deferred":
        return bool(state.deferred_until) and parse_rfc3339(state.deferred_until) <= now_us
    return state.status == "open"


def find_cycle(
    start: TicketId, targets: Mapping[TicketId, Sequence[TicketId]]
) -> list[TicketId] | None:
    """Return a cycle through a ticket, which is its first and last item, or None.

    targets: ticket -> the tickets that block it, or its parent.

    >>> a, b, c = map(TicketId, "abc")
    >>> find_cycle(a, {a: [b], b: [c, a]})
    ['a', 'b', 'a']
    >>> find_cycle(a, {a: [b, c], b: [c], c: [b]}) is None
    True
    """
    before: dict[TicketId, TicketId] = {}
    stack = [start]
    while stack:
        current = stack.pop()
        for target in targets.get(current, ()):
            if target == start:
                path = [start, current]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if target not in before:
                before[target] = current
                stack.append(target)
    return None


def children(parent: TicketId, tickets: Iterable[Ticket]) -> list[Ticket]:
    """Return the children of a ticket, the most urgent first."""
    return sort_tickets(ticket for ticket in tickets if ticket.state.parent == parent)
