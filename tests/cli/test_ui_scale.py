"""The viewer of a large session, and of a home with many sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harken.session.session import Session
from tests.cli.ui_kit import show_home
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    session_options,
)

pytestmark = pytest.mark.full


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if this process computes longer in the block. Other processes do not count."""
    started_at = time.process_time()
    yield
    assert time.process_time() - started_at < seconds


def test_a_page_of_a_session_with_50_000_messages_takes_less_than_a_second(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "large.jsonl"
    log.parent.mkdir()
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="main")
        for number in range(12_500):
            log_user_message(session, agent, f"question {number} " + "word " * 40)
            log_tool_calls(session, agent, f"c{number}")
            log_tool_result(session, agent, f"c{number}", "line\n" * 40)
            log_answer(session, agent, f"answer {number}")
    with show_home(tmp_path) as page:
        with at_most(2):
            first = page.session("large", "items", agent=agent)
        assert first["total"] == 37_500
        for view in ("items", "timeline"):
            with at_most(1):
                page.session("large", view, **{"from": 30_000, "limit": 500})
        with at_most(1):
            page.session("large")


def test_the_first_page_of_10_000_sessions_takes_less_than_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    with Session(folder / "s-0.jsonl", options=session_options()) as session:
        log_user_message(session, create_agent(session, relation="primary", name="main"))
        session.end()
    content = (folder / "s-0.jsonl").read_bytes()
    for number in range(1, 10_000):
        (folder / f"s-{number}.jsonl").write_bytes(content)
    with show_home(tmp_path) as page:
        with at_most(4):  # The folder is read for the first time, without an index.
            assert page.json("/api/sessions")["total"] == 10_000
        for query in ({}, {"text": "s-99"}, {"runtime": "harken"}):
            with at_most(4 if "text" in query else 1):
                page.json("/api/sessions", **query)
