r"""`Glob`: the file name patterns of the search tools.

Shells, git and ripgrep disagree on such patterns. Here, as in ripgrep: `*` and `?` match within a
name, `**` matches folders, `{a,b}` are alternatives, `[a-z]` is a letter, `\` escapes, and a
pattern without `/` matches in every folder. Matching takes time proportional to names times parts
for any pattern.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_ALTERNATIVES = 1000
"""The maximum number of alternatives from braces."""
_SPECIAL_CHARS = frozenset("*?[{\\")
_SIMPLE_PATTERN = re.compile(r"[\w.*?{},-]+", re.ASCII)

Part = Callable[[str], object]
"""Matches a name; None stands for `**`."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern, split into a literal folder and a remainder."""

    folder: str
    """The folder before the first part with a special letter, or ""."""
    rest: str
    """The pattern to match below that folder; "" if the pattern is a plain path."""
    anchored: bool
    """Whether `rest` matches only directly in that folder, not in any folder below."""

    @property
    def hidden(self) -> bool:
        """Whether it matches hidden files explicitly."""
        return re.search(r"(^|[/{,])\.", self.rest) is not None

    @property
    def type_glob(self) -> str | None:
        """The same as a simple pattern for names, or None if there is no such pattern."""
        names_only = not self.anchored and _SIMPLE_PATTERN.fullmatch(self.rest)
        return self.rest if names_only else None

    def matcher(self) -> Callable[[str], bool]:
        """Return a function that matches a path below `folder`. Raises ValueError."""
        part_lists = [
            parse_glob_parts(alternative, anchored=self.anchored)
            for alternative in alternatives(self.rest)
            if alternative
        ]
        if len(part_lists) == 1:
            (parts,) = part_lists
            match parts:  # A star stays within one name, so only the last name matters.
                case [None, name_matches] if name_matches is not None:
                    return lambda path: bool(name_matches(path.rpartition("/")[2]))
            return lambda path: match_parts(parts, path.split("/"))

        def any_fits(path: str) -> bool:
            names = path.split("/")
            return any(match_parts(parts, names) for parts in part_lists)

        return any_fits


def glob_of(pattern: str) -> Glob:
    """Parse a pattern.

    >>> glob_of("src/app/**/*.py")
    Glob(folder='src/app', rest='**/*.py', anchored=True)
    """
    if pattern.endswith("/"):
        pattern += "**"
    parts = pattern.split("/")
    if not _SPECIAL_CHARS & set(pattern) and len(parts) > 1:
        return Glob(pattern, "", anchored=True)
    special_index = next(
        (index for index, part in enumerate(parts) if _SPECIAL_CHARS & set(part)), 0
    )
    # Braces may contain slashes, so everything from the part where they begin is special.
    folder = "/".join(parts[:special_index]) or ("/" if special_index else "")
    return Glob(folder, "/".join(parts[special_index:]), anchored="/" in pattern)


def alternatives(pattern: str) -> list[str]:
    """Expand the braces of a pattern. Raises ValueError if there are too many alternatives.

    >>> alternatives("*.{ts,tsx}")
    ['*.ts', '*.tsx']
    """
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        candidate = pending.pop()
        braces = _find_braces(candidate)
        if braces is None:
            expanded.append(candidate)
        else:
            before, inner, after = braces
            pending += [before + choice + after for choice in reversed(inner)]
        if len(expanded) + len(pending) > MAX_ALTERNATIVES:
            raise ValueError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return expanded


def _find_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """Find the first braces: the text before them, their choices, and the text after them."""
    start = -1
    depth = 0
    commas: list[int] = []
    escaped = False
    for index, letter in enumerate(pattern):
        if escaped or letter == "\\":
            escaped = not escaped
        elif letter == "{":
            depth += 1
            start = index if depth == 1 else start
        elif letter == "," and depth == 1:
            commas.append(index)
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                ends = [start, *commas, index]
                pairs = pairwise(ends)
                choices = [pattern[left + 1 : right] for left, right in pairs]
                return pattern[:start], choices, pattern[index + 1 :]
    return None


def parse_glob_parts(pattern: str, *, anchored: bool) -> list[Part | None]:
    """Return a matcher for each component of a path."""
    parts: list[Part | None] = [] if anchored else [None]
    for part in pattern.split("/"):
        if part == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif part not in ("", "."):
            parts.append(re.compile(name_regex(part)).match)
    if parts and parts[-1] is None:
        # A final `**` matches everything in a folder, but not the folder itself.
        parts.append(bool)
    return parts


def name_regex(part: str) -> str:
    """Return a regular expression for one name; `fnmatch` avoids backtracking at stars."""
    unescaped = re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] in "*?[" else m[1], part)
    return fnmatch.translate(unescaped.replace("[^", "[!"))


def match_parts(parts: Sequence[Part | None], names: Sequence[str]) -> bool:
    """Whether names match the parts one by one. A part of None matches any number of names."""
    name_index = part_index = 0
    star_part, star_name = -1, 0
    while name_index < len(names):
        matcher = parts[part_index] if part_index < len(parts) else None
        if part_index < len(parts) and matcher is None:
            star_part, star_name = part_index, name_index
            part_index += 1
        elif matcher is not None and matcher(names[name_index]):
            name_index, part_index = name_index + 1, part_index + 1
        elif star_part >= 0:
            star_name += 1
            name_index, part_index = star_name, star_part + 1
        else:
            return False
    return all(remaining_part is None for remaining_part in parts[part_index:])
