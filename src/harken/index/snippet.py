"""Excerpts: the place in a text where something that was looked for stands.

One idea: it is looked for as the index does it: whole words in a row, whatever stands between them,
without regard to case and accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harken.index.message_text import spaced
from harken.index.query import Term, TextQuery

BEFORE, WHOLE = 60, 200
"""How many characters an excerpt has before the first place, and altogether."""
_FOLDED = 200_000
"""Accents are taken from so many characters of a text."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text, on one line."""

    pieces: tuple[tuple[str, bool], ...]
    """Texts in a row, and whether each was looked for."""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(text for text, _ in self.pieces)

    @property
    def marks(self) -> list[tuple[int, int]]:
        """Where in the text it stands: beginnings and ends, in characters."""
        found, at = [], 0
        for text, is_found in self.pieces:
            if is_found:
                found.append((at, at + len(text)))
            at += len(text)
        return found


def excerpt(texts: Sequence[str], query: TextQuery) -> Snippet:
    """Return where the first of several texts has what is looked for; else how they begin."""
    pattern = _pattern(query)
    for text in texts:
        shown = text
        at = _first(pattern, text, query)
        if at is None and not text.isascii():
            shown = _folded(text[:_FOLDED])
            at = _first(pattern, shown, query)
        if at is not None:
            return _cut(text, shown, at, pattern)
    begins = next((text for text in texts if text.strip()), "")
    return _cut(begins, begins, 0, pattern)


def _first(pattern: re.Pattern[str], text: str, query: TextQuery) -> int | None:
    """Return where something that is looked for begins: the first, unless that is hard to find."""
    low, start = text.lower(), 0
    if len(low) == len(text):  # then a place of one is a place of the other, found far quicker
        places = _places(low, [term.text.rstrip("*").lower() for term in query.terms])
        places = places or _places(low, [_folded(term.words[0]).lower() for term in query.terms])
        if not places:
            return None
        start = max(min(places) - 1, 0)
    found = pattern.search(text, start) or (pattern.search(text) if start else None)
    return None if found is None else found.start()


def _places(text: str, wanted: Iterable[str]) -> list[int]:
    return [at for at in (text.find(one) for one in wanted) if at >= 0]


def _cut(text: str, shown: str, at: int, pattern: re.Pattern[str]) -> Snippet:
    """Return an excerpt around a place; `shown`: the text as it is looked at, place by place."""
    begin = max(at - BEFORE, 0)
    if begin:
        space = text.find(" ", begin, at)
        begin = begin if space < 0 else space + 1
    end = min(begin + WHOLE, len(text))
    if end < len(text):
        space = text.rfind(" ", at + BEFORE, end)
        end = end if space < 0 else space
    pieces: list[tuple[str, bool]] = [("… ", False)] if begin else []
    last = begin
    for found in pattern.finditer(shown, begin, end):
        pieces += [(text[last : found.start()], False), (text[found.start() : found.end()], True)]
        last = found.end()
    pieces.append((text[last:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return Snippet(tuple(_on_one_line(pieces)))


def _on_one_line(pieces: Iterable[tuple[str, bool]]) -> Iterable[tuple[str, bool]]:
    """Yield the pieces with one blank for each stretch of white space, none at the beginning."""
    before = " "
    for text, is_found in pieces:
        line = _BLANKS.sub(" ", text)
        line = line.removeprefix(" ") if before == " " else line
        if line:
            before = line[-1]
            yield line, is_found


@lru_cache(16)
def _pattern(query: TextQuery) -> re.Pattern[str]:
    """Return what finds the terms of a query."""
    return re.compile("|".join(map(_of_term, query.terms)), re.IGNORECASE)


def _of_term(term: Term) -> str:
    """Return the pattern of a term: its words with anything but letters and digits between."""
    words = [re.escape(_folded(word)) for word in term.words]
    first, last = term.words[0], term.words[-1]
    begins = "" if _is_alone(first) else r"(?<![^\W_])"
    ends = "" if _is_alone(last) else r"[^\W_]*" if term.is_beginning else r"(?![^\W_])"
    return begins + r"[\W_]*".join(words) + ends


def _is_alone(word: str) -> bool:
    """Whether a word is a character that is looked for wherever it stands."""
    return len(word) == 1 and spaced(word) != word


def _folded(text: str) -> str:
    """Return a text without accents, as many characters as before."""
    return text if text.isascii() else "".join(map(_base, text))


@lru_cache(4096)
def _base(character: str) -> str:
    return unicodedata.normalize("NFD", character)[0] if character.isalpha() else character


_BLANKS = re.compile(r"\s+")
