"""Turns, ears and pace: what runs while the user types, and what is drawn of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

from harken import Budget
from harken.chat.open_chat import OpenChat
from harken.chat.render.greeting import iter_greeting, iter_last_exchanges, past_events
from harken.chat.render.model_failure import format_failure
from harken.chat.running.turns import TurnResult, Turns
from harken.chat.screen.event_queue import EventQueue, QueuedItem
from harken.chat.screen.screen import FrameLimiter
from harken.config.settings import Settings
from harken.core.events import SessionEnded
from harken.core.ids import AgentId
from harken.core.stream import TextDelta
from harken.errors import AgentBusy, ModelError
from harken.terminal.environment import TerminalEnvironment
from harken.terminal.event_lines import format_model_name
from tests.agent_kit import Stage, open_stage, run, script_model
from tests.cli.screen.printer_kit import drawn
from tests.unit.agents.compaction_kit import talk

MAIN = AgentId("agent_001")


class Playing:
    """Turns of a stage, and how they ended."""

    def __init__(self, one: Stage) -> None:
        self.ends: list[TurnResult] = []
        self.failures: list[BaseException] = []
        self.turns = Turns(opened(one), self.ends.append, self.failures.append)

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await asyncio.sleep(0.001)


def opened(one: Stage) -> OpenChat:
    return OpenChat(one.root, one.session, one.runtime, Settings())


async def sleepy(_: object) -> str:
    await asyncio.sleep(60)
    return "never"


def test_what_waits_is_sent_when_the_turn_before_has_an_answer(tmp_path: Path) -> None:
    async def act() -> None:
        one = open_stage(tmp_path, script_model(main=["One.", "Two.", "Three."]))
        playing = Playing(one)
        playing.turns.start("a")
        playing.turns.queued.add("b")
        playing.turns.queued.add("c")
        await playing.until(lambda: len(playing.ends) == 3)
        assert [str(end.answer) for end in playing.ends] == ["One.", "Two.", "Three."]
        assert one.user_messages("main") == ["a", "b", "c"]
        assert not playing.turns.running

    run(act())


def test_a_turn_that_is_stopped_ends_without_an_answer_and_what_waits_stays(
    tmp_path: Path,
) -> None:
    async def act() -> None:
        playing = Playing(open_stage(tmp_path, script_model(main=[sleepy, "Two."])))
        playing.turns.stop()  # nothing runs
        playing.turns.start("a")
        playing.turns.queued.add("b")
        await asyncio.sleep(0.01)
        playing.turns.stop()
        await playing.until(lambda: playing.ends)
        [end] = playing.ends
        assert (end.answer, end.error, end.stopped) == (None, None, True)
        assert playing.turns.queued.take_back() == "b"

    run(act())


def test_a_compaction_is_work_of_its_own_and_what_waits_is_sent_then(tmp_path: Path) -> None:
    async def act() -> None:
        one = open_stage(tmp_path, talk(main=["One.", "Two."]))
        playing = Playing(one)
        playing.turns.start("a")
        with pytest.raises(AgentBusy):
            playing.turns.compact("")
        await playing.until(lambda: playing.ends)
        playing.turns.compact("the tea")
        playing.turns.queued.add("b")
        await playing.until(lambda: len(playing.ends) == 3)
        compacted, answered = playing.ends[1:]
        assert (compacted.answer, compacted.stopped) == (None, False)
        assert compacted.note.startswith("2 messages summarized: ")
        assert (str(answered.answer), answered.note) == ("Two.", "")

    run(act())


def test_a_compaction_that_fails_or_is_stopped_ends_like_a_turn(tmp_path: Path) -> None:
    async def act() -> None:
        lines: Iterator[ModelError | str] = iter([ModelError("no line")])

        async def summary(_: object) -> str:
            for line in lines:
                raise line  # type: ignore[misc]
            return await sleepy(None)

        playing = Playing(open_stage(tmp_path, talk(main=["One."], compaction=summary)))
        playing.turns.start("a")
        await playing.until(lambda: playing.ends)
        playing.turns.compact("")
        await playing.until(lambda: len(playing.ends) == 2)
        assert str(playing.ends[1].error) == "no line"
        playing.turns.compact("")
        await asyncio.sleep(0.01)
        playing.turns.stop()
        await playing.until(lambda: len(playing.ends) == 3)
        assert (playing.ends[2].stopped, playing.ends[2].note) == (True, "")

    run(act())


def test_a_compaction_that_the_budget_does_not_allow_is_told_and_the_chat_goes_on(
    tmp_path: Path,
) -> None:
    async def act() -> None:
        one = open_stage(tmp_path, talk(main=["One.", "Two."]), budget=Budget(model_calls=1))
        playing = Playing(one)
        playing.turns.start("a")
        await playing.until(lambda: playing.ends)
        playing.turns.compact("")
        await playing.until(lambda: playing.ends[1:] or playing.failures)
        assert playing.failures == []
        assert "1 model call" in playing.ends[1].note
        assert not playing.turns.running

    run(act())


def test_a_failed_model_call_is_how_a_turn_ended(tmp_path: Path) -> None:
    async def act() -> None:
        answers: Iterator[str | ModelError] = iter([ModelError("no line"), "Two."])

        def answer(_: object) -> str:
            said = next(answers)
            if isinstance(said, ModelError):
                raise said
            return said

        playing = Playing(open_stage(tmp_path, script_model(main=[answer])))
        playing.turns.start("a")
        await playing.until(lambda: playing.ends)
        assert str(playing.ends[0].error) == "no line"
        playing.turns.start(None)
        await playing.until(lambda: len(playing.ends) == 2)
        assert playing.ends[1].answer == "Two."

    run(act())


def test_what_no_turn_should_raise_is_given_on(tmp_path: Path) -> None:
    async def act() -> None:
        one = open_stage(tmp_path, script_model(main=["One."]))
        playing = Playing(one)
        one.session.close()
        playing.turns.start("a")
        await playing.until(lambda: playing.failures)
        assert not playing.turns.running
        await playing.turns.close()

    run(act())


def test_closing_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def act() -> None:
        playing = Playing(open_stage(tmp_path, script_model(main=[sleepy])))
        playing.turns.start("a")
        await asyncio.sleep(0.01)
        await playing.turns.close()
        assert len(playing.ends) == 1

    run(act())


def test_ears_give_on_in_order_what_was_heard_also_before_they_were_open() -> None:
    async def act() -> None:
        batches: list[list[QueuedItem]] = []
        asked: list[int] = []
        ears = EventQueue()
        ears.on_items = lambda batch: batches.append([*batch])
        ears.streaming = lambda: asked.append(len(asked))
        first, second = SessionEnded(reason="1"), SessionEnded(reason="2")
        ears.on_event(first)
        ears.open()
        ears.on_chunk(MAIN, TextDelta("a"))
        assert (batches, asked) == ([], [0])
        thread = Thread(target=ears.on_event, args=(second,))
        thread.start()
        thread.join()
        await asyncio.sleep(0.01)
        assert batches == [[first, (MAIN, TextDelta("a")), second]]
        ears.on_chunk(MAIN, TextDelta("b"))
        ears.close()
        ears.on_event(first)
        await asyncio.sleep(0.01)
        assert batches[1:] == [[(MAIN, TextDelta("b"))]]

    asyncio.run(act())


def test_what_is_asked_often_is_drawn_at_once_and_then_once_a_frame() -> None:
    async def act() -> None:
        loop = asyncio.get_running_loop()
        drawn_at: list[float] = []
        pace = FrameLimiter(lambda: drawn_at.append(loop.time()), frame_s=0.05)
        pace.request_draw()
        await asyncio.sleep(0)
        assert len(drawn_at) == 1
        began = loop.time()
        while loop.time() - began < 0.28:
            pace.request_draw()
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)  # the last wish is not lost
        assert 2 <= len(drawn_at) <= 7
        assert all(later - earlier > 0.045 for earlier, later in pairwise(drawn_at))

    asyncio.run(act())


def test_words_that_come_do_not_wait_for_a_beat_of_the_clock() -> None:
    assert how_often_drawn(FrameLimiter.draw_if_due, FrameLimiter.request_draw) == [1, 2]


def test_a_beat_draws_nothing_where_something_was_just_drawn_or_soon_is() -> None:
    assert how_often_drawn(
        FrameLimiter.request_draw,
        FrameLimiter.draw_if_due,
        FrameLimiter.request_draw,
        FrameLimiter.draw_if_due,
    ) == [1, 1, 1, 1]


def test_beats_alone_are_all_drawn() -> None:
    assert how_often_drawn(FrameLimiter.draw_if_due, FrameLimiter.draw_if_due) == [1, 2]


def how_often_drawn(*steps: Callable[[FrameLimiter], None]) -> list[int]:
    """Return how often was drawn until after each step; all are within one frame."""

    async def act() -> list[int]:
        drawn: list[None] = []
        counts: list[int] = []
        pace = FrameLimiter(lambda: drawn.append(None), frame_s=60)
        for step in steps:
            step(pace)
            await asyncio.sleep(0.001)
            counts.append(len(drawn))
        return counts

    return asyncio.run(act())


def test_a_failure_says_what_why_and_how_to_go_on() -> None:
    lines = drawn([format_failure(ModelError("too\nmany\x1b", why="rate_limit", status=429))])
    assert lines == [
        "✗ too many\\x1b (HTTP 429)",
        "  nothing is lost; wait a moment; then Enter retries",
    ]


HERE = TerminalEnvironment(folder=Path("/home/ann/tea"), user_home="/home/ann")


def test_the_greeting_is_two_lines(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."]))
    assert drawn(iter_greeting(opened(one), HERE)) == [
        "harken · play · ~/tea",
        "/help lists commands and keys · Ctrl-D ends",
    ]


def test_a_new_session_has_nothing_to_show_again(tmp_path: Path) -> None:
    one = opened(open_stage(tmp_path, script_model()))
    assert drawn(iter_last_exchanges(one, past_events(one))) == []


def test_of_an_old_session_the_last_exchanges_are_shown(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["A.", "B.", "C.", "D.", ModelError("no line")]))
    for text in "abcd":
        one.ask(text)
    again = opened(one.resume())
    assert drawn(iter_last_exchanges(again, past_events(again))) == [
        "… 1 earlier exchange (/view perspective main)",
        *("› b", "B.", "› c", "C.", "› d", "D."),
    ]


def test_an_old_session_says_that_its_last_turn_was_cut_off(tmp_path: Path) -> None:
    def dies(_: object) -> Awaitable[str]:
        raise ModelError("no line")

    one = open_stage(tmp_path, script_model(main=[dies]))
    playing = Playing(one)

    async def act() -> None:
        playing.turns.start("a")
        await playing.until(lambda: playing.ends)

    run(act())
    again = opened(one.resume())
    assert drawn(iter_last_exchanges(again, past_events(again))) == [
        "› a",
        "no line",
        "The last turn was interrupted: Enter continues it.",
    ]


def test_a_model_of_a_file_is_named_by_the_file_alone() -> None:
    assert format_model_name("replay:/a/b/s.jsonl") == "replay:s.jsonl"
    assert format_model_name("scripted:demo") == "scripted:demo"
    assert format_model_name("openai/gpt/x") == "openai/gpt/x"
    assert format_model_name(None) == "no model"
