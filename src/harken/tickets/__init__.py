"""Tickets: work items in the store, each change with its author, its time and its context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.tickets.change import TicketChange
    from harken.tickets.query import TicketFilter, filter_tickets, find_cycle, ready, sort_tickets
    from harken.tickets.ticket import Ticket, TicketOrigin, TicketState, TicketVersion
    from harken.tickets.tools import ticket_tools
    from harken.tickets.tracker import Tickets
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "filter_tickets": "harken.tickets.query",
            "find_cycle": "harken.tickets.query",
            "ready": "harken.tickets.query",
            "sort_tickets": "harken.tickets.query",
            "ticket_tools": "harken.tickets.tools",
            "Ticket": "harken.tickets.ticket",
            "TicketChange": "harken.tickets.change",
            "TicketFilter": "harken.tickets.query",
            "TicketOrigin": "harken.tickets.ticket",
            "TicketState": "harken.tickets.ticket",
            "TicketVersion": "harken.tickets.ticket",
            "Tickets": "harken.tickets.tracker",
        },
    )

__all__ = [
    "Ticket",
    "TicketChange",
    "TicketFilter",
    "TicketOrigin",
    "TicketState",
    "TicketVersion",
    "Tickets",
    "filter_tickets",
    "find_cycle",
    "ready",
    "sort_tickets",
    "ticket_tools",
]
