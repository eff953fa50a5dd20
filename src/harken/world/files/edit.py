r"""An edit: one text in the bytes of a file gives way to another.

It works on bytes, so whatever it does not touch stays as it was: a BOM, odd line ends, bytes that
are no UTF-8. A model writes lines with `\n` and cannot see more; in a file with `\r\n` that is
what is meant. Where the old text is not there exactly once, the failure says where to look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from harken.world.files.regular_file import WHOLE
from harken.world.files.root import size_text
from harken.world.result import ToolError

_LISTED = 10
_COMPARED = 20_000
"""Lines in which something similar is looked for."""
_LINE = 500
"""Characters of a line that are compared and quoted."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """A content after an edit."""

    data: bytes
    count: int
    lines: list[int]
    """At which lines the old text began; empty where they are many."""


def encoded(text: str, what: str) -> bytes:
    """Return a text as bytes. Raises ToolError where it has half a letter in it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{what} has a lone surrogate in it: that is no text") from None


def edited(data: bytes, old: str, new: str, *, replace_all: bool = False) -> EditResult:
    """Return the content with `old` replaced by `new`. Raises ToolError, saying what to do."""
    if not old:
        raise ToolError("old_string is empty; `write` makes a new file or a whole new content")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing would change")
    wanted, given = encoded(old, "old_string"), encoded(new, "new_string")
    if b"\r\n" in data and b"\r" not in wanted:
        crlf = wanted.replace(b"\n", b"\r\n")
        # Of mixed line ends, those count that the old text has.
        if crlf in data and (crlf != wanted or data.count(b"\n") == data.count(b"\r\n")):
            wanted, given = crlf, re.sub(rb"\r?\n", b"\r\n", given)
    at = _positions(data, wanted)
    lines = [data.count(b"\n", 0, one) + 1 for one in at[: _LISTED + 1]]
    if not at:
        raise ToolError(f"old_string is not in the file{_hint(data, old)}")
    if len(at) > 1 and not replace_all:
        listed = ", ".join(map(str, lines[:_LISTED])) + (", ..." if len(at) > _LISTED else "")
        raise ToolError(
            f"old_string is {len(at)} times in the file, at lines {listed}: give more of what "
            f"stands around the one that is meant, or set replace_all"
        )
    size = len(data) + len(at) * (len(given) - len(wanted))
    if size > WHOLE:  # asked before it is made: it may be more than there is memory
        raise ToolError(f"the file would be too large: {size_text(size)}")
    where = lines if len(at) <= _LISTED else []
    return EditResult(data.replace(wanted, given), len(at), where)


def _positions(data: bytes, wanted: bytes) -> list[int]:
    """Return where the matches begin that a replacement would replace."""
    return [match.start() for match in re.finditer(re.escape(wanted), data)]


def _hint(data: bytes, old: str) -> str:
    """Say what in the file is nearly the old text, and how it differs."""
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")[:_COMPARED]
    wanted = old.strip("\n").split("\n")
    bare = [re.sub(r"^\s*\d+\t", "", line) for line in wanted]
    if bare != wanted and _found(lines, bare, str) is not None:
        return ": it begins with line numbers, which `read` shows and the file does not have"
    at = _found(lines, wanted, _without_space)
    if at is not None:
        there = "\n".join(lines[at - 1 : at - 1 + len(wanted)])
        return f". Only white space differs from line {at}, which is {_quoted(there)}"
    similar = _most_similar(lines, wanted)
    if similar is not None:
        return f". The most similar is line {similar}: {_quoted(lines[similar - 1])}"
    return ": read the file again"


def _found(lines: list[str], wanted: list[str], form: Callable[[str], str]) -> int | None:
    """Return the number of the line from which all wanted ones stand, compared in a form."""
    there, sought = [form(line) for line in lines], [form(line) for line in wanted]
    if not any(sought):
        return None
    for at in range(len(there) - len(sought) + 1):
        if there[at] == sought[0] and there[at : at + len(sought)] == sought:
            return at + 1
    return None


def _without_space(line: str) -> str:
    return "".join(line.split())


def _most_similar(lines: list[str], wanted: list[str]) -> int | None:
    """Return the number of the line that is most like the first wanted one that says something."""
    first = next((line.strip() for line in wanted if line.strip()), "")[:_LINE]
    if not first:
        return None
    matcher = SequenceMatcher(b=first, autojunk=False)
    best, best_at = 0.7, None
    for at, line in enumerate(lines, 1):
        matcher.set_seq1(line.strip()[:_LINE])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, best_at = ratio, at
    return best_at


def _quoted(text: str) -> str:
    """Write a text so that tabs and spaces can be told apart."""
    return json.dumps(text[:_LINE], ensure_ascii=False)
