"""Terminals that can only print lines get plain lines."""

from __future__ import annotations

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER


def test_a_dumb_terminal_can_be_asked(chat: Chat) -> None:
    terminal = chat(asks=True, TERM="dumb")
    terminal.type("brew" + ENTER)
    terminal.wait("main requests brew:\nbrew green tea\n  1 always, for brew(green tea)")
    terminal.type("not so late" + ENTER)
    terminal.wait("denied it: not so late>.")
    terminal.type("brew" + ENTER)
    terminal.wait(lambda: terminal.text.count("1 always, for brew(green tea)") == 2)
    terminal.type("1" + ENTER)
    terminal.wait("I heard <cup 0 of green tea")
    terminal.type("ask" + ENTER)
    terminal.wait("main asks: Which tea?", "2 black tea", "answer>")
    terminal.type("2" + ENTER)
    terminal.wait("I heard <black tea>.")


def test_a_dumb_terminal_gets_plain_lines_without_a_single_code(chat: Chat) -> None:
    terminal = chat(TERM="dumb")
    terminal.type("hello" + ENTER)
    terminal.wait("Hi **there**, friend.")
    terminal.type("/cost" + ENTER)
    terminal.wait("together", "1.5k in (900 cached)")
    terminal.type("/help" + ENTER)
    terminal.wait("Keys\n  Ctrl-C       stop the turn", "/help COMMAND shows")
    assert "Ctrl-G" not in terminal.text  # there is no screen that it could change
    terminal.type("slow" + ENTER)
    terminal.settle()
    terminal.type(CTRL_C)
    terminal.wait("Interrupted")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "\x1b" not in terminal.written
