r"""Parse search queries: words, "phrases", prefixes*, -exclusions, a OR b.

Every text that contains a word is a valid query. A token that matches no rule of the syntax is
searched for literally, and no user input causes a syntax error in FTS5.

Source: docs/how-to/search.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from harken.errors import ConfigError
from harken.index.message_text import separate_unspaced, to_utf8

MAX_TERMS = 100
_TERM_PATTERN = re.compile(
    r'(?P<no>-(?=[^\s-]))?(?:"(?P<phrase>[^"]*)"?(?P<open>\*)?|(?P<word>[^\s"]+))'
)
_WORD_PATTERN = re.compile(r"[^\W_]+")


class Term(msgspec.Struct, frozen=True):
    """A word, a phrase, or the prefix of a word."""

    text: str
    is_prefix: bool = False

    @property
    def list_words(self) -> list[str]:
        """The consecutive words of this term, as the index tokenizes them."""
        return _WORD_PATTERN.findall(separate_unspaced(self.text))

    def __str__(self) -> str:
        return '"' + " ".join(self.list_words) + '"' + "*" * self.is_prefix


class TextQuery(msgspec.Struct, frozen=True):
    """A parsed query: groups of alternatives that must match, and terms that must not."""

    groups: tuple[tuple[Term, ...], ...]
    """Groups of alternatives: a text must contain at least one term of each group."""
    none: tuple[Term, ...] = ()

    @property
    def terms(self) -> list[Term]:
        """All terms that may occur in a matching text."""
        return [term for terms in self.groups for term in terms]

    def expand_prefixes(self, words: Callable[[str], Sequence[str]]) -> TextQuery:
        """Return the same query with each prefix expanded to the words that start with it.

        `words` returns the indexed words that start with a lowercase ASCII prefix. If it returns
        none, the term stays a prefix.
        """

        def expand(terms: Sequence[Term]) -> tuple[Term, ...]:
            return tuple(expanded for term in terms for expanded in _expand_term(term, words))

        return TextQuery(tuple(map(expand, self.groups)), expand(self.none))

    def __str__(self) -> str:
        """Format the query in the syntax of FTS5."""
        required = " AND ".join(f"({' OR '.join(map(str, terms))})" for terms in self.groups)
        return f"({required}) NOT ({' OR '.join(map(str, self.none))})" if self.none else required


def parse_query(text: str) -> TextQuery:
    """Parse a query. Raises ConfigError if it has no word or too many words.

    >>> str(parse_query('tea -milk "in the cafe" pot*'))
    '(("tea") AND ("in the cafe") AND ("pot"*)) NOT ("milk")'
    >>> str(parse_query("tea OR coffee now"))
    '("tea" OR "coffee") AND ("now")'
    >>> str(parse_query("git --amend src/harken.py"))
    '("git") AND ("amend") AND ("src harken py")'
    """
    required: list[list[Term]] = []
    excluded: list[Term] = []
    is_or = False
    for match in _TERM_PATTERN.finditer(to_utf8(text)):
        if match["word"] == "OR" and not match["no"] and required:
            is_or = True
            continue
        term = _parse_term(match)
        if not term.list_words:
            continue
        if match["no"]:
            excluded.append(term)
        elif is_or:
            required[-1].append(term)
        else:
            required.append([term])
        is_or = False
    if not required:  # A query with exclusions only searches for the excluded terms.
        required, excluded = [[term] for term in excluded], []
    _check_terms(text, [*(term for terms in required for term in terms), *excluded])
    return TextQuery(tuple(map(tuple, required)), tuple(excluded))


def _expand_term(term: Term, words: Callable[[str], Sequence[str]]) -> Sequence[Term]:
    if not term.is_prefix or len(term.list_words) > 1 or not term.list_words[0].isascii():
        return [term]
    expanded = [Term(word) for word in words(term.list_words[0].lower())]
    # Otherwise users do not write it as a single word.
    is_exact = all(word_term.list_words == [word_term.text] for word_term in expanded)
    return expanded if expanded and is_exact else [term]


def _parse_term(match: re.Match[str]) -> Term:
    if match["phrase"] is not None:
        return Term(match["phrase"], match["open"] is not None)
    word = match["word"]
    return Term(word, word.endswith("*"))


def _check_terms(text: str, terms: Sequence[Term]) -> None:
    if not terms:
        raise ConfigError(f"the query {text[:60]!r} contains no word")
    if sum(len(term.list_words) for term in terms) > MAX_TERMS:
        raise ConfigError(f"a query has at most {MAX_TERMS} words; this one has more")
