r"""`Pattern`: the wildcard patterns of permission rules, in which `*` matches any text.

`\*` is a literal star and `\\` a backslash; before any other character a backslash is literal.
Matching takes time linear in text and pattern, because both may come from an attacker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from harken.world.search.glob import match_parts

_TOKEN_PATTERN = re.compile(r"\\[*\\]|\*+|[^*\\]+|\\")
_ANY_DEPTH = "**"


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        pieces = [""]
        for token in _TOKEN_PATTERN.findall(text):
            if token[0] == "*":
                pieces.append("")
            else:
                pieces[-1] += token[1:] if token in ("\\*", "\\\\") else token
        self.pieces = tuple(pieces)
        """The literal texts between the stars."""

    def matches(self, text: str) -> bool:
        """Whether it matches the full text.

        >>> Pattern("git *").matches("git push"), Pattern("git").matches("git push")
        (True, False)
        """
        first, *tail = self.pieces
        if not tail:
            return text == first
        if not text.startswith(first):
            return False
        position = len(first)
        for piece in tail[:-1]:
            index = text.find(piece, position)
            if index < 0:
                return False
            position = index + len(piece)
        return len(text) - position >= len(tail[-1]) and text.endswith(tail[-1])


def may_match_prefix(pattern: str, prefix: str) -> bool:
    """Whether a text with this prefix may match a pattern.

    >>> may_match_prefix("git push*", "git "), may_match_prefix("git push*", "git commit -m ")
    (True, False)
    """
    first, *tail = compile_pattern(pattern).pieces
    return first.startswith(prefix) or (bool(tail) and prefix.startswith(first))


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Return the compiled pattern of a text."""
    return Pattern(text)


def fold_text(text: str) -> str:
    """Normalize a text for rules that deny or ask: unify blanks, case and Unicode composition."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def escape_pattern(text: str) -> str:
    r"""Return the pattern that matches exactly this text.

    >>> escape_pattern(r"ls *.py"), compile_pattern(escape_pattern("a*\\b")).matches("a*\\b")
    ('ls \\*.py', True)
    """
    return text.replace("\\", "\\\\").replace("*", "\\*")


def literal_path(pattern: str) -> str:
    r"""Return the path of the components without a star in a path pattern.

    >>> literal_path("src/**/.git/*"), literal_path(r"a\*b/.*")
    ('src/.git', 'a*b')
    """
    names = [compile_pattern(name).pieces for name in pattern.split("/")]
    return "/".join(pieces[0] for pieces in names if len(pieces) == 1)


def matches_path(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path: `*` within one component, `**` for any number.

    >>> matches_path("src/*.py", "src/a.py"), matches_path("src/*.py", "src/b/a.py")
    (True, False)
    >>> matches_path("src/**", "src/b/a.py"), matches_path("**/a.py", "a.py")
    (True, True)
    """
    parts = [
        None if name == _ANY_DEPTH else compile_pattern(name).matches
        for name in _split_path(pattern)
    ]
    return match_parts(parts, _split_path(path))


def _split_path(path: str) -> Sequence[str]:
    """Return the components of a path; those of an absolute path begin with an empty one."""
    return [] if path == "." else path.removesuffix("/").split("/")
