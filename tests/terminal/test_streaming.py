"""What a turn looks like: while it streams, when it ends, when it is cut off or fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER


def test_a_chat_begins_with_its_model_its_folder_and_how_to_get_help(
    chat: Chat, tmp_path: Path
) -> None:
    terminal = chat()
    first, second, *_, prompt, status = terminal.wait("ask").strip().splitlines()
    assert first.startswith("harken · scripted:tea.yaml · ")
    assert second == "/help lists commands and keys · Ctrl-D ends"
    assert prompt == "› type a message, or /help"
    assert status.startswith("scripted:tea.yaml · ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert [*(tmp_path / "home" / "sessions").iterdir()] == []  # nothing was said


def test_a_chat_ends_with_how_to_go_on_with_it(chat: Chat, tmp_path: Path) -> None:
    terminal = chat()
    terminal.say("hello")
    terminal.wait("12 out")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    [log] = (tmp_path / "home" / "sessions").glob("*.jsonl")
    shown = "".join(terminal.text.split())  # the terminal may wrap the line anywhere
    assert f"chat--resume{log.stem}" in shown
    assert "type ahead" not in terminal.text


def test_an_answer_is_typeset_when_it_is_finished_and_stands_there_once(chat: Chat) -> None:
    terminal = chat()
    terminal.say("markdown")
    shown = terminal.wait("3 dl", " s\n")
    for once in ("› markdown", "Tea", "• green", "• black", 'kettle = "on"', "big", "thought"):
        assert shown.count(once) == 1, shown
    assert "```" not in shown
    assert "|" not in shown
    assert terminal.cell("Tea").bold


def test_the_end_of_a_turn_says_what_it_used(chat: Chat) -> None:
    terminal = chat()
    terminal.say("hello")
    terminal.wait("1.5k in (900 cached) · 12 out · 0.")
    assert "$" not in terminal.text  # what it cost is not known
    terminal.wait("1.5k context")


def test_ctrl_c_keeps_what_had_arrived_and_the_session_goes_on(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat()
    terminal.type("slow" + ENTER)
    terminal.wait("First paragraph.", "Second", "writing")
    assert "on and on and on and on and on" not in terminal.text
    terminal.type(CTRL_C)
    terminal.wait("stopped")
    terminal.say("hello")
    shown = terminal.wait("Hi there, friend.", "12 out")
    assert shown.count("First paragraph.") == 1
    assert shown.count("Second") == 1
    assert "writing" not in shown
    assert '"content":"First paragraph.\\n\\nSecond' in log()


def test_a_failed_model_call_is_one_red_line_and_enter_tries_again(chat: Chat) -> None:
    terminal = chat()
    terminal.say("fail")
    terminal.wait("✗ the server is overloaded", "Enter retries")
    assert terminal.cell("the server").fg == "red"
    terminal.type(ENTER)
    terminal.wait(lambda: terminal.text.count("✗ the server is overloaded") == 2)


def test_subagents_are_seen_to_be_born_and_what_they_say_is_folded(chat: Chat) -> None:
    terminal = chat()
    terminal.say("make Ann")
    shown = terminal.wait("I heard", "2 agents")
    lines = [line for line in shown.splitlines() if line.strip()]
    at = lines.index("I will ask her.")
    assert lines[at + 1 : at + 6] == [
        "● task(Ann: Tea or coffee?)",
        "  Ann: Tea.",
        "    Hot.",
        "    With milk.",
        "    In a cup.",
    ]
    more = re.fullmatch(r"    … 2 more lines \((/show \d+)\)", lines[at + 6])
    assert more is not None
    terminal.say(more[1])
    terminal.wait("On a tray.")


def test_escape_sequences_of_a_model_do_nothing(chat: Chat) -> None:
    terminal = chat()
    terminal.say("hostile")
    shown = terminal.wait("a\\x1b]0;owned\\x07 b\\x1b[2J c", " s\n")
    assert "› hostile" in shown  # nothing was cleared
    assert terminal.screen.title != "owned"
    assert "\x1b]8" not in terminal.written
    assert "\x1b]0" not in terminal.written
    assert "\u202e" not in terminal.written
    assert "\x9b" not in terminal.written
    assert terminal.cell("d\\x1b").fg == "default"


def test_without_colour_nothing_is_coloured(chat: Chat) -> None:
    terminal = chat(NO_COLOR="1")
    terminal.say("markdown")
    terminal.wait("3 dl")
    terminal.say("fail")
    terminal.wait("✗")
    codes = {
        code
        for found in re.findall(r"\x1b\[([0-9;]*)m", terminal.written)
        for code in found.split(";")
    }
    assert codes <= {"", "0", "1", "2", "3", "4", "7"}


def test_a_long_answer_scrolls_up_whole(chat: Chat) -> None:
    terminal = chat(rows=10)
    terminal.say("many")
    shown = terminal.wait("Paragraph 39.", " s\n")
    assert [f"Paragraph {number}." for number in range(40)] == [
        line for line in shown.splitlines() if line.startswith("Paragraph")
    ]
