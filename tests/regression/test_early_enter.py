"""Keys typed while the chat is starting."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.terminal.kit import ENTER, PROGRAM, Terminal

SCRIPT = """\
rules:
  - pattern: '^early$'
    answer: You were early.
  - pattern: '(?s).*'
    answer: Something else.
"""


def test_a_message_sent_before_the_prompt_is_up_is_sent(tmp_path: Path) -> None:
    """A message was typed while the chat was starting, with Enter after it.

    The terminal was in line mode still and made a newline of Enter: the text stayed in the input.
    Now the message is sent, and what was typed after it stands in the input.
    """
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    with Terminal(sys.executable, PROGRAM, tmp_path / "home", script) as terminal:
        terminal.type("early" + ENTER + "and then")
        terminal.wait("You were early.", "› and then")
        terminal.type(ENTER)
        terminal.wait("Something else.")
