"""`harken replay` in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken.cli.commands.demo import play as play_demo
from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER, ESCAPE, HARKEN, Terminal
from tests.unit.views.log_builder import LogBuilder

Replay: TypeAlias = Callable[..., Terminal]
RIGHT, LEFT, DOWN, END, PAGE_DOWN = "\x1b[C", "\x1b[D", "\x1b[B", "\x1b[F", "\x1b[6~"


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    """Start `harken replay` of a demo, or of another log."""
    with ExitStack() as stack:

        def start(*arguments: str | Path, **options: Any) -> Terminal:
            if not arguments:
                play_demo(tmp_path / "demo.jsonl")
                arguments = (tmp_path / "demo.jsonl",)
            command = [HARKEN, "replay", "--home", tmp_path / "home", *arguments]
            return stack.enter_context(Terminal(*command, **options))

        yield start


def seen(terminal: Terminal, text: str) -> bool:
    return text in terminal.visible


def test_keys_lead_through_a_session(replay: Replay) -> None:
    terminal = replay()
    terminal.wait("request 1 of 9", "Context", "? help")
    for key, wanted in (
        ("n", "request 2 of 9"),
        (RIGHT, "request 3 of 9"),
        ("b", "request 2 of 9"),
        (LEFT, "request 1 of 9"),
        (" ", "request 2 of 9"),
        (END, "request 9 of 9"),
        ("g5" + ENTER, "request 5 of 9 · Jill"),
        ("a", "only this agent"),
        ("n", "request 6 of 9 · Jill"),
        ("nn", "this is the last request"),
        ("c", "The full context: 7 messages"),
        ("t", "3 tools: task, discuss, terminate"),
        ("j", '"event_type": "llm_request"'),
        ("d", "Context"),
        ("?", "what went wrong"),
        (ESCAPE, "Context"),
    ):
        terminal.type(key)
        terminal.wait(partial(seen, terminal, wanted))
    terminal.type("q")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.written


def test_a_search_finds_and_goes_on_with_n(replay: Replay) -> None:
    terminal = replay()
    terminal.wait("request 1 of 9")
    terminal.type("/stranger" + ENTER)
    terminal.wait("request 2 of 9", "/stranger")
    assert terminal.cell("stranger.").reverse
    terminal.type("n")
    terminal.wait("request 3 of 9")
    terminal.type(ESCAPE)
    terminal.wait(lambda: "n next  b back" in terminal.visible)
    terminal.type("n")
    terminal.wait("request 4 of 9")
    terminal.type("/" + ESCAPE)
    terminal.wait(lambda: "n next  b back" in terminal.visible)
    terminal.type(CTRL_C)
    assert terminal.end() == 0


@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (3, 2), (1, 1)])
def test_a_small_terminal_is_enough(replay: Replay, columns: int, rows: int) -> None:
    terminal = replay(columns=columns, rows=rows)
    terminal.settle()
    for key in ("n", "c", "t", "j", "?", PAGE_DOWN, DOWN, "g3" + ENTER, "/Jack" + ENTER):
        terminal.type(key)
        terminal.settle()
    terminal.type("q")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.written


def test_a_terminal_may_become_narrower_and_wider(replay: Replay) -> None:
    terminal = replay()
    terminal.wait("request 1 of 9")
    terminal.resize(40, 10)
    terminal.wait(lambda: "You are the host of a small cafe.\n" in terminal.visible)
    terminal.resize(100, 30)
    terminal.wait(lambda: "? help" in terminal.visible.splitlines()[-1])
    terminal.type("q")
    assert terminal.end() == 0


def test_hostile_text_cannot_reach_the_terminal(replay: Replay, tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as play:
        play.hears(play.root, "a\x1b]0;owned\x07b \u202e \x9b2J 日本語 👨‍👩‍👧")
        play.answers(play.root, play.asks(play.root), "c\x1b[31m\ud800")
        log = play.session.path
    terminal = replay(log)
    terminal.wait("a\\x1b]0;owned\\x07b")
    for key in ("c", "j", "t", "d"):
        terminal.type(key)
        terminal.settle()
    assert "\x1b]0;owned" not in terminal.written
    assert "\u202e" not in terminal.written
    terminal.type("q")
    assert terminal.end() == 0


def test_a_chat_lends_its_terminal_and_has_it_back(chat: Chat) -> None:
    terminal = chat()
    terminal.say("hello")
    terminal.wait("12 out")
    terminal.say("/replay")
    terminal.wait(
        lambda: "request 1 of 1" in terminal.visible, lambda: "? help" in terminal.visible
    )
    terminal.type("q")
    terminal.wait(lambda: "› type a message" in terminal.visible)
    terminal.say("/replay --at 9")
    terminal.wait("model call '9' not found")
    terminal.say("hello")
    terminal.wait(
        "12 out"
    )  # what the other one drew has overwritten the first: pyte has one screen
    terminal.type(CTRL_D)
    assert terminal.end() == 0
