"""`harken chat --name`, and `--resume` without a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Cli
from tests.terminal.kit import CTRL_C, CTRL_D, ENTER, HARKEN, Terminal

SCRIPT = """\
rules:
  - pattern: '(?s).*'
    expand: true
    answer: 'I heard <\\g<0>>.'
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the sessions `first` and `second`, in this order."""
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    home = tmp_path / "home"
    for name in ("first", "second"):
        chat = (HARKEN, "chat", "--home", home, "--name", name, "--model", f"scripted:{script}")
        with Terminal(*chat) as terminal:
            terminal.wait("›")
            terminal.say(f"the words of {name}")
            terminal.wait(f"I heard <the words of {name}>.")
            terminal.type(CTRL_D)
            terminal.wait(f"--resume {name}")
            assert terminal.end() == 0
    return home


def test_a_session_is_chosen_from_a_list(home: Path) -> None:
    """`harken chat --resume` without a name was an error, and names are made of the time.

    To go on with the session before the last one, its name had to be copied from a list.
    Now sessions can be named, and are offered with their first words.
    """
    with Terminal(HARKEN, "chat", "--home", home, "--resume", columns=100) as terminal:
        terminal.wait("Resume which session?", "1. second", "2. first", "the words of first")
        terminal.type("\x1b[B" + ENTER)
        terminal.wait("› the words of first", "type a message")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    with Terminal(HARKEN, "chat", "--home", home, "--resume", TERM="dumb") as terminal:
        terminal.wait("  2 ", "Resume which session?")
        terminal.type(CTRL_C)
        assert terminal.end() != 0


def test_a_name_is_checked_before_a_session_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a session became the name of its log whatever was in it.

    No command took a name from the user.
    Now one that another name could be mistaken for, or that is taken, is refused.
    """
    cli = Cli(tmp_path / "home", capsys)
    for name in ("latest", "ctx-1", "a/b", ".x", "x.jsonl", ""):
        said = cli.refused("chat", "--home", cli.home, "--name", name, "-p", "hello")
        assert "not a valid session name" in said
    said = cli.refused("chat", "--home", cli.home, "--resume")
    assert "needs a terminal" in said
