r"""An edit: replace one text in the bytes of a file by another.

It works on bytes, so all other bytes stay unchanged: a BOM, mixed line ends, invalid UTF-8. A model
writes lines with `\n`; in a file with `\r\n` these match `\r\n`. If the old text does not occur
exactly once, the error says where to look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from difflib import SequenceMatcher

import msgspec

from harken.world.files.regular_file import MAX_FILE_BYTES
from harken.world.files.root import size_text
from harken.world.result import ToolError

_MAX_LISTED_LINES = 10
_MAX_COMPARED_LINES = 20_000
"""The maximum number of lines that are searched for a similar one."""
_MAX_LINE_CHARS = 500
"""The number of characters of a line that are compared and quoted."""


class EditResult(msgspec.Struct, frozen=True):
    """The content of a file after an edit."""

    data: bytes
    count: int
    lines: list[int]
    """The lines at which the old text began; empty if there are many."""


def encode_text(text: str, what: str) -> bytes:
    """Encode a text. Raises ToolError if it contains a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{what} has a lone surrogate, which is not valid text") from None


def apply_edit(data: bytes, old: str, new: str, *, replace_all: bool = False) -> EditResult:
    """Return the content with `old` replaced by `new`. Raises ToolError with a way to proceed."""
    if not old:
        raise ToolError("old_string is empty; `write` creates a file or replaces its content")
    if old == new:
        raise ToolError("old_string and new_string are equal: nothing to change")
    old_bytes, new_bytes = encode_text(old, "old_string"), encode_text(new, "new_string")
    if b"\r\n" in data and b"\r" not in old_bytes:
        crlf = old_bytes.replace(b"\n", b"\r\n")
        # In a file with mixed line ends, those of the old text decide.
        if crlf in data and (crlf != old_bytes or data.count(b"\n") == data.count(b"\r\n")):
            old_bytes, new_bytes = crlf, re.sub(rb"\r?\n", b"\r\n", new_bytes)
    offsets = _find_offsets(data, old_bytes)
    lines = [data.count(b"\n", 0, offset) + 1 for offset in offsets[: _MAX_LISTED_LINES + 1]]
    if not offsets:
        raise ToolError(f"old_string not found in the file{_hint(data, old)}")
    if len(offsets) > 1 and not replace_all:
        line_list = ", ".join(map(str, lines[:_MAX_LISTED_LINES])) + (
            ", ..." if len(offsets) > _MAX_LISTED_LINES else ""
        )
        raise ToolError(
            f"old_string occurs {len(offsets)} times in the file, at lines "
            f"{line_list}: include more of the surrounding lines, or set replace_all"
        )
    size = len(data) + len(offsets) * (len(new_bytes) - len(old_bytes))
    if (
        size > MAX_FILE_BYTES
    ):  # The size is checked before the replacement, which could exceed the memory.
        raise ToolError(f"the file would be too large: {size_text(size)}")
    reported_lines = lines if len(offsets) <= _MAX_LISTED_LINES else []
    return EditResult(data.replace(old_bytes, new_bytes), len(offsets), reported_lines)


def _find_offsets(data: bytes, old_bytes: bytes) -> list[int]:
    """Return the offsets of the matches that a replacement would replace."""
    return [match.start() for match in re.finditer(re.escape(old_bytes), data)]


def _hint(data: bytes, old: str) -> str:
    """Describe the text in the file that is most similar to the old text, and the difference."""
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")[:_MAX_COMPARED_LINES]
    old_lines = old.strip("\n").split("\n")
    unnumbered = [re.sub(r"^\s*\d+\t", "", line) for line in old_lines]
    if unnumbered != old_lines and _find_lines(lines, unnumbered, str) is not None:
        return ": it starts with line numbers, which `read` adds and the file does not have"
    line_number = _find_lines(lines, old_lines, _without_space)
    if line_number is not None:
        actual_text = "\n".join(lines[line_number - 1 : line_number - 1 + len(old_lines)])
        return f". Only whitespace differs from line {line_number}, which is {_quote(actual_text)}"
    similar = _most_similar(lines, old_lines)
    if similar is not None:
        return f". The most similar is line {similar}: {_quote(lines[similar - 1])}"
    return ": read the file again"


def _find_lines(
    lines: list[str], target_lines: list[str], form: Callable[[str], str]
) -> int | None:
    """Return the number of the line at which all these lines match, compared after `form`."""
    file_forms, target_forms = [form(line) for line in lines], [form(line) for line in target_lines]
    if not any(target_forms):
        return None
    for index in range(len(file_forms) - len(target_forms) + 1):
        if (
            file_forms[index] == target_forms[0]
            and file_forms[index : index + len(target_forms)] == target_forms
        ):
            return index + 1
    return None


def _without_space(line: str) -> str:
    return "".join(line.split())


def _most_similar(lines: list[str], target_lines: list[str]) -> int | None:
    """Return the number of the line most similar to the first non-blank wanted line."""
    first = next((line.strip() for line in target_lines if line.strip()), "")[:_MAX_LINE_CHARS]
    if not first:
        return None
    matcher = SequenceMatcher(b=first, autojunk=False)
    best_ratio, best_number = 0.7, None
    for number, line in enumerate(lines, 1):
        matcher.set_seq1(line.strip()[:_MAX_LINE_CHARS])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best_ratio, best_number = ratio, number
    return best_number


def _quote(text: str) -> str:
    """Quote a text so that tabs and spaces are distinguishable."""
    return json.dumps(text[:_MAX_LINE_CHARS], ensure_ascii=False)
