r"""`Glob`: which files a pattern means.

Shells, git and ripgrep disagree on such patterns. Here, as in ripgrep: `*` and `?` stay within a
name, `**` goes through folders, `{a,b}` are alternatives, `[a-z]` a letter, `\` takes a meaning
away, and a pattern without `/` is looked for in every folder. No pattern takes longer than names
times parts, whoever wrote it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST = 1000
"""Alternatives that braces may amount to."""
_SPECIAL = frozenset("*?[{\\")
_SIMPLE = re.compile(r"[\w.*?{},-]+", re.ASCII)

Part = Callable[[str], object]
"""Whether a name fits; None stands for `**`."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern, taken apart into the folder that it begins in and the rest."""

    folder: str
    """What comes before the first part with a special letter; "" where nothing does."""
    rest: str
    """To be looked for below that folder; "" where the pattern is just a path."""
    anchored: bool
    """Whether `rest` begins just there, and not in any folder below."""

    @property
    def hidden(self) -> bool:
        """Whether it names files that begin with a dot."""
        return re.search(r"(^|[/{,])\.", self.rest) is not None

    @property
    def type_glob(self) -> str | None:
        """The same as a pattern of names only, where it is that, and a plain one."""
        names_only = not self.anchored and _SIMPLE.fullmatch(self.rest)
        return self.rest if names_only else None

    def matcher(self) -> Callable[[str], bool]:
        """Return what says whether a path below `folder` fits. Raises ValueError."""
        rows = [parse_glob_parts(one, anchored=self.anchored) for one in alternatives(self.rest)]
        if len(rows) == 1:
            (row,) = rows
            match row:  # no star goes further than one name: the last one decides
                case [None, only] if only is not None:
                    return lambda path: bool(only(path.rpartition("/")[2]))
            return lambda path: fits(row, path.split("/"))

        def any_fits(path: str) -> bool:
            names = path.split("/")
            return any(fits(row, names) for row in rows)

        return any_fits


def glob_of(pattern: str) -> Glob:
    """Take a pattern apart.

    >>> glob_of("src/app/**/*.py")
    Glob(folder='src/app', rest='**/*.py', anchored=True)
    """
    if pattern.endswith("/"):
        pattern += "**"
    parts = pattern.split("/")
    if not _SPECIAL & set(pattern) and len(parts) > 1:
        return Glob(pattern, "", anchored=True)
    plain = next((n for n, part in enumerate(parts) if _SPECIAL & set(part)), 0)
    # Braces may hold slashes: then the part where they begin is special, and so is all after it.
    folder = "/".join(parts[:plain]) or ("/" if plain else "")
    return Glob(folder, "/".join(parts[plain:]), anchored="/" in pattern)


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with braces stands for. Raises ValueError for too many.

    >>> alternatives("*.{ts,tsx}")
    ['*.ts', '*.tsx']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        found = _braces(one)
        if found is None:
            done.append(one)
        else:
            before, inner, after = found
            waiting += [before + choice + after for choice in reversed(inner)]
        if len(done) + len(waiting) > MOST:
            raise ValueError(f"the pattern stands for more than {MOST} others")
    return done


def _braces(pattern: str) -> tuple[str, list[str], str] | None:
    """Find the first braces: what is before them, their choices, and what is after them."""
    start = -1
    depth = 0
    commas: list[int] = []
    escaped = False
    for at, letter in enumerate(pattern):
        if escaped or letter == "\\":
            escaped = not escaped
        elif letter == "{":
            depth += 1
            start = at if depth == 1 else start
        elif letter == "," and depth == 1:
            commas.append(at)
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                ends = [start, *commas, at]
                pairs = pairwise(ends)
                choices = [pattern[one + 1 : other] for one, other in pairs]
                return pattern[:start], choices, pattern[at + 1 :]
    return None


def parse_glob_parts(pattern: str, *, anchored: bool) -> list[Part | None]:
    """Return what each name of a path is compared with."""
    parts: list[Part | None] = [] if anchored else [None]
    for part in pattern.split("/"):
        if part == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif part not in ("", "."):
            parts.append(re.compile(name_regex(part)).match)
    if parts and parts[-1] is None:
        parts.append(bool)  # all that is in a folder, not the folder itself: any name fits
    return parts


def name_regex(part: str) -> str:
    """Return a pattern of one name; `fnmatch` keeps its stars from going back and forth."""
    plain = re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] in "*?[" else m[1], part)
    return fnmatch.translate(plain.replace("[^", "[!"))


def fits(parts: Sequence[Part | None], names: Sequence[str]) -> bool:
    """Return whether names fit parts one by one; a None fits any number of names."""
    at = part = 0
    star, star_at = -1, 0
    while at < len(names):
        wanted = parts[part] if part < len(parts) else None
        if part < len(parts) and wanted is None:
            star, star_at = part, at
            part += 1
        elif wanted is not None and wanted(names[at]):
            at, part = at + 1, part + 1
        elif star >= 0:
            star_at += 1
            at, part = star_at, star + 1
        else:
            return False
    return all(one is None for one in parts[part:])
