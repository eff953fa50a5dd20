"""A conversation that is summed up while one looks on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.terminal.conftest import Chat
from tests.terminal.kit import CTRL_D, ENTER

SUMMARY = """\
rules:
  - agent: compaction
    answer: "Goals: tea for everybody."
    usage: {input_tokens: 1600, output_tokens: 9}
"""


def test_compact_sums_up_and_the_chat_goes_on(
    chat: Chat, log: Callable[[], str], script: Path
) -> None:
    script.write_text(script.read_text().replace("rules:\n", SUMMARY, 1))
    terminal = chat()
    terminal.say("hello")
    terminal.wait("Hi there, friend.", "1.5k context")
    terminal.say("/compact the cups")
    terminal.wait("the context of main was compacted", "2 messages summarized", "› type a message")
    terminal.say("and now")
    terminal.wait("I heard <and now>.")
    assert "tea for everybody" not in terminal.text
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert '"reason":"compaction"' in log()
    assert "keep in particular:\\nthe cups" in log()


def test_a_dumb_terminal_is_told_in_lines(chat: Chat, script: Path) -> None:
    script.write_text(script.read_text().replace("rules:\n", SUMMARY, 1))
    terminal = chat(TERM="dumb")
    terminal.type("/compact" + ENTER)
    terminal.wait("the context is too short to compact")
    terminal.type("hello" + ENTER)
    terminal.wait("Hi **there**, friend.")
    terminal.type("/compact" + ENTER)
    terminal.wait("main: the context was compacted", "2 messages summarized")


def test_the_status_says_how_full_the_context_is(chat: Chat, script: Path) -> None:
    home = script.parent / "home"
    home.mkdir(mode=0o700)
    name = f"scripted:{script}"
    (home / "config.toml").write_text(f'[models."{name}"]\ncontext_window = 3000\n')
    terminal = chat()
    terminal.say("hello")
    terminal.wait("50% of context")
