"""The tail: the unfinished block of an answer, styled lightly and cheaply, many times a second.

It looks almost as it will when it is finished (see `typeset`), and only its last rows are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harken.terminal.styled_text import Line, Span, clean_text, wrap

_MAX_CHARS = 4000
_STEP_CHARS = 2000
_INLINE_PATTERN = re.compile(
    r"(?P<code>`[^`\n]+`)|\*\*(?P<bold>[^*\n]+)\*\*|(?<![\w*])\*(?P<italic>[^*\s][^*\n]*)\*(?!\w)"
)
_HEADING_PATTERN = re.compile(r" {0,3}#{1,6}\s+")
_BULLET_PATTERN = re.compile(r"(\s*)[-*+]\s+")
_NUMBER_PATTERN = re.compile(r"(\s*)(\d{1,9}[.)])\s+")


def format_tail(text: str, width: int, height: int, *, in_fence: bool = False) -> list[Line]:
    """Return the last rows of an incomplete block."""
    rows: list[Line] = []
    lines = _window(text).split("\n")
    if in_fence and lines[0].lstrip().startswith(("`", "~")):
        lines = lines[1:]
    for line in reversed(lines):
        rows = (_code(line, width) if in_fence else _prose(line, width)) + rows
        if len(rows) >= height:
            break
    return rows[-height:] if height > 0 else []


def _window(text: str) -> str:
    """Return the end of a long text. Its start stays the same while some rows are added."""
    if len(text) <= _MAX_CHARS + _STEP_CHARS:
        return text
    start = (len(text) - _MAX_CHARS) // _STEP_CHARS * _STEP_CHARS
    return text[text.find(" ", start, start + 100) + 1 or start :]


def _code(line: str, width: int) -> list[Line]:
    return wrap([("", "  " + clean_text(line))], width, "  ")


def _prose(line: str, width: int) -> list[Line]:
    line = clean_text(line)
    if heading := _HEADING_PATTERN.match(line):
        return wrap([("bold", line[heading.end() :])], width)
    for pattern in (_BULLET_PATTERN, _NUMBER_PATTERN):
        if match := pattern.match(line):
            mark = "•" if pattern is _BULLET_PATTERN else match[2]
            lead = f" {match[1]}{mark} "
            spans = [("", lead), *parse_inline(line[match.end() :])]
            return wrap(spans, width, " " * len(lead))
    return wrap([*parse_inline(line)], width)


def parse_inline(text: str) -> Iterator[Span]:
    """Yield the spans of a line of Markdown. An unclosed mark is kept as it is.

    >>> [*parse_inline("a **b** `c` *")]
    [('', 'a '), ('bold', 'b'), ('', ' '), ('cyan', 'c'), ('', ' *')]
    """
    position = 0
    for match in _INLINE_PATTERN.finditer(text):
        if match.start() > position:
            yield "", text[position : match.start()]
        if match["code"]:
            yield "cyan", match["code"][1:-1]
        elif match["bold"]:
            yield "bold", match["bold"]
        else:
            yield "italic", match["italic"]
        position = match.end()
    if position < len(text):
        yield "", text[position:]
