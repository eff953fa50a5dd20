r"""`Pattern`: text in which `*` stands for anything, as permission rules use it.

`\*` is a star and `\\` a backslash; before anything else a backslash is one itself. Matching takes
time in proportion to text and pattern: both may come from somebody who means no good.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_SYNTAX = re.compile(r"\\[*\\]|\*+|[^*\\]+|\\")
_DEEP = "**"


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        pieces = [""]
        for found in _SYNTAX.findall(text):
            if found[0] == "*":
                pieces.append("")
            else:
                pieces[-1] += found[1:] if found in ("\\*", "\\\\") else found
        self.pieces = tuple(pieces)
        """The stretches between the stars."""

    def matches(self, text: str) -> bool:
        """Whether it stands for the whole text.

        >>> Pattern("git *").matches("git push"), Pattern("git").matches("git push")
        (True, False)
        """
        first, *rest = self.pieces
        if not rest:
            return text == first
        if not text.startswith(first):
            return False
        at = len(first)
        for piece in rest[:-1]:
            found = text.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(text) - at >= len(rest[-1]) and text.endswith(rest[-1])


def may_go_on(pattern: str, begun: str) -> bool:
    """Whether a text that begins so may be one that a pattern stands for.

    >>> may_go_on("git push*", "git "), may_go_on("git push*", "git commit -m ")
    (True, False)
    """
    first, *rest = compiled(pattern).pieces
    return first.startswith(begun) or (bool(rest) and begun.startswith(first))


@lru_cache(maxsize=1024)
def compiled(text: str) -> Pattern:
    """Return the pattern of a text."""
    return Pattern(text)


def folded(text: str) -> str:
    """Return a text as rules that deny compare it: blanks, case and composition do not count."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def escaped(text: str) -> str:
    r"""Return the pattern that stands for exactly this text.

    >>> escaped(r"ls *.py"), compiled(escaped("a*\\b")).matches("a*\\b")
    ('ls \\*.py', True)
    """
    return text.replace("\\", "\\\\").replace("*", "\\*")


def literal_path(pattern: str) -> str:
    r"""Return the path that the names without a star make in the pattern of a path.

    >>> literal_path("src/**/.git/*"), literal_path(r"a\*b/.*")
    ('src/.git', 'a*b')
    """
    names = [compiled(name).pieces for name in pattern.split("/")]
    return "/".join(pieces[0] for pieces in names if len(pieces) == 1)


def matches_path(pattern: str, path: str) -> bool:
    """Whether a pattern stands for a path: `*` within one name, a name `**` for any number.

    >>> matches_path("src/*.py", "src/a.py"), matches_path("src/*.py", "src/b/a.py")
    (True, False)
    >>> matches_path("src/**", "src/b/a.py"), matches_path("**/a.py", "a.py")
    (True, True)
    """
    wanted, names = _names(pattern), _names(path)
    at, after_deep, tried = 0, -1, 0
    name = 0
    while name < len(names):
        if at < len(wanted) and wanted[at] == _DEEP:
            at += 1
            after_deep, tried = at, name
        elif at < len(wanted) and compiled(wanted[at]).matches(names[name]):
            at, name = at + 1, name + 1
        elif after_deep >= 0:
            tried += 1
            at, name = after_deep, tried
        else:
            return False
    return all(one == _DEEP for one in wanted[at:])


def _names(path: str) -> Sequence[str]:
    """Return the names of a path; an absolute one begins with an empty name."""
    return [] if path == "." else path.removesuffix("/").split("/")
