"""Narrow, low and changing terminals; letters that are two cells wide."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_D, ENTER


@pytest.mark.parametrize(("columns", "rows"), [(20, 24), (20, 5), (3, 2)])
def test_a_small_terminal_is_enough(chat: Chat, columns: int, rows: int) -> None:
    terminal = chat(columns=columns, rows=rows)
    for word in ("markdown", "wide", "make Ann", "brew"):
        terminal.type(word + ENTER)
        terminal.settle()
    terminal.type("/help" + ENTER)
    terminal.settle()
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text


def test_rows_of_a_list_stay_below_their_column(chat: Chat) -> None:
    terminal = chat(columns=60)
    terminal.say("/view")
    terminal.wait("/view perspective  Show the full perspective of AGENT:")
    assert "\n                   inputs, thinking, actions and answers.\n" in terminal.text
    terminal.resize(30, 24)
    terminal.say("/view tree")
    terminal.wait("main  (agent_001,\n      scripted:tea.yaml")
    terminal.wait("  changed-files  (agent_002,\n    hook)")


def test_words_are_broken_between_cells_not_inside(chat: Chat) -> None:
    terminal = chat(columns=20)
    terminal.say("wide")
    terminal.wait("hold at all", " s\n")
    shown = [line for line in terminal.lines if line]
    assert "".join(shown).replace(" ", "").count("日") == 1
    pieces = "".join("".join(line.split()) for line in shown)
    assert "日本語のお茶はとても美味しいです。🍵🍵🍵" in pieces


def test_a_terminal_may_become_narrower_and_wider_at_any_time(chat: Chat) -> None:
    terminal = chat(columns=100)
    terminal.type("briefly" + ENTER)
    terminal.wait("One")
    terminal.resize(30, 20)
    terminal.read(0.3)
    terminal.resize(60, 12)
    terminal.wait("One two three four five.", " s\n")
    terminal.resize(90, 30)
    terminal.say("hello")
    shown = terminal.wait("Hi there, friend.", "12 out", "› type a message")
    assert shown.count("One two three four five.") == 1
    assert terminal.visible.count("› type a message") == 1


def test_a_live_answer_that_is_higher_than_the_terminal_leaves_nothing_behind(
    chat: Chat,
) -> None:
    terminal = chat(columns=40, rows=8)
    terminal.type("slow" + ENTER)
    terminal.wait(lambda: terminal.visible.count("on and on and on and on") >= 3)
    terminal.type("a\nb\nc\nd")
    terminal.wait("› a\n  b\n  c\n  d")
    terminal.type("\x03")
    terminal.wait("stopped")
    assert terminal.text.count("Second paragraph") == 1
    assert terminal.text.count("writing") == 0
