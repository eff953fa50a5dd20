r"""Text replacement in the strings of a JSON text, and in JSON texts inside of those strings.

Only string literals are changed, so numbers, order and white space are preserved, and an
incomplete line can be processed like a complete one.

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
MIN_SECRET_CHARS = 6
"""Minimum length of a secret: a shorter text would match by chance."""

Replace: TypeAlias = Callable[[str], str]
"""Returns a text without the parts to remove; the same text if there are none."""

_LITERAL_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_DEPTH = 2
"""Nesting depth of JSON texts in the strings of JSON texts that is searched."""


class TextRemover(Protocol):
    """An object that removes secrets from texts and finds them in bytes."""

    def replace(self, text: str) -> str:
        """Return a text without the secrets."""
        ...

    def is_in_json(self, data: bytes) -> bool:
        """Whether canonical JSON may contain a secret. Only `replace` is exact."""
        ...

    def find_spans(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret in a stream of bytes."""
        ...


class Secret:
    """A text to remove, in its plain form and in the forms that it has inside of JSON texts.

    Raises ValueError for a text that is too short, or that is part of the replacement text.
    """

    def __init__(self, text: str) -> None:
        if len(text.strip()) < MIN_SECRET_CHARS:
            raise ValueError(
                f"the text must have at least {MIN_SECRET_CHARS} characters: "
                "shorter ones occur everywhere"
            )
        if text in PURGED:
            raise ValueError(f"the text is part of {PURGED}, which replaces purged text")
        self._encoded_forms = _encoded_forms(text)
        longest_first = sorted(self._encoded_forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        as_bytes = [form.encode("utf-8", "surrogatepass") for form in longest_first]
        self._bytes_pattern = re.compile(b"|".join(map(re.escape, as_bytes)))
        in_json = {canonical.to_json_line(form)[1:-1] for form in self._encoded_forms}
        self._json_pattern = re.compile(b"|".join(map(re.escape, in_json)))
        self._max_bytes = len(max(as_bytes, key=len))

    def replace(self, text: str) -> str:
        """Return a text without the secret."""
        return self._pattern.sub(PURGED, text)

    def replace_truncated(self, text: str) -> str:
        """Return a text without the secret, and without a truncated secret at its end."""
        text = self.replace(text)
        for form in self._encoded_forms:
            for size in range(min(len(form) - 1, len(text)), MIN_SECRET_CHARS - 1, -1):
                if text.endswith(form[:size]):
                    return text[:-size] + PURGED
        return text

    def is_in_json(self, data: bytes) -> bool:
        """Whether canonical JSON may contain the secret. Only `in_json` is exact."""
        return self._json_pattern.search(data) is not None

    def find_spans(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each occurrence in a stream of bytes, also across pieces.

        >>> list(Secret("secret").find_spans([b"a sec", b"re", b"t."]))
        [(2, 8)]
        """
        buffer, offset = b"", 0
        for piece in chain(pieces, [None]):
            buffer += piece or b""
            safe_end = len(buffer) if piece is None else len(buffer) - self._max_bytes
            consumed = 0
            for match in self._bytes_pattern.finditer(buffer):
                if match.start() > safe_end:
                    break
                consumed = match.end()
                yield offset + match.start(), offset + consumed
            consumed = max(consumed, min(safe_end + 1, len(buffer)), 0)
            buffer, offset = buffer[consumed:], offset + consumed

    def __repr__(self) -> str:
        """Return a representation without the secret."""
        return "Secret(...)"


def in_json(data: bytes, replace: Replace) -> bytes:
    """Apply `replace` to all strings of a JSON text or of a piece of one, also to member names."""

    def replace_literal(match: re.Match[bytes]) -> bytes:
        try:
            text = _decode_literal(match[0])
        except ValueError:
            return match[0]
        new = replace(text)
        return match[0] if new == text else canonical.to_json_line(new)

    return _LITERAL_PATTERN.sub(replace_literal, data)


def _decode_literal(literal: bytes) -> str:
    """Return the text of a string literal. Raises ValueError."""
    if b"\\" not in literal:  # Most have no escapes, and the decoder takes ten times as long.
        return literal[1:-1].decode()
    text: str = json.loads(literal.decode(), strict=False)
    return text


def replace_in_bytes(data: bytes, replace: Replace) -> bytes:
    """Apply `replace` to bytes as text. Bytes that are not UTF-8 are preserved."""
    text = data.decode("utf-8", "surrogateescape")
    new = replace(text)
    return data if new == text else new.encode("utf-8", "surrogateescape")


def _encoded_forms(text: str) -> list[str]:
    """Return the text, its forms in a JSON string, and its forms in JSON inside a JSON string."""
    forms = {text}
    for _ in range(_MAX_DEPTH):
        forms |= {
            json.dumps(form, ensure_ascii=plain)[1:-1] for form in forms for plain in (False, True)
        }
    return sorted(forms)
