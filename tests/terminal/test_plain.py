"""Terminals that can only print lines get plain lines."""

from __future__ import annotations

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER


def test_a_dumb_terminal_gets_plain_lines_without_a_single_code(chat: Chat) -> None:
    terminal = chat(TERM="dumb")
    terminal.type("hello" + ENTER)
    terminal.wait("Hi **there**, friend.")
    terminal.type("/cost" + ENTER)
    terminal.wait("together", "1.5k in (900 cached)")
    terminal.type("slow" + ENTER)
    terminal.settle()
    terminal.type(CTRL_C)
    terminal.wait("Interrupted")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "\x1b" not in terminal.written
