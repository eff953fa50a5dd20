"""Tickets over a store with a clock that advances a second at each reading."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.tickets.tracker import Tickets

START_US = 1_800_000_000_000_000


def open_tickets(
    store: Store | None = None, author: str = "ann", context: Callable[[], str] = lambda: ""
) -> Tickets:
    """Return the tickets of a store, by default of a new one in memory."""
    seconds = count()
    return Tickets(
        MemoryStore() if store is None else store,
        author,
        context=context,
        clock=lambda: START_US + next(seconds) * 1_000_000,
    )
