"""The strings of JSON in a text, decoded, also those in strings that contain JSON again.

A line is searched, not parsed: it may be a part of a record, or code. Only strings with an escape
of another letter than a white space are decoded: the text has the others as they are, or as the
shapes of credentials know them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

from harken.core import canonical

MAX_DEPTH = 16
"""The maximum nesting depth of decoded strings. Each level doubles the backslashes of the next."""
SEPARATOR = "\n\0\n"
"""Text between decoded strings that are searched together: no credential contains it."""
_DECODER = json.JSONDecoder(strict=False)
_HIDING_PATTERN = re.compile(r"\\[^nrt]")
"""Matches an escape that can hide a letter of a credential."""
_ESCAPED_PATTERN = re.compile(
    r'[^"]*+(?:"[^"\\]*+"[^"]*+)*+(?P<literal>"[^"\\]*+(?:\\.[^"\\]*+)++")?'
)
"""Matches the next string with an escape. It always matches, so a search is linear."""


def iter_escaped(line: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each string that has to be decoded, with its quotes."""
    match = _ESCAPED_PATTERN.match(line)
    while match is not None and match["literal"] is not None:
        if _HIDING_PATTERN.search(match["literal"]):
            yield match.span("literal")
        match = _ESCAPED_PATTERN.match(line, match.end())


def replace_strings(line: str, replace: Callable[[str], str]) -> str:
    """Apply `replace` to the strings that have to be decoded. Only changed ones are encoded."""
    pieces: list[str] = []
    position = 0
    for start, end in iter_escaped(line):
        text = _decode(line[start:end])
        if text is not None and (new := replace(text)) != text:
            pieces += [line[position:start], canonical.to_json_line(new).decode()]
            position = end
    return "".join([*pieces, line[position:]]) if pieces else line


def normalize_escapes(text: str) -> str:
    r"""Return a text whose strings have canonical escapes, so not `\/` or `\u0041`.

    >>> normalize_escapes(r'{"a\/b": "\u0041\n"}')
    '{"a/b": "A\\n"}'
    """
    if not _has_other_escapes(text):
        return text
    lines = text.split("\n")
    return "\n".join(_normalize_line(line) if _has_other_escapes(line) else line for line in lines)


def _has_other_escapes(text: str) -> bool:
    return "\\u" in text or "\\/" in text


def _normalize_line(line: str) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in iter_escaped(line):
        text = _decode(line[start:end])
        if text is not None:
            pieces += [line[position:start], canonical.to_json_line(text).decode()]
            position = end
    return "".join([*pieces, line[position:]])


def iter_decoded(lines: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield the decoded strings of lines, level by level, each with the index of its line."""
    level = [(number, line) for number, line in enumerate(lines) if _HIDING_PATTERN.search(line)]
    for _ in range(MAX_DEPTH):
        decoded = [
            (number, text)
            for number, line in level
            for start, end in iter_escaped(line)
            if (text := _decode(line[start:end])) is not None
        ]
        if not decoded:
            return
        yield [number for number, _ in decoded], [text for _, text in decoded]
        level = [
            (number, line)
            for number, text in decoded
            if _HIDING_PATTERN.search(text)
            for line in text.split("\n")
            if "\\" in line
        ]


def _decode(literal: str) -> str | None:
    """Return the text of a string, or None if it is not valid JSON."""
    try:
        text: str = _DECODER.decode(literal)
    except ValueError:
        return None
    return text
