r"""Normal forms of lines, which formatters and indentation do not change.

The key of a line is its text without white space, kinds of quotes, and a comma or semicolon at its
end. Lines with equal keys are equal but for their layout. Tokens compare text across line breaks.

>>> line_key("    x = f('a', 1),") == line_key('x = f("a", 1)')
True
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
from blake3 import blake3

_SPACE_PATTERN = re.compile(r"\s+")
_QUOTES = str.maketrans("'`", '""')
_WORD_PATTERN = re.compile(r"[^\W_]\w*|\w+")
_TOKEN_PATTERN = re.compile(r"\w+|[^\w\s]")
_COMMON_TEXT = """
self cls args kwargs this var let const func fn function public private protected static void int
str string bool boolean float end then fi done esac do begin null nil undefined true false default
case switch catch throw throws new struct type interface package use mut pub impl export extends
implements super err ok id name value key data result i j k x y
"""
_COMMON_WORDS = frozenset({*keyword.kwlist, *_COMMON_TEXT.split()})
"""Words that lines of unrelated programs share."""
MIN_INFORMATIVE_CHARS = 6
"""An informative line has as many letters and digits in words that are not common."""
_OPENERS, _CLOSERS = frozenset("([{"), frozenset(")]}")
_MAX_CACHED_LINES, _MAX_CACHED_CHARS = 1 << 15, 500
"""The versions of a file have mostly the same lines, and each is compared with edits."""
_PAREN_CONTEXTS = frozenset({"return", "yield", "assert", "if", "elif", "while", "del"})
"""Words after which a formatter adds or removes parentheses around the complete expression."""


def line_key(line: str) -> str:
    """Return the normal form of a line, which is empty for a blank line."""
    return _find_key(line) if len(line) <= _MAX_CACHED_CHARS else _compute_key(line)


def _compute_key(line: str) -> str:
    return _SPACE_PATTERN.sub("", line).translate(_QUOTES).rstrip(",;")


_find_key = lru_cache(_MAX_CACHED_LINES)(_compute_key)


def hash_key(key: str) -> int:
    """Return 32 bits of the hash of a key."""
    return int.from_bytes(blake3(key.encode("utf-8", "surrogatepass")).digest(4), "little")


def information(line: str) -> int:
    """Return the number of letters and digits of a line in words that are not common.

    >>> information("    return None"), information("}"), information("total = price * count")
    (0, 0, 15)
    """
    return _find_information(line) if len(line) <= _MAX_CACHED_CHARS else _count_information(line)


def _count_information(line: str) -> int:
    words = _WORD_PATTERN.findall(line)
    return sum(len(word) for word in words if word not in _COMMON_WORDS)


_find_information = lru_cache(_MAX_CACHED_LINES)(_count_information)


def is_informative(line: str) -> bool:
    """Whether a line has enough information to be recognized without its neighbors."""
    return information(line) >= MIN_INFORMATIVE_CHARS


class Token(msgspec.Struct, frozen=True):
    """A token of a text, and the index of its line."""

    text: str
    line: int


def tokenize(lines: Iterable[str]) -> list[Token]:
    """Return the tokens of lines, without those that formatters add or remove.

    These are commas before a closing bracket, semicolons and backslashes at the end of a line, and
    parentheses around a complete expression.
    """
    tokens = [
        Token('"' if text in "'`" else text, index)
        for index, line in enumerate(lines)
        for text in _TOKEN_PATTERN.findall(line)
    ]
    kept_tokens = [token for index, token in enumerate(tokens) if not _is_filler(tokens, index)]
    return _without_redundant_parens(kept_tokens)


def _is_filler(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    is_line_end = following is None or following.line != token.line
    if token.text == ",":
        return is_line_end and (following is None or following.text in _CLOSERS)
    return token.text in ";\\" and is_line_end


def _without_redundant_parens(tokens: list[Token]) -> list[Token]:
    """Return tokens without the parentheses around a complete expression."""
    stack: list[int] = []
    dropped: set[int] = set()
    for index, token in enumerate(tokens):
        if token.text in _OPENERS:
            stack.append(index)
        elif token.text in _CLOSERS and stack:
            start = stack.pop()
            following = tokens[index + 1] if index + 1 < len(tokens) else None
            is_end = following is None or following.line != token.line or following.text == ":"
            if is_end and tokens[start].text == "(" and _may_wrap(tokens, start):
                dropped |= {start, index}
    return [token for index, token in enumerate(tokens) if index not in dropped]


def _may_wrap(tokens: Sequence[Token], start: int) -> bool:
    """Whether parentheses here may be around a complete expression: after `=`, `return`, `if`."""
    before = tokens[start - 1].text if start else ""
    earlier = tokens[start - 2].text if start > 1 else " "
    return before in _PAREN_CONTEXTS or (before == "=" and earlier not in "=!<>")
