"""Build excerpts of a text around the terms of a search query.

Terms are matched as the index matches them: consecutive words with any separators between them,
ignoring case and accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from harken.index.message_text import separate_unspaced
from harken.index.query import Term, TextQuery

MAX_LEAD_CHARS, MAX_EXCERPT_CHARS = 60, 200
"""Number of characters of an excerpt before the first match, and in total."""
_MAX_FOLDED_CHARS = 200_000
"""Accents are removed from at most so many characters of a text."""


class Snippet(msgspec.Struct, frozen=True):
    """A one-line excerpt of a text."""

    pieces: tuple[tuple[str, bool], ...]
    """Consecutive pieces of text, and whether each of them is a match."""

    @property
    def text(self) -> str:
        """The full text of the excerpt."""
        return "".join(text for text, _ in self.pieces)

    @property
    def match_spans(self) -> list[tuple[int, int]]:
        """Start and end offsets of the matches in the text, in characters."""
        spans, offset = [], 0
        for text, is_match in self.pieces:
            if is_match:
                spans.append((offset, offset + len(text)))
            offset += len(text)
        return spans


def build_excerpt(texts: Sequence[str], query: TextQuery) -> Snippet:
    """Return an excerpt around the first match in several texts, or the start of the first text."""
    pattern = _compile_query(query)
    for text in texts:
        searched = text
        offset = _find_first(pattern, text, query)
        if offset is None and not text.isascii():
            searched = _strip_accents(text[:_MAX_FOLDED_CHARS])
            offset = _find_first(pattern, searched, query)
        if offset is not None:
            return _build_snippet(text, searched, offset, pattern)
    first_text = next((text for text in texts if text.strip()), "")
    return _build_snippet(first_text, first_text, 0, pattern)


def _find_first(pattern: re.Pattern[str], text: str, query: TextQuery) -> int | None:
    """Return the offset of the first match. May return a later one if the first is slow to find."""
    lowered, start = text.lower(), 0
    if len(lowered) == len(text):  # Then offsets agree, and `str.find` is much faster.
        offsets = _find_all(lowered, [term.text.rstrip("*").lower() for term in query.terms])
        offsets = offsets or _find_all(
            lowered, [_strip_accents(term.list_words[0]).lower() for term in query.terms]
        )
        if not offsets:
            return None
        start = max(min(offsets) - 1, 0)
    match = pattern.search(text, start) or (pattern.search(text) if start else None)
    return None if match is None else match.start()


def _find_all(text: str, needles: Iterable[str]) -> list[int]:
    return [offset for offset in (text.find(needle) for needle in needles) if offset >= 0]


def _build_snippet(text: str, searched: str, offset: int, pattern: re.Pattern[str]) -> Snippet:
    """Return an excerpt around an offset. `searched` has the same length as `text`."""
    start = max(offset - MAX_LEAD_CHARS, 0)
    if start:
        space = text.find(" ", start, offset)
        start = start if space < 0 else space + 1
    end = min(start + MAX_EXCERPT_CHARS, len(text))
    if end < len(text):
        space = text.rfind(" ", offset + MAX_LEAD_CHARS, end)
        end = end if space < 0 else space
    pieces: list[tuple[str, bool]] = [("… ", False)] if start else []
    last = start
    for match in pattern.finditer(searched, start, end):
        pieces += [(text[last : match.start()], False), (text[match.start() : match.end()], True)]
        last = match.end()
    pieces.append((text[last:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return Snippet(tuple(_join_lines(pieces)))


def _join_lines(pieces: Iterable[tuple[str, bool]]) -> Iterable[tuple[str, bool]]:
    """Collapse each run of whitespace to one blank, and remove it at the start."""
    previous = " "
    for text, is_match in pieces:
        line = _BLANKS_PATTERN.sub(" ", text)
        line = line.removeprefix(" ") if previous == " " else line
        if line:
            previous = line[-1]
            yield line, is_match


@lru_cache(16)
def _compile_query(query: TextQuery) -> re.Pattern[str]:
    """Compile a pattern that matches every term of a query."""
    return re.compile("|".join(map(_term_pattern, query.terms)), re.IGNORECASE)


def _term_pattern(term: Term) -> str:
    """Return the pattern of a term: its words with anything but letters and digits between."""
    words = [re.escape(_strip_accents(word)) for word in term.list_words]
    first, last = term.list_words[0], term.list_words[-1]
    prefix = "" if _is_alone(first) else r"(?<![^\W_])"
    suffix = "" if _is_alone(last) else r"[^\W_]*" if term.is_prefix else r"(?![^\W_])"
    return prefix + r"[\W_]*".join(words) + suffix


def _is_alone(word: str) -> bool:
    """Whether a word is a character of a script without word separators, which matches anywhere."""
    return len(word) == 1 and separate_unspaced(word) != word


def _strip_accents(text: str) -> str:
    """Return a text without accents, with the same number of characters."""
    return text if text.isascii() else "".join(map(_base_letter, text))


@lru_cache(4096)
def _base_letter(character: str) -> str:
    return unicodedata.normalize("NFD", character)[0] if character.isalpha() else character


_BLANKS_PATTERN = re.compile(r"\s+")
