"""A process that writes a session on request: `python -m tests.web.burst_writer LOG`.

Each line of its input is a number of events to write. It answers with the number of events of turns
so far. The session ends with its input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from harken.core.ids import AgentId
from harken.session.session import Session, SessionOptions
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
)


def log_turns(session: Session, agent: AgentId) -> Iterator[None]:
    """Log turns with a call, its result and an answer. Yields after each event."""
    for number in count():
        log_user_message(session, agent, f"question {number}")
        yield
        log_tool_calls(session, agent, f"call_{number}")
        yield
        log_tool_result(session, agent, f"call_{number}", f"result {number}")
        yield
        log_answer(session, agent, f"answer {number}")
        yield


def expected_texts(events: int) -> list[str]:
    """Return the texts of the items of this number of events. A call and its result are one item."""
    turns = [[f"question {n}", f"result {n}", f"answer {n}"] for n in range(events // 4)]
    return [text for turn in turns for text in turn]


def write(log: Path) -> None:
    """Write the events that the lines of the standard input ask for."""
    with Session(log, options=SessionOptions(durability="none")) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        create_agent(session, cause=session.agent(agent).birth, name="Bob")
        turns, written = log_turns(session, agent), 0
        for line in sys.stdin:
            written += sum(1 for _ in islice(turns, int(line)))
            print(written, flush=True)
        session.end("written")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
