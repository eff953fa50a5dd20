"""Alignment of reformatted text: which old line each new line was made from, by their tokens.

Old and new lines that share a token are connected. If all tokens of connected lines are equal and
in order, only the layout changed: the new lines are the old ones, reformatted. If some tokens
differ, the new line is similar to the old one, with a ratio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from harken.attribution.text.line_text import (
    MIN_INFORMATIVE_CHARS,
    Token,
    information,
    tokenize,
)

_MAX_TOKEN_PRODUCT = 9_000_000
MIN_SIMILARITY = 0.5


class TokenMatch(msgspec.Struct, frozen=True):
    """The old line that a new line was made from."""

    old: int
    ratio: float
    """The share of equal tokens. 1 if only the layout differs."""

    @property
    def is_reformatted(self) -> bool:
        """Whether only the layout differs."""
        return self.ratio >= 1


def match_tokens(old: Sequence[str], new: Sequence[str]) -> dict[int, TokenMatch]:
    """Return the matches of new lines, by their index."""
    old_tokens, new_tokens = tokenize(old), tokenize(new)
    if not old_tokens or not new_tokens or len(old_tokens) * len(new_tokens) > _MAX_TOKEN_PRODUCT:
        return {}
    matcher = SequenceMatcher(
        None,
        [token.text for token in old_tokens],
        [token.text for token in new_tokens],
        autojunk=False,
    )
    pairs = [
        (old_tokens[block.a + i], new_tokens[block.b + i])
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    ]
    return _match_lines(old_tokens, new_tokens, pairs, (old, new))


def _match_lines(
    old_tokens: Sequence[Token],
    new_tokens: Sequence[Token],
    pairs: Sequence[tuple[Token, Token]],
    texts: tuple[Sequence[str], Sequence[str]],
) -> dict[int, TokenMatch]:
    groups = _connect(pairs)
    old_counts = Counter(groups.old.get(token.line, -1) for token in old_tokens)
    new_counts = Counter(groups.new.get(token.line, -1) for token in new_tokens)
    pair_counts = Counter(groups.new[new.line] for _, new in pairs)
    shared: dict[int, Counter[int]] = {}
    first_old: dict[int, int] = {}
    for old, new in pairs:
        shared.setdefault(new.line, Counter())[old.line] += 1
        first_old.setdefault(new.line, old.line)
    old_sizes = Counter(token.line for token in old_tokens)
    new_sizes = Counter(token.line for token in new_tokens)
    group_information: Counter[int] = Counter()
    for line, group in groups.old.items():
        group_information[group] += information(texts[0][line])
    matches: dict[int, TokenMatch] = {}
    for line, counts in shared.items():
        group = groups.new[line]
        is_equal = old_counts[group] == new_counts[group] == pair_counts[group]
        if is_equal and group_information[group] >= MIN_INFORMATIVE_CHARS:
            matches[line] = TokenMatch(first_old[line], 1.0)
            continue
        old_line, size = max(counts.items(), key=lambda item: (item[1], -item[0]))
        ratio = min(2 * size / (old_sizes[old_line] + new_sizes[line]), 0.99)
        if ratio >= MIN_SIMILARITY and information(texts[0][old_line]):
            matches[line] = TokenMatch(old_line, ratio)
    return matches


class _Groups(msgspec.Struct):
    """The group of each old and each new line. Lines of a group share tokens."""

    old: dict[int, int]
    new: dict[int, int]


def _connect(pairs: Sequence[tuple[Token, Token]]) -> _Groups:
    """Group the lines that share tokens. The pairs are in order, so groups are ranges of lines."""
    groups = _Groups({}, {})
    number = -1
    last_old, last_new = -1, -1
    for old, new in pairs:
        if old.line != last_old and new.line != last_new:
            number += 1
        groups.old.setdefault(old.line, number)
        groups.new.setdefault(new.line, number)
        last_old, last_new = old.line, new.line
    return groups
