"""The parts of a page in one file that repeat each other cost little, and are as if alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from harken.core.ids import AgentId
from harken.service.viewer.open_sessions import DialogList, OpenSession
from harken.service.viewer.shared.contexts import ContextPacker, extend_ranges
from harken.service.viewer.shared.dialogs import read_dialogs
from harken.service.viewer.shared.packing import Packer, extend_list, pack_list
from harken.session.session import Session
from harken.views.links import Links
from harken.views.model_calls import placeholders
from harken.views.viewer import SessionFollower
from tests.call_counts import count_calls
from tests.session_kit import (
    create_agent,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_user_message,
    range_segment,
    session_options,
)
from tests.unit.views.log_builder import LogBuilder


@pytest.fixture
def play(tmp_path: Path) -> Iterator[LogBuilder]:
    with LogBuilder(tmp_path) as play:
        yield play


def play_with_hooks(play: LogBuilder) -> list[AgentId]:
    """Two agents talk; of one, a hook denies, rewrites and lets through, and a turn is stopped."""
    jack, jill = (play.create_agent(name, by=play.root) for name in ("Jack", "Jill"))
    guard = play.create_agent("Guard", by=jack, relation="hook")
    for text, verdict in (("one", "DENY: no"), ("two", "REWRITE: zwei"), ("three", "OK")):
        answer = play.says(jack, text)
        play.judges(guard, "response", answer, verdict)
        if not verdict.startswith("DENY"):
            play.gives_answer(jack, answer)
            play.hears(jill, f"[Jack]: {'zwei' if text == 'two' else text}", answer)
        play.hears(jack, f"[Jill]: more than {text}", play.says(jill, f"more than {text}"))
    play.hears(play.root, "[Jill]: out", play.stops_turn(jill, "budget", "out"))
    play.says(jack, "four")
    return [AgentId(play.root), jack, jill, guard]


def test_dialogs_that_are_read_together_are_those_that_are_read_alone(play: LogBuilder) -> None:
    agents = play_with_hooks(play)
    links = Links.of(play.viewer().events)
    groups = [list(group) for size in (2, 3, 4) for group in permutations(agents, size)]
    count = len(links)
    for dialog, group in zip(read_dialogs(links, groups), groups, strict=True):
        alone = DialogList(links, group)
        alone.add_new()
        assert dialog.items == alone.items
        assert dialog.items
        for position in range(count + 1):
            assert dialog.find_changed(position) == alone.find_changed(position)
            assert dialog.find_last_before(position) == alone.find_last_before(position)


def test_a_dialog_costs_as_much_as_the_events_of_its_agents(tmp_path: Path) -> None:
    with Session(tmp_path / "s.jsonl", options=session_options()) as session:
        main = create_agent(session, relation="primary")
        birth = session.agent(main).birth
        others = [create_agent(session, cause=birth) for _ in range(20)]
        for agent in others:
            log_user_message(session, agent)
            log_answer(session, agent)
        for _ in range(500):
            log_user_message(session, main)
    links = Links.of(SessionFollower(session.path).read())
    groups = [[AgentId(first), AgentId(second)] for first, second in permutations(others, 2)]
    few = count_calls(lambda: read_dialogs(links, groups[:1]))
    many = count_calls(lambda: read_dialogs(links, groups[:201]))
    # An event of another agent, of which there are 500, costs nothing.
    assert many - few < 200 * 200


class _LogSource:
    """The events of a log."""

    key = "s"
    resolver = staticmethod(placeholders)

    def __init__(self, log: Path) -> None:
        self._follower = SessionFollower(log)
        self.read, self.find_version = self._follower.read, lambda: None

    def is_live(self) -> bool:
        return False


def write_calls(log: Path, turns: int, *, rewinds: bool = False) -> OpenSession:
    """Return a session of two agents with model calls, of which some follow a rewind."""
    with Session(log, options=session_options()) as session:
        main = create_agent(session, relation="primary")
        agents = [main, create_agent(session, cause=session.agent(main).birth)]
        for number in range(turns):
            for agent in agents:
                log_user_message(session, agent, f"question {number}")
                if rewinds and number % 5 == 4:
                    log_edit(session, agent, range_segment(0, number))
                request = log_request(session, agent)
                answer = log_answer(session, agent, f"answer {number}")
                log_response(session, agent, request, entry=answer)
    opened = OpenSession(_LogSource(log))
    opened.read_new()
    return opened


def test_contexts_are_packed_as_lists_of_all_their_messages(tmp_path: Path) -> None:
    session = write_calls(tmp_path / "s.jsonl", 12, rewinds=True)
    packer = Packer()
    contexts, rows = ContextPacker(session, packer), dict[Any, Any]()
    for number in range(1, len(session.steps()) + 1):
        messages, new = contexts.pack(number)
        assert isinstance(messages, list)
        keys = session.steps().keys(number)
        [*triples] = zip(*[iter(messages[1:])] * 3, strict=True)
        unpacked = [(table, first + n) for table, first, count in triples for n in range(count)]
        assert all(
            rows.setdefault(key, row) == row for key, row in zip(keys, unpacked, strict=True)
        )
        context = session.steps().context(number)
        positions = [row.position for row in context if row.new]
        expected: list[int] = []
        for position in positions:
            expected = extend_ranges(expected, position)
        assert new == packer.pack(expected)
    assert len(rows) == len({*rows.values()})


def test_a_context_costs_as_much_as_its_new_messages(tmp_path: Path) -> None:
    def pack_all(turns: int) -> int:
        session = write_calls(tmp_path / f"{turns}.jsonl", turns)
        contexts = ContextPacker(session, Packer())
        session.steps()
        return count_calls(
            lambda: [contexts.pack(number) for number in range(1, len(session.steps()) + 1)]
        )

    assert pack_all(80) < 2.2 * pack_all(40)


def test_a_list_that_is_extended_is_the_list_of_all() -> None:
    rows: list[Any] = [[0, 1], [0, 2], [1, 3], [0, 3], [0, 4], [0, 4]]
    for count in range(len(rows) + 1):
        assert extend_list(pack_list(rows[:count]), rows[count:]) == pack_list(rows)
    assert extend_list(pack_list([]), [1, [0, 1]]) == [-1, 1, [0, 1]]
