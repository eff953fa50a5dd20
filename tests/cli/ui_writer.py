"""A process that writes a session in bursts: `python -m tests.cli.ui_writer LOG COUNT`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from harken.session.session import Session, SessionOptions
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
)

BURST = 50
PAUSE_S = 0.2


def write(log: Path, count: int) -> None:
    """Write this number of events: turns with a call, its result and an answer."""
    with Session(log, options=SessionOptions(durability="none")) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        for number in range(count // 4):
            log_user_message(session, agent, f"question {number}")
            log_tool_calls(session, agent, f"call_{number}")
            log_tool_result(session, agent, f"call_{number}", f"result {number}")
            log_answer(session, agent, f"answer {number}")
            if number * 4 % BURST == 0:
                time.sleep(PAUSE_S)
        session.end("written")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
