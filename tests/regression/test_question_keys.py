"""Questions in the chat: ordinary typing is never an answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.kit import ENTER, PROGRAM, SHIFT_TAB, UP, Terminal

SCRIPT = """\
rules:
  - pattern: '^later'
    calls: [{brew: {what: green tea}}]
    delay_s: 1.5
  - pattern: '^brew'
    calls: [{brew: {what: green tea}}]
  - pattern: '^ask'
    calls: [{ask_user: {question: "Which tea?", options: [green tea, black tea]}}]
  - pattern: '^both'
    calls:
      - task: {name: Bob, instructions: You are Bob., prompt: brew}
      - task: {name: Cleo, instructions: You are Cleo., prompt: brew}
  - pattern: '(?s).*'
    answer: Done.
"""
TEXT_FIRST = "keys go to your text"
ALLOWED = '"content":"ALLOW"'


class Asking(Terminal):
    """A chat whose tools ask the user."""

    def __init__(self, folder: Path, prompt: str = "›", term: str = "xterm-256color") -> None:
        script = folder / "tea.yaml"
        script.write_text(SCRIPT)
        self.home = folder / "home"
        super().__init__(sys.executable, PROGRAM, self.home, script, TERM=term)
        self.wait(prompt)

    @property
    def log(self) -> str:
        """The text of the session log."""
        [path] = (self.home / "sessions").glob("*.jsonl")
        return path.read_text()

    def press_slowly(self, keys: str, gap_s: float) -> None:
        """Press keys, each so long after the one before."""
        for key in keys:
            self.type(key)
            until = time.monotonic() + gap_s
            while (left := until - time.monotonic()) > 0:
                self.read(left)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Asking]:
    """A chat in a terminal."""
    with Asking(tmp_path) as asking:
        yield asking


@pytest.mark.parametrize(
    "gaps",
    [
        pytest.param((0.6, 0.05, 1.5), id="some"),
        pytest.param((0.9, 0.1, 0.3, 1.2, 3.0), id="more", marks=pytest.mark.full),
    ],
)
def test_a_word_typed_at_any_speed_answers_no_question(
    terminal: Asking, gaps: tuple[float, ...]
) -> None:
    """`w`, `h`, `y` typed while a question for a command was shown ran the command.

    Keys counted 0.3 s after the last one, so that the `y` of a slow typist was a yes.
    Now no key answers while the input holds text, nor for a second after the last one.
    """
    for gap_s in gaps:
        terminal.say("brew")
        terminal.wait("main requests brew")
        terminal.press_slowly("why", gap_s)
        assert ALLOWED not in terminal.log
        terminal.wait("› why", TEXT_FIRST)
        assert ALLOWED not in terminal.log
        terminal.type(SHIFT_TAB)
        terminal.wait("set aside (Shift-Tab brings it back): why", "y yes   a always")
        terminal.type("n")
        terminal.wait(lambda: "› why" in terminal.visible)
        terminal.type("\b" * 3)
        terminal.wait(lambda: "type a message" in terminal.visible)
    assert terminal.text.count("the user denied it") == len(gaps)
    assert ALLOWED not in terminal.log


def test_a_draft_from_before_a_question_stays_a_draft(terminal: Asking) -> None:
    """Text that stood in the input when a question came was followed by an answer.

    After 0.3 s without a key the next letter of the same sentence was a yes.
    Now the draft has to be sent, deleted or set aside before a key answers.
    """
    terminal.type("brew" + ENTER + "wh")
    terminal.wait("main requests brew", "› wh", TEXT_FIRST)
    terminal.press_slowly("y", 1.3)
    terminal.wait("› why", TEXT_FIRST)
    terminal.type("\b" * 3)
    terminal.type("y")  # within a second: still ordinary typing
    terminal.wait("› y", TEXT_FIRST)
    assert ALLOWED not in terminal.log
    terminal.type("\b")
    terminal.wait("y yes   a always")
    terminal.type("y")
    terminal.wait("cup 3")


def test_a_key_held_down_answers_one_question_only(terminal: Asking) -> None:
    """The key of an answer, held down, repeats while the next question appears.

    Its repeats answered the next question where 0.3 s had passed between two of them.
    Now they neither answer nor become text.
    """
    terminal.say("both")
    terminal.wait("Bob requests brew", "y yes   a always")
    terminal.press_slowly("y", 0.5)
    terminal.press_slowly("yyyyyy", 0.1)
    terminal.wait("Cleo requests brew", "y yes   a always")
    assert terminal.log.count(ALLOWED) == 1
    assert "› y" not in terminal.visible
    terminal.type("y")
    terminal.wait(lambda: terminal.log.count(ALLOWED) == 2)


def test_several_keys_at_once_are_text(terminal: Asking) -> None:
    """Text pasted into a terminal without bracketed paste began with an answer.

    Its letters arrive as keys: the `y` of `yes, please` was a yes.
    Now keys that arrive together are typing.
    """
    terminal.say("brew")
    terminal.wait("y yes   a always")
    terminal.type(UP + UP)
    terminal.type("yes, please")
    terminal.wait("› yes, please", TEXT_FIRST)
    assert ALLOWED not in terminal.log


@pytest.mark.parametrize("keys", ["\ry", UP + "y", "\ty"])
def test_a_key_right_behind_another_is_text(terminal: Asking, keys: str) -> None:
    """A newline and a `y`, pasted into a terminal without bracketed paste, were a yes.

    The `y` was the last of the keys that arrived together, so nothing waited behind it.
    Now a key that comes right behind another one, whichever that is, is typing.
    """
    terminal.say("brew")
    terminal.wait("y yes   a always")
    terminal.type(keys)
    terminal.wait("› y", TEXT_FIRST)
    assert ALLOWED not in terminal.log


def test_typing_ahead_is_no_answer_in_words(terminal: Asking) -> None:
    """A message typed while an agent asked in words was sent as the answer.

    After a pause of 0.3 s the rest of it, and Enter, went into the line of the answer.
    Now the whole message stays in the input and is sent as a message.
    """
    terminal.type("ask" + ENTER + "milk")
    terminal.wait("Which tea?", "› milk", TEXT_FIRST)
    terminal.press_slowly("y 2" + ENTER, 0.6)
    terminal.wait("then: milky 2", "your own text")
    terminal.type("2" + ENTER)
    terminal.wait("● ask_user(Which tea?)\n  black tea")


def test_a_line_typed_before_a_question_is_no_answer_on_a_dumb_terminal(tmp_path: Path) -> None:
    """A line that was sent while an agent worked answered the question that came then.

    It waited in the terminal, and the next line that was read was the answer.
    Now it is kept, and is the next message.
    """
    with Asking(tmp_path, ">", term="dumb") as terminal:
        terminal.type("later" + ENTER)
        terminal.press_slowly("y" + ENTER, 0.1)
        terminal.wait("main requests brew", "yes, no, or a reason or instruction")
        assert ALLOWED not in terminal.log
        terminal.type("no" + ENTER)
        terminal.wait("> y", lambda: terminal.text.count("Done.") == 2)
        assert ALLOWED not in terminal.log
