"""Queries of tickets are pure functions."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harken.core.commits import TicketId
from harken.tickets.change import TicketChange
from harken.tickets.query import TicketFilter, filter_tickets, find_cycle, ready, sort_tickets
from harken.tickets.ticket import Ticket
from tests.unit.tickets.kit import open_tickets

LINKS = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3), max_size=8)


@given(LINKS)
def test_a_cycle_is_found_if_and_only_if_a_ticket_reaches_itself(
    links: dict[int, list[int]],
) -> None:
    targets = {TicketId(str(key)): [*map(TicketId, map(str, to))] for key, to in links.items()}
    for number in range(8):
        start = TicketId(str(number))
        reached: set[TicketId] = set()
        pending = [*targets.get(start, ())]
        while pending:
            current = pending.pop()
            if current not in reached:
                reached.add(current)
                pending += targets.get(current, ())
        cycle = find_cycle(start, targets)
        assert (cycle is not None) == (start in reached)
        if cycle is not None:
            assert cycle[0] == cycle[-1] == start
            assert all(b in targets[a] for a, b in pairwise(cycle))


def test_filters_combine_and_sorting_is_stable() -> None:
    tickets = open_tickets()
    a = tickets.create("Alpha kettle", TicketChange(priority=3, add_labels=("x", "y")))
    b = tickets.create("beta", TicketChange(type="bug", body="a KETTLE", assignee="bob"))
    c = tickets.create("Gamma", TicketChange(status="review", add_reviewers=("rita",)))
    every = [a, b, c]
    cases: list[tuple[TicketFilter, list[Ticket]]] = [
        (TicketFilter(text="kettle"), [a, b]),
        (TicketFilter(labels=("x",)), [a]),
        (TicketFilter(labels=("x", "z")), []),
        (TicketFilter(assignee=""), [a, c]),
        (TicketFilter(assignee="bob", types=("bug",)), [b]),
        (TicketFilter(statuses=("review",)), [c]),
        (TicketFilter(reviewer="rita"), [c]),
        (TicketFilter(priorities=(2, 3)), [a, b, c]),
        (TicketFilter(author="ann"), [a, b, c]),
        (TicketFilter(author="zoe"), []),
    ]
    for conditions, expected in cases:
        assert filter_tickets(every, conditions) == expected, conditions
    assert sort_tickets([c, a, b]) == [b, c, a]
    assert sort_tickets([c, b, a], "title") == [a, b, c]
    assert sort_tickets([a, b, c], "created", is_reversed=True) == [c, b, a]


def test_a_deferred_ticket_is_ready_from_its_time_on() -> None:
    tickets = open_tickets()
    ticket = tickets.create("Later")
    tickets.defer(ticket.id, until="2030-01-01T00:00:00Z")
    forever = tickets.create("Never")
    tickets.defer(forever.id)
    every = tickets.list_tickets()
    assert ready(every, now="2029-12-31T23:59:59Z") == []
    assert [t.id for t in ready(every, now="2030-01-01T00:00:00Z")] == [ticket.id]


def test_a_blocker_that_does_not_exist_is_not_closed() -> None:
    tickets = open_tickets()
    first = tickets.create("First")
    second = tickets.create("Second", TicketChange(add_blockers=(first.id,)))
    assert ready([second], now="2030-01-01T00:00:00Z") == []
