"""What happens outside while the user types: a turn of its own, and what is typed stays."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_agent import SCRIPT
from tests.terminal.conftest import Chat
from tests.terminal.kit import ENTER


def test_an_event_is_answered_while_the_user_types(chat: Chat, tmp_path: Path) -> None:
    script = tmp_path / "events.yaml"
    script.write_text(SCRIPT)
    terminal = chat("--model", f"scripted:{script}", "--permission", "all")
    terminal.type("soon" + ENTER)
    terminal.wait("Done.")
    terminal.type("half a sen")
    shown = terminal.wait("← [event tea] it is", "Tea is ready.", "› half a sen")
    assert shown.index("Done.") < shown.index("← [event tea]") < shown.index("Tea is ready.")
    terminal.type("tence" + ENTER)
    terminal.wait("› half a sentence")


def test_a_dumb_terminal_answers_between_two_lines(chat: Chat, tmp_path: Path) -> None:
    script = tmp_path / "events.yaml"
    script.write_text(SCRIPT)
    terminal = chat("--model", f"scripted:{script}", "--permission", "all", TERM="dumb")
    terminal.type("soon" + ENTER)
    terminal.wait("Done.", "Tea is ready.")
    terminal.type("watch" + ENTER)
    terminal.wait(lambda: terminal.text.count("Done.") == 2)
