"""Questions: what agents ask, and what the user's keys answer."""

from __future__ import annotations

from collections.abc import Callable

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, ENTER, ESCAPE, SHIFT_TAB


def test_a_permission_question_shows_what_is_wanted_and_y_allows_it(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat(asks=True)
    terminal.say("brew")
    terminal.wait("main requests brew", "brew green tea", "waiting for you", "y yes   a always")
    terminal.type("y")
    shown = terminal.wait("I heard", "1 call", lambda: "requests" not in terminal.text)
    assert "● brew(green tea)" in shown
    assert "  cup 3 of green tea\n  … 5 more lines (/show" in shown
    assert '"content":"ALLOW"' in log()
    terminal.type("\x0f")  # Ctrl-O
    terminal.wait("cup 8 of green tea")


def test_a_rule_can_be_chosen_that_allows_it_from_now_on(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat(asks=True)
    terminal.say("brew")
    terminal.wait("a always")
    terminal.type("a")
    terminal.wait("1 brew(green tea)", "Esc goes back")
    terminal.type(ESCAPE)
    terminal.wait("a always")
    terminal.type("a")
    terminal.wait("1 brew(green tea)")
    terminal.type("1")
    terminal.wait("› 1 brew(green tea)", "Enter allows it")
    terminal.type(ENTER)
    terminal.wait("allowed from now on: brew(green tea)", "● brew(green tea)", "I heard")
    assert "ALLOW from now on: brew(green tea)" in log()
    terminal.say("brew")
    terminal.wait(lambda: terminal.text.count("● brew(green tea)") == 2)  # and nothing was asked


def test_no_may_come_with_a_reason_that_the_agent_reads(chat: Chat) -> None:
    terminal = chat(asks=True)
    terminal.say("brew")
    terminal.wait("e no, with a reason")
    terminal.type("e")
    terminal.wait("reason or instruction")
    terminal.type("too late for tea" + ENTER)
    terminal.wait("the user denied it: too late for tea", "I heard")
    assert terminal.cell("Error: brew was not").fg == "red"


def test_a_diff_is_coloured_and_can_be_seen_whole(chat: Chat) -> None:
    terminal = chat(asks=True, rows=30)
    terminal.say("edit")
    terminal.wait("main requests edit", "more lines, v shows all", "n no")
    assert terminal.cell("+of tea").fg == "green"
    assert terminal.cell("-of coffee").fg == "red"
    terminal.type("v")
    terminal.wait(lambda: terminal.text.count("+of tea") > 30)
    terminal.type("n")
    terminal.wait("Error: edit was not run: the user denied it", "I heard")


def test_several_agents_ask_one_after_the_other(chat: Chat) -> None:
    terminal = chat(asks=True)
    terminal.say("both")
    terminal.wait("Bob requests brew", "y yes")
    terminal.type("y")
    terminal.wait("Cleo requests edit", "y yes")
    terminal.type("n")
    shown = terminal.wait("I heard", "3 agents")
    assert "  ● Bob brew(green tea)" in shown
    assert "  ● Cleo edit(menu.txt)" in shown


def test_a_question_takes_a_number_or_words(chat: Chat) -> None:
    terminal = chat(asks=True)
    terminal.say("ask")
    terminal.wait("main asks", "Which tea?", "1 green tea", "2 black tea", "your own text")
    terminal.type("2" + ENTER)
    terminal.wait("● ask_user(Which tea?)\n  black tea", "I heard <black tea>")
    terminal.say("ask")
    terminal.wait("your own text")
    terminal.type("2 cups of any" + ENTER)
    terminal.wait("I heard <2 cups of any>")


def test_escape_and_ctrl_c_stop_the_turn_that_asks(chat: Chat) -> None:
    terminal = chat(asks=True)
    for key in (ESCAPE, CTRL_C):
        terminal.say("brew")
        terminal.wait("y yes")
        terminal.type(key)
        terminal.wait(lambda: "stopped" in terminal.visible.rpartition("brew")[2])
        terminal.wait(lambda: "requests" not in terminal.visible)
    terminal.say("hello")
    terminal.wait("Hi there, friend.")


def test_a_draft_is_set_aside_to_answer_and_comes_back(chat: Chat) -> None:
    terminal = chat(asks=True)
    terminal.type("brew" + ENTER + "yay" * 20)
    terminal.wait("main requests brew", "› " + "yay" * 20, "Shift-Tab sets it aside")
    terminal.type(SHIFT_TAB)
    terminal.wait("y yes", "set aside (Shift-Tab brings it back): yayyay")
    terminal.type(SHIFT_TAB)
    terminal.wait("› " + "yay" * 20, "Shift-Tab sets it aside")
    terminal.type(SHIFT_TAB)
    terminal.wait("y yes")
    assert "cup" not in terminal.text
    terminal.type("y")
    terminal.wait("cup 3", "› " + "yay" * 20)


def test_a_draft_that_is_sent_makes_room_for_the_answer(chat: Chat) -> None:
    terminal = chat(asks=True)
    terminal.type("brew" + ENTER + "no sugar")
    terminal.wait("main requests brew", "› no sugar", "Enter sends it")
    terminal.type(ENTER)
    terminal.wait("then: no sugar", "y yes")
    terminal.type("y")
    terminal.wait("cup 3", "I heard <no sugar>")


def test_a_sentence_that_begins_with_no_choice_becomes_the_draft(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat(asks=True)
    terminal.say("brew")
    terminal.wait("y yes")
    for letters in ("dr", "a", "ft line 1, you say" + ENTER):
        terminal.type(letters)
    terminal.wait("draft line 1, you say", "y yes")
    terminal.type("a")
    terminal.wait("1 brew(green tea)")
    terminal.type("\x1b[200~y\x1b[201~")
    terminal.wait("› y", "Shift-Tab sets it aside")
    assert "ALLOW" not in log()
    assert "cup 3" not in terminal.text


def test_what_cannot_be_seen_is_not_allowed_blindly(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat(asks=True, columns=60, rows=3)
    terminal.say("brew")
    terminal.wait("y yes")
    assert "brew green tea" not in terminal.visible
    terminal.type("y")
    terminal.wait(lambda: "brew green tea" in terminal.text)
    assert "ALLOW" not in log()
    terminal.type("y")
    terminal.wait(lambda: "cup 3" in terminal.text)
