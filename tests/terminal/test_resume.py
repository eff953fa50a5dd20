"""Sessions that go on: what was said last is there again, and so is a turn that was cut off."""

from __future__ import annotations

import re
from pathlib import Path

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_D, ENTER


def exchanges(lines: list[str]) -> list[str]:
    """Return what was said from "two" on; the sums of turns, and how long thoughts took, aside."""
    start = lines.index("› two")
    end = next(at for at, line in enumerate(lines) if line.endswith("3 dl"))
    sums = re.compile(r"\d+\.\d s( .*)?")
    shown = [line for line in lines[start : end + 1] if line and not sums.fullmatch(line)]
    return [line.replace("thought briefly,", "thought,") for line in shown]


def test_a_resumed_chat_looks_as_it_looked(chat: Chat) -> None:
    first = chat()
    for word in ("one", "two", "make Ann", "markdown"):
        first.say(word)
        first.wait(f"› {word}", lambda: "waiting" not in first.visible, "› type a message")
        first.settle()
    before = exchanges(first.lines)
    first.type(CTRL_D)
    assert first.end() == 0
    second = chat("--continue")
    shown = second.wait("… 1 earlier exchange (/view perspective main)", "3 dl", "› type a message")
    assert "› one" not in shown
    assert exchanges(second.lines) == before
    second.say("hello")
    second.wait("Hi there, friend.")


def test_a_turn_that_was_cut_off_goes_on_with_enter(chat: Chat, script: Path) -> None:
    first = chat()
    first.say("fail")
    first.wait("✗")
    first.type(CTRL_D)
    assert first.end() == 0
    script.write_text("rules: [{pattern: fail, answer: It worked.}]")
    second = chat("--continue")
    second.wait(
        "› fail", "the server is overloaded", "The last turn was interrupted: Enter continues it"
    )
    second.type(ENTER)
    second.wait("It worked.")
