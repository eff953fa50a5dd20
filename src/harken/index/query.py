r"""Queries as people write them: words, "phrases", beginnings*, -not, a OR b.

One idea: whatever is written is a query. What is no word, phrase or beginning by these rules is
looked for as it stands; nothing that somebody may write is an error of the index.

Source: docs/how-to/search.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harken.errors import ConfigError
from harken.index.message_text import spaced, utf8

MOST_TERMS = 100
_TERM = re.compile(r'(?P<no>-(?=[^\s-]))?(?:"(?P<phrase>[^"]*)"?(?P<open>\*)?|(?P<word>[^\s"]+))')
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Term:
    """A word, a phrase, or the beginning of one."""

    text: str
    is_beginning: bool = False

    @property
    def words(self) -> list[str]:
        """The words that stand in a row, as a text has them; letters of some scripts alone."""
        return _WORD.findall(spaced(self.text))

    def __str__(self) -> str:
        return '"' + " ".join(self.words) + '"' + "*" * self.is_beginning


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What is looked for."""

    all: tuple[tuple[Term, ...], ...]
    """Of each of these, one at least."""
    none: tuple[Term, ...] = ()

    @property
    def terms(self) -> list[Term]:
        """All terms that a text may have."""
        return [term for terms in self.all for term in terms]

    def spelled_out(self, words: Callable[[str], Sequence[str]]) -> TextQuery:
        """Return the same query with all the words that begin so in the place of beginnings.

        words: returns, of a beginning in small letters of ASCII, those that there are; none: it
        stays a beginning.
        """

        def spelled(terms: Sequence[Term]) -> tuple[Term, ...]:
            return tuple(one for term in terms for one in _spelled(term, words))

        return TextQuery(tuple(map(spelled, self.all)), spelled(self.none))

    def __str__(self) -> str:
        """Return it in the language of FTS5."""
        wanted = " AND ".join(f"({' OR '.join(map(str, terms))})" for terms in self.all)
        return f"({wanted}) NOT ({' OR '.join(map(str, self.none))})" if self.none else wanted


def query_of(text: str) -> TextQuery:
    """Read a query. Raises ConfigError where there is no word in it, or there are too many.

    >>> str(query_of('tea -milk "in the cafe" pot*'))
    '(("tea") AND ("in the cafe") AND ("pot"*)) NOT ("milk")'
    >>> str(query_of("tea OR coffee now"))
    '("tea" OR "coffee") AND ("now")'
    >>> str(query_of("git --amend src/harken.py"))
    '("git") AND ("amend") AND ("src harken py")'
    """
    wanted: list[list[Term]] = []
    refused: list[Term] = []
    is_or = False
    for found in _TERM.finditer(utf8(text)):
        if found["word"] == "OR" and not found["no"] and wanted:
            is_or = True
            continue
        term = _term(found)
        if not term.words:
            continue
        if found["no"]:
            refused.append(term)
        elif is_or:
            wanted[-1].append(term)
        else:
            wanted.append([term])
        is_or = False
    if not wanted:  # then what was refused is what there is
        wanted, refused = [[term] for term in refused], []
    _check(text, [*(term for terms in wanted for term in terms), *refused])
    return TextQuery(tuple(map(tuple, wanted)), tuple(refused))


def _spelled(term: Term, words: Callable[[str], Sequence[str]]) -> Sequence[Term]:
    if not term.is_beginning or len(term.words) > 1 or not term.words[0].isascii():
        return [term]
    found = [Term(word) for word in words(term.words[0].lower())]
    is_exact = all(one.words == [one.text] for one in found)  # else it is no word as people write
    return found if found and is_exact else [term]


def _term(found: re.Match[str]) -> Term:
    if found["phrase"] is not None:
        return Term(found["phrase"], found["open"] is not None)
    word = found["word"]
    return Term(word, word.endswith("*"))


def _check(text: str, terms: Sequence[Term]) -> None:
    if not terms:
        raise ConfigError(f"{text[:60]!r} has no word to look for")
    if sum(len(term.words) for term in terms) > MOST_TERMS:
        raise ConfigError(f"a query has at most {MOST_TERMS} words; this one has more")
