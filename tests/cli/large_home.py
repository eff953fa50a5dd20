"""A home with many sessions of several agents and tools, in few projects."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harken.core.event_types.spec import AgentSpec
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    session_options,
)

PROJECTS = ("/srv/ann/app", "/srv/ben/app", "/srv/ann/site", "/srv/lab")
AGENTS = ("Ann", "Ben", "Cleo")
TOOLS = ("search", "read_file")
_FIRST_DAY = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write_large_home(home: Path, count: int) -> None:
    """Write sessions. Each has a name, an agent, a tool and a time of its own."""
    folder = home / "sessions"
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"talk-{number:05}.jsonl"
        _write_log(path, number)
        written_s = (_FIRST_DAY + timedelta(minutes=number)).timestamp()
        os.utime(path, (written_s, written_s))


def _write_log(path: Path, number: int) -> None:
    with Session(path, options=session_options()) as session:
        spec = AgentSpec(folder=PROJECTS[number % len(PROJECTS)])
        name = AGENTS[number % len(AGENTS)]
        agent = create_agent(session, relation="primary", name=name, spec=spec)
        log_user_message(session, agent, f"Please write part {number} of the report.")
        log_tool_calls(session, agent, "c1", tool=TOOLS[number % len(TOOLS)])
        log_tool_result(session, agent, "c1", "line\n" * 20)
        log_answer(session, agent, f"Part {number} is written.")
        session.end("success" if number % 3 else "error")
