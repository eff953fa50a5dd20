"""History: what the user said before, kept in the home folder, readable by its owner only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory

from harken.cli.screen.pastes import Pastes

LONGEST = 20_000
"""Characters of a text that is kept; a longer one was pasted, and is in the log."""


class PrivateHistory(FileHistory):
    """A history in a file. A file that cannot be read or written is no reason not to chat."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def load_history_strings(self) -> Iterable[str]:
        try:
            return [*super().load_history_strings()]
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        if len(string) <= LONGEST and not Pastes.has_mark(string):
            with suppress(OSError):
                super().store_string(string)
