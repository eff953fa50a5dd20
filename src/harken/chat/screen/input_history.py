"""Input history in the home folder, readable by its owner only, and folded pastes.

A long text that is pasted is represented in the input by a short marker, and is sent in full.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from prompt_toolkit.history import FileHistory

from harken.core.secrets.redaction import Credentials

LINES = 15
CHARACTERS = 2000
_MARKER_PATTERN = re.compile(r"\[paste (\d+): \d+ (?:lines?|characters)\]")


class Pastes(msgspec.Struct):
    """The pasted long texts, in order."""

    texts: list[str] = msgspec.field(default_factory=list)

    def fold(self, text: str) -> str:
        r"""Return the marker of a pasted text, or the text itself if it is short.

        >>> Pastes().fold("x\n" * 100)
        '[paste 1: 100 lines]'
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = len(text.splitlines())
        if lines <= LINES and len(text) <= CHARACTERS:
            return text
        self.texts.append(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste {len(self.texts)}: {size}]"

    @staticmethod
    def has_mark(text: str) -> bool:
        """Whether a text contains the marker of a paste, which is invalid in another chat."""
        return _MARKER_PATTERN.search(text) is not None

    def unfold(self, text: str) -> str:
        """Return a text with its markers replaced by the pasted texts."""
        return _MARKER_PATTERN.sub(self._text, text)

    def _text(self, match: re.Match[str]) -> str:
        number = int(match[1]) if len(match[1]) < 9 else 0
        return self.texts[number - 1] if 0 < number <= len(self.texts) else match[0]


MAX_HISTORY_CHARS = 20_000
"""The maximum characters of a stored text; a longer one was pasted, and is in the log."""


class PrivateHistory(FileHistory):
    """A history in a file. Errors of reading or writing it are ignored."""

    def __init__(self, path: Path, redact: Credentials | None = None) -> None:
        """Use the file at `path`. Credentials are not written if `redact` removes them."""
        super().__init__(str(path))
        self._redact = redact
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def load_history_strings(self) -> Iterable[str]:
        try:
            return [*super().load_history_strings()]
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        if len(string) <= MAX_HISTORY_CHARS and not Pastes.has_mark(string):
            with suppress(OSError):
                super().store_string(
                    string if self._redact is None else self._redact.replace(string)
                )
