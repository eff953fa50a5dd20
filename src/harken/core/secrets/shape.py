"""The shape of a credential: a pattern, and cheap strings to search for before it is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec


class Shape(msgspec.Struct, frozen=True):
    """A pattern for one kind of credential."""

    kind: str
    hint: str
    """Letters that many kinds share. They are searched first, in lower case for framed shapes."""
    begins: str
    """Letters of every match: the fixed beginning of `regex`."""
    regex: str
    """The group `secret` is redacted; the whole match if there is no such group."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """`regex`, compiled at first use: few are needed, and compiling all of them is slow."""
        return _compile(self.regex)


@cache
def _compile(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def iter_shapes(kind: str, prefixes: str, pattern: str, *, hint: str = "") -> Iterator[Shape]:
    """Yield a shape for each prefix: the prefix may be anywhere, and `rest` must follow it."""
    for prefix in prefixes.split():
        yield Shape(kind, hint or prefix, prefix, re.escape(prefix) + pattern)
