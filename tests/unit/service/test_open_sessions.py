"""Sessions that pages look at: a long log is read in slices, and shown before it is complete."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from harken.core.events import Event
from harken.service.viewer.library import SessionLibrary
from harken.service.viewer.open_sessions import OpenSession, OpenSessions
from harken.session.session import Session
from harken.views.model_calls import placeholders
from harken.views.viewer import SessionFollower
from tests.session_kit import create_agent, log_user_message, session_options


class SlowSource:
    """The events of a log, three at a time."""

    key = "s"
    resolver = staticmethod(placeholders)

    def __init__(self, log: Path) -> None:
        self._follower = SessionFollower(log)

    def read(self) -> Sequence[Event]:
        return self._follower.read(max_events=3)

    def find_version(self) -> object:
        return None

    def is_live(self) -> bool:
        return False


class OneSession:
    """A library with one session."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def key_of(self, name: str) -> object:
        return name

    def open(self, name: str) -> SlowSource:
        return SlowSource(self._log)


def test_a_log_is_shown_while_it_is_read(tmp_path: Path) -> None:
    with Session(tmp_path / "s.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary")
        for _ in range(6):
            log_user_message(session, agent)
    sessions = OpenSessions(cast(SessionLibrary, OneSession(session.path)))
    states: list[tuple[int, int, bool]] = []
    for max_s in (0.0, 0.0, math.inf, 0.0):
        with sessions.use("s", max_s) as opened:
            items = opened.conversations.count(agent)
            states.append((opened.event_count, items, opened.is_complete))
    # A request that waits for nothing gets what another one has read.
    assert states == [(3, 1, False), (3, 1, False), (8, 6, True), (8, 6, True)]
    with sessions.use("s") as opened:
        assert len(opened.tree()) == 1


def test_a_request_passes_one_that_reads_a_long_log(tmp_path: Path) -> None:
    with Session(tmp_path / "s.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary")
        for _ in range(6):
            log_user_message(session, agent)
    source = SlowSource(session.path)
    opened = OpenSession(source)
    opened.read_new(0.0)
    has_passed = threading.Event()

    def pass_reader() -> None:
        with opened.acquire():
            has_passed.set()

    with opened.acquire():
        other = threading.Thread(target=pass_reader)
        other.start()
        while not opened.has_waiting:
            pass
        assert not has_passed.is_set()
    opened.let_others_pass()
    assert has_passed.is_set()
    other.join()
    assert not opened.has_waiting
