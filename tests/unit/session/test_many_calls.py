"""A message with many calls is folded in steps that grow with their number, in any order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import pytest

from harken.core.events import Event, TranscriptEntry
from harken.core.messages import text_of
from harken.session.fold import fold
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.session.state import SessionState
from tests.session_kit import create_agent, log_tool_calls, log_tool_result, session_options

ORDERS: dict[str, Callable[[int], list[int]]] = {
    "in order": lambda count: [*range(count)],
    "reversed": lambda count: [*reversed(range(count))],
    "in pairs": lambda count: [number ^ 1 for number in range(count)],
    "the first one last": lambda count: [*range(1, count), 0],
}


def write_calls(log: Path, order: Sequence[int]) -> list[Event]:
    """Return the events of a message with calls, and of their results in an order."""
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary")
        log_tool_calls(session, agent, *(f"call_{number}" for number in range(len(order))))
        for number in order:
            log_tool_result(session, agent, f"call_{number}", str(number))
    return [*iter_events(log)]


def count_steps(events: Sequence[Event]) -> tuple[int, list[str]]:
    """Fold events. Return the number of calls of functions, and the texts of the context."""
    steps, state = 0, SessionState()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for event in events:
            fold(state, event)
    finally:
        sys.setprofile(before)
    [agent] = state.agents.values()
    assert agent.open_calls == {}
    by_id = {event.message_id: event for event in events}
    entries = [by_id[id_] for id_ in agent.new_entries]
    return steps, [
        text_of(entry.content)
        for entry in entries
        if isinstance(entry, TranscriptEntry) and entry.role == "tool"
    ]


@pytest.mark.parametrize("name", ORDERS)
def test_the_steps_grow_with_the_number_of_calls(tmp_path: Path, name: str) -> None:
    counts = {}
    for size in (100, 400):
        events = write_calls(tmp_path / f"{size}.jsonl", ORDERS[name](size))
        counts[size], texts = count_steps(events)
        assert texts == [str(number) for number in range(size)]
    assert counts[400] < 5 * counts[100]
