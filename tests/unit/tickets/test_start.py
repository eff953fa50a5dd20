"""Changes of tickets start agents: each start once, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import HarkenError
from harken.store.memory import MemoryStore
from harken.tickets.change import TicketChange
from harken.tickets.query import TicketFilter
from harken.tickets.start import AgentStart, StartCondition, plan_starts
from harken.tickets.ticket import TicketEvent
from harken.tickets.tracker import Tickets
from tests.unit.tickets.kit import open_tickets

NOW = "2030-01-01T00:00:00Z"
EVENTS: tuple[TicketEvent, ...] = ("ready", "review", "in_progress", "note", "closed")
CONDITIONS = [StartCondition(name=event, event=event, template=f"t-{event}") for event in EVENTS]


def _due(
    tickets: Tickets, started: set[str], conditions: list[StartCondition] = CONDITIONS
) -> list[AgentStart]:
    histories = {ticket.id: tickets.history(ticket.id) for ticket in tickets.list_tickets()}
    return plan_starts(histories, conditions, started=started, now=NOW)


def _record(starts: list[AgentStart], started: set[str]) -> list[tuple[str, str]]:
    started.update(start.id for start in starts)
    return [(start.condition.name, start.principal) for start in starts]


@pytest.mark.req("S2-51")
def test_the_steps_of_a_review_start_the_right_agents_from_the_right_context() -> None:
    store = MemoryStore()
    started: set[str] = set()
    author = open_tickets(store, "ann", lambda: "ctx-author")
    parent = author.create("Rewrite the parser")
    assert _record(_due(author, started), started) == [("ready", "")]
    author.claim(parent.id)
    assert _due(author, started) == [], "a claim starts nothing"
    author.update(parent.id, TicketChange(status="review"))
    assert _due(author, started) == [], "there are no reviewers yet"
    open_tickets(store, "pm").update(parent.id, TicketChange(add_reviewers=("rita", "rob")))
    reviews = sorted(_record(_due(author, started), started))
    assert reviews == [("review", "rita"), ("review", "rob")]
    reviewer = open_tickets(store, "rita", lambda: "ctx-rita")
    finding = reviewer.create(
        "It drops lines", TicketChange(type="review_finding", parent=parent.id)
    )
    reviewer.update(parent.id, TicketChange(reviews={"rita": "changes_requested"}))
    reviewer.update(parent.id, TicketChange(status="in_progress"))
    conditions = [condition for condition in CONDITIONS if condition.event != "ready"]
    [resumed] = _due(author, started, conditions)
    assert (resumed.condition.name, resumed.principal, resumed.context_id) == (
        *("in_progress", "ann"),
        "ctx-author",
    )
    _record([resumed], started)
    author.note(finding.id, "what do you mean?")
    [asked] = _due(author, started, conditions)
    assert (asked.condition.name, asked.principal, asked.context_id) == ("note", "rita", "ctx-rita")
    _record([asked], started)
    reviewer.note(finding.id, "line 12")
    assert _due(author, started, conditions) == [], "the own note wakes nobody"
    author.close(finding.id)
    [verifying] = _due(author, started, conditions)
    assert (verifying.condition.name, verifying.principal) == ("closed", "rita")


def test_a_ticket_is_ready_again_when_its_blocker_is_closed_again_but_not_after_a_note() -> None:
    tickets = open_tickets()
    started: set[str] = set()
    ready = [CONDITIONS[0]]
    blocker = tickets.create("First")
    ticket = tickets.create("Second", TicketChange(add_blockers=(blocker.id,)))
    assert [start.ticket for start in _due(tickets, started, ready)] == [blocker.id]
    tickets.close(blocker.id)
    [start] = _due(tickets, started, ready)
    assert start.ticket == ticket.id
    _record([start], started)
    tickets.note(ticket.id, "a note")
    assert _due(tickets, started, ready) == []
    tickets.reopen(blocker.id)
    tickets.close(blocker.id)
    assert [start.ticket for start in _due(tickets, started, ready)] == [ticket.id]


def test_a_condition_filters_tickets_as_of_the_change() -> None:
    tickets = open_tickets()
    conditions = [
        StartCondition(
            name="docs",
            event="review",
            template="writer",
            tickets=TicketFilter(labels=("docs",)),
        )
    ]
    change = TicketChange(status="review", add_reviewers=("rita",))
    tickets.create("Other", change)
    ticket = tickets.create("Docs", TicketChange(add_labels=("docs",)))
    tickets.update(ticket.id, change)
    tickets.update(ticket.id, TicketChange(remove_labels=("docs",)))
    [start] = _due(tickets, set(), conditions)
    assert (start.ticket, start.principal, start.condition.template) == (
        ticket.id,
        "rita",
        "writer",
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("create", "note", "close", "reopen", "claim", "look"),
                *("review", "in_progress", "reviewer"),
            ]
        ),
        st.integers(0, 2),
        st.sampled_from(["ann", "bob"]),
    ),
    max_size=25,
)


@pytest.mark.req("S2-51")
@given(STEPS)
def test_each_start_happens_once_and_none_is_lost_however_seldom_a_process_looks(
    steps: list[tuple[str, int, str]],
) -> None:
    """One process looks after every change, another at times, and never finds fewer changes."""
    store = MemoryStore()
    always: set[str] = set()
    seldom: set[str] = set()
    conditions = [condition for condition in CONDITIONS if condition.event != "ready"]
    for step, number, author in steps:
        tickets = open_tickets(store, author)
        _apply(tickets, step, number)
        for started in [always, *([seldom] if step == "look" else [])]:
            starts = _due(tickets, started, conditions)
            assert len({start.id for start in starts}) == len(starts)
            assert started.isdisjoint(start.id for start in starts)
            _record(starts, started)
            assert _due(tickets, started, conditions) == []
    _record(_due(open_tickets(store), seldom, conditions), seldom)
    assert seldom == always


def _apply(tickets: Tickets, step: str, number: int) -> None:
    """Change the ticket with this number, if the step fits its status."""
    every = sorted(tickets.list_tickets(), key=lambda ticket: ticket.created.time)
    if step == "create" or not every:
        tickets.create(f"Task {len(every)}", TicketChange(assignee="ann"))
        return
    id_ = every[number % len(every)].id
    changes: dict[str, Any] = {
        "review": TicketChange(status="review"),
        "in_progress": TicketChange(status="in_progress"),
        "reviewer": TicketChange(add_reviewers=(f"reviewer-{number}",)),
    }
    try:
        if step in changes:
            tickets.update(id_, changes[step])
        elif step == "note":
            tickets.note(id_, "a note")
        elif step != "look":
            getattr(tickets, step)(id_)
    except HarkenError:
        return
