"""Pastes: a long text that is pasted stands in the input as a short mark, and is sent whole."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LINES = 15
CHARACTERS = 2000
_MARK = re.compile(r"\[paste (\d+): \d+ (?:lines?|characters)\]")


@dataclass(slots=True)
class Pastes:
    """The long texts that were pasted, in order."""

    texts: list[str] = field(default_factory=list)

    def fold(self, text: str) -> str:
        r"""Return what stands in the input for a pasted text: itself where it is short.

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
        """Whether a text has the mark of a paste in it, which means nothing to another chat."""
        return _MARK.search(text) is not None

    def unfold(self, text: str) -> str:
        """Return a text with what was pasted in place of its marks."""
        return _MARK.sub(self._text, text)

    def _text(self, found: re.Match[str]) -> str:
        number = int(found[1]) if len(found[1]) < 9 else 0
        return self.texts[number - 1] if 0 < number <= len(self.texts) else found[0]
