"""What the window of `harken replay` shows, without a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.cli.commands.demo import play as play_demo
from harken.cli.replay_view.reader import HELP, ReplayReader
from harken.core import events as ev
from harken.terminal.styled_text import cell_width
from harken.views.steps import RequestSteps
from harken.views.viewer import SessionViewer
from tests.unit.views.log_builder import LogBuilder


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reader") / "demo.jsonl"
    play_demo(path)
    return path


def reader_of(log: Path) -> ReplayReader:
    viewer = SessionViewer(log)
    return ReplayReader(RequestSteps(viewer.events), viewer)


@pytest.fixture
def reader(log: Path) -> ReplayReader:
    return reader_of(log)


def shown(reader: ReplayReader, width: int = 80, height: int = 24) -> str:
    rows = reader.frame(width, height)
    assert len(rows) == height
    return "\n".join("".join(text for _, text in row) for row in rows)


def test_it_goes_on_and_back_and_says_where_it_ends(reader: ReplayReader) -> None:
    assert "request 1 of 9 · main (1 of 4)" in shown(reader)
    reader.step(-1)
    assert "this is the first request" in shown(reader)
    reader.step(1)
    assert "request 2 of 9" in shown(reader)
    assert "this is the first" not in shown(reader)
    reader.end(last=True)
    reader.step(1)
    assert "request 9 of 9" in shown(reader)
    assert "this is the last request" in shown(reader)


def test_it_goes_to_a_request_by_number_or_id(reader: ReplayReader) -> None:
    for given_, wanted in (("3", 3), (" -2 ", 8), ("msg_029", 4)):
        reader.go(given_)
        assert f"request {wanted} of 9" in shown(reader)
    reader.go("77\x1b")
    assert "model call '77\\x1b'" in shown(reader)
    assert "request 4 of 9" in shown(reader)


def test_only_one_agent_and_all_again(reader: ReplayReader) -> None:
    reader.go("5")
    reader.only_agent()
    assert "only this agent" in shown(reader)
    numbers = []
    for _ in range(4):
        numbers.append(reader.number)
        reader.step(1)
    assert numbers == [5, 6, 8, 8]
    reader.only_agent()
    reader.step(1)
    assert reader.number == 9


def test_another_agents_request_leads_to_the_nearest_of_this_one(reader: ReplayReader) -> None:
    reader.agent = reader.steps.requests[4].agent_id
    for by, wanted in ((1, 8), (-1, 6)):
        reader.number = 7
        reader.step(by)
        assert reader.number == wanted
    reader.go("1")
    assert (reader.agent, reader.number) == (None, 1)


def test_each_side_of_a_request_can_be_seen(reader: ReplayReader) -> None:
    reader.go("9")
    reader.look("context")
    assert "The full context: 8 messages" in shown(reader)
    reader.step(-1)
    assert "The full context: 7 messages" in shown(reader)
    reader.look("tools")
    assert "3 tools: task, discuss, terminate" in shown(reader)
    reader.look("raw")
    assert '"event_type": "llm_request"' in shown(reader)
    reader.look("raw")
    assert "Context" in shown(reader)
    reader.look("help")
    assert HELP.splitlines()[0] in shown(reader)
    assert max(map(len, HELP.splitlines())) <= 80
    reader.leave()
    assert "Context" in shown(reader)


def test_a_search_goes_round_and_its_places_stand_out(reader: ReplayReader) -> None:
    reader.search("STRANGER")
    assert reader.number == 2
    found = {reader.number}
    for _ in range(4):
        reader.again(1)
        found.add(reader.number)
    assert found == {2, 3, 5}
    assert ("reverse", "stranger") in [span for row in reader.frame(80, 24) for span in row]
    reader.again(-1)
    reader.search("no such words")
    assert "nowhere: no such words" in shown(reader)
    reader.leave()
    assert "n next" in shown(reader)


def test_a_long_page_is_scrolled_and_space_leads_on_at_its_end(tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as play:
        play.hears(play.root, "\n".join(f"line {n}" for n in range(100)))
        play.answers(play.root, play.asks(play.root), "yes")
        play.asks(play.root)
        reader = reader_of(play.session.path)
    assert "line 3" in shown(reader, 40, 12)
    assert "line 50" not in shown(reader, 40, 12)
    reader.scroll(10_000)
    assert "yes" in shown(reader, 40, 12)
    reader.scroll(-10_000)
    assert "Context" in shown(reader, 40, 12)
    for _ in range(20):
        if reader.number == 1:
            reader.on()
            shown(reader, 40, 12)
    assert reader.number == 2


def test_a_request_with_nothing_new_says_so_and_many_that_are_gone_are_counted(
    tmp_path: Path,
) -> None:
    with LogBuilder(tmp_path) as play:
        for n in range(20):
            play.hears(play.root, f"message {n} about something of its own")
        play.asks(play.root)
        play.asks(play.root)
        kept = [ev.Segment(start=19, stop=20)]
        play.session.append(ev.TranscriptEdited(agent_id=play.root, segments=kept))
        play.asks(play.root)
        play.session.append(ev.TranscriptEdited(agent_id=play.root, segments=[]))
        play.asks(play.root)
        reader = reader_of(play.session.path)
    for number, wanted in ((2, "= 20 messages as before"), (3, "- and 7 more")):
        reader.go(str(number))
        assert wanted in shown(reader)
    assert "= 1 message as before" in shown(reader)
    reader.go("4")
    assert "= 0 messages as before" not in shown(reader)
    assert "- user: message 19" in shown(reader)


SIGHTS: list[Callable[[ReplayReader], None]] = [
    lambda reader: reader.look("context"),
    lambda reader: reader.look("tools"),
    lambda reader: reader.look("raw"),
    lambda reader: reader.look("help"),
    lambda reader: reader.step(1),
    lambda reader: reader.step(-1),
    lambda reader: reader.on(),
    lambda reader: reader.scroll(3),
    lambda reader: reader.scroll(-3),
    lambda reader: reader.only_agent(),
    lambda reader: reader.search("Jack"),
    lambda reader: reader.again(1),
    lambda reader: reader.leave(),
    lambda reader: reader.go("5"),
    lambda reader: reader.end(last=True),
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, len(SIGHTS) - 1), max_size=12),
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 30)), min_size=1, max_size=3),
)
def test_whatever_is_done_the_window_is_full_and_no_row_is_too_wide(
    log: Path, keys: list[int], sizes: list[tuple[int, int]]
) -> None:
    reader = reader_of(log)
    for at, key in enumerate(keys):
        width, height = sizes[at % len(sizes)]
        SIGHTS[key](reader)
        rows = reader.frame(width, height)
        assert len(rows) == height
        assert all(cell_width("".join(text for _, text in row)) <= max(width, 2) for row in rows)


def test_a_thousand_requests_show_at_once(tmp_path: Path) -> None:
    """The long form of it is measured in benchmarks; here it must only not be slow."""
    with LogBuilder(tmp_path) as play:
        play.hears(play.root, "Hi")
        for n in range(300):
            play.hears(play.root, f"and then {n}")
            play.answers(play.root, play.asks(play.root), f"yes {n}")
        viewer = SessionViewer(play.session.path)
        assert len(viewer.events) > 900
    began = process_time()
    reader = ReplayReader(RequestSteps(viewer.events), viewer)
    reader.frame(80, 24)
    reader.end(last=True)
    reader.look("context")
    reader.frame(80, 24)
    assert process_time() - began < 5
