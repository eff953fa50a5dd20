"""The terminal settings that the chat reads from the environment, once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

_REFLOWING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID")
_REFLOWING_PROGRAMS = frozenset({"iTerm.app", "Apple_Terminal", "WezTerm", "ghostty", "vscode"})


class TerminalEnvironment(msgspec.Struct, frozen=True):
    """The folder, history file and terminal capabilities of a chat."""

    folder: Path
    """The folder in which agents act and file names are completed."""
    user_home: str = ""
    history: Path | None = None
    """The file with the user's earlier input."""
    color: bool = True
    reflows: bool = False
    """Whether the terminal rewraps lines when it becomes narrower."""
    term: str | None = None

    @classmethod
    def from_process(cls, history: Path | None = None) -> TerminalEnvironment:
        """Return the settings of this process."""
        environ = os.environ
        return cls(
            folder=Path.cwd(),
            user_home=environ.get("HOME", ""),
            history=history,
            color=not environ.get("NO_COLOR"),
            reflows=any(name in environ for name in _REFLOWING)
            or environ.get("TERM_PROGRAM") in _REFLOWING_PROGRAMS,
            term=environ.get("TERM"),
        )


def has_screen() -> bool:
    """Whether input and output are a terminal with cursor control."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
