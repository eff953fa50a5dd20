r"""Replacing text wherever it stands: in the strings of a JSON text, and in JSON inside of those.

One idea: only string literals are touched, so numbers, order and white space stay as they were,
and half a line can be treated like a whole one.

>>> secret = Secret('pass"word')
>>> print(in_json(b'{"text":"a pass\\"word","n":1.0}', secret.replace).decode())
{"text":"a [purged]","n":1.0}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol, TypeAlias

from harken.core import canonical

PURGED = "[purged]"
LEAST_CHARACTERS = 6
"""A shorter text stands everywhere by chance."""

Replace: TypeAlias = Callable[[str], str]
"""Returns a text without what has to go; the same text where nothing has to."""

_LITERAL = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DEPTH = 2
"""How deep JSON texts are looked for in the strings of JSON texts."""


class TextRemover(Protocol):
    """What has to go from texts and bytes, whatever it is."""

    def replace(self, text: str) -> str:
        """Return a text without it."""
        ...

    def is_in_json(self, data: bytes) -> bool:
        """Whether it may stand in a string of JSON that `codec` wrote: `replace` says for sure."""
        ...

    def spans_in(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield where it begins and ends in bytes that come piece by piece."""
        ...


class Secret:
    """A text that has to go, as it is and as it stands inside of JSON texts.

    Raises ValueError for a text so short, or so ordinary, that what it stands in would go with it.
    """

    def __init__(self, text: str) -> None:
        if len(text.strip()) < LEAST_CHARACTERS:
            raise ValueError(f"a text of less than {LEAST_CHARACTERS} characters stands everywhere")
        if text in PURGED:
            raise ValueError(f"{PURGED} is what stands in the place of purged text")
        self._forms = _forms(text)
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        as_bytes = [form.encode("utf-8", "surrogatepass") for form in longest_first]
        self._in_bytes = re.compile(b"|".join(map(re.escape, as_bytes)))
        in_json = {canonical.to_json_line(form)[1:-1] for form in self._forms}
        self._in_json = re.compile(b"|".join(map(re.escape, in_json)))
        self._longest = len(max(as_bytes, key=len))

    def replace(self, text: str) -> str:
        """Return a text without it."""
        return self._pattern.sub(PURGED, text)

    def cut(self, text: str) -> str:
        """Return a text without it, nor the beginning of it with which the text breaks off."""
        text = self.replace(text)
        for form in self._forms:
            for size in range(min(len(form) - 1, len(text)), LEAST_CHARACTERS - 1, -1):
                if text.endswith(form[:size]):
                    return text[:-size] + PURGED
        return text

    def is_in(self, data: bytes) -> bool:
        """Whether it stands in bytes, in any of its forms."""
        return self._in_bytes.search(data) is not None

    def is_in_json(self, data: bytes) -> bool:
        """Whether it may stand in a string of JSON that `codec` wrote: `in_json` says for sure."""
        return self._in_json.search(data) is not None

    def spans_in(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield where it begins and ends in bytes that come piece by piece, also across borders.

        >>> list(Secret("secret").spans_in([b"a sec", b"re", b"t."]))
        [(2, 8)]
        """
        held, at = b"", 0
        for piece in chain(pieces, [None]):
            held += piece or b""
            sure = len(held) if piece is None else len(held) - self._longest
            done = 0
            for found in self._in_bytes.finditer(held):
                if found.start() > sure:
                    break
                done = found.end()
                yield at + found.start(), at + done
            done = max(done, min(sure + 1, len(held)), 0)
            held, at = held[done:], at + done

    def __repr__(self) -> str:
        """Return what may be shown: a secret is not."""
        return "Secret(...)"


def in_json(data: bytes, replace: Replace) -> bytes:
    """Return a JSON text, or a piece of one, with all its strings replaced, names included."""

    def literal(found: re.Match[bytes]) -> bytes:
        try:
            text: str = json.loads(found[0].decode(), strict=False)
        except ValueError:
            return found[0]
        new = replace(text)
        return found[0] if new == text else canonical.to_json_line(new)

    return _LITERAL.sub(literal, data)


def in_bytes(data: bytes, replace: Replace) -> bytes:
    """Return any bytes with their text replaced; what is no UTF-8 stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    new = replace(text)
    return data if new == text else new.encode("utf-8", "surrogateescape")


def _forms(text: str) -> list[str]:
    """Return the text, and how it is written in JSON, and in JSON in JSON."""
    forms = {text}
    for _ in range(_DEPTH):
        forms |= {
            json.dumps(form, ensure_ascii=plain)[1:-1] for form in forms for plain in (False, True)
        }
    return sorted(forms)
