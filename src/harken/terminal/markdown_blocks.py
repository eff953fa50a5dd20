"""Split streamed Markdown into blocks that are complete and do not change any more.

A finished block is rendered the same whatever text follows. So it can be printed at once, and only
the last block is provisional. A list ends with each item, and a long fence is split into pieces
between lines: these have `is_continuation` set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_FENCE_PATTERN = re.compile(r"( {0,3})(`{3,}|~{3,})([^`]*)$")
_INNER_FENCE_PATTERN = re.compile(r"\s+(`{3,}|~{3,})([^`]*)$")
_ITEM_PATTERN = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_INTERRUPTING_PATTERN = re.compile(r" {0,3}(?:[-*+]|1[.)])\s+\S")
_HEADING_PATTERN = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE_PATTERN = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_UNDERLINE_PATTERN = re.compile(r" {0,3}(?:-+|=+)\s*$")


class Block(msgspec.Struct, frozen=True):
    """A finished block of Markdown."""

    text: str
    is_continuation: bool = False
    """Whether it continues the block before: an item of the same list, a part of the same fence."""


class Blocks(msgspec.Struct):
    """Splits streamed text into finished blocks."""

    fence_lines: int = 30
    """A fence longer than this is split into pieces."""
    partial: str = ""
    """The incomplete line."""
    _lines: list[str] = msgspec.field(default_factory=list)
    _kind: str = ""
    """The kind of the open block: "" for none, `text`, `item`, `fence`."""
    _fence: str = ""
    """The opening line of the open fence, also of a fence inside an item."""
    _joined: bool = False
    _last: str = ""
    """The kind of the last finished block; "" after a blank line or another kind."""

    @property
    def open_text(self) -> str:
        """The received part of the open block."""
        return "\n".join([*self._lines, self.partial] if self.partial else self._lines)

    @property
    def is_continuation(self) -> bool:
        """Whether the open block continues the block before."""
        return self._joined

    @property
    def in_fence(self) -> bool:
        """Whether the open block is a fence."""
        return self._kind == "fence"

    def feed(self, text: str) -> list[Block]:
        """Process the next piece of text; return the blocks that it finished."""
        if "\n" not in text:
            self.partial += text
            return []
        *lines, self.partial = (self.partial + text).split("\n")
        return [block for line in lines for block in self._line(line.rstrip("\r"))]

    def finish(self) -> list[Block]:
        """Return the remaining text as finished blocks: no more text comes."""
        blocks = list(self._line(self.partial)) if self.partial else []
        self.partial = ""
        blocks += self._end()
        self._last = ""
        return blocks

    def _line(self, line: str) -> Iterator[Block]:
        """Process a complete line."""
        if self._kind == "fence":
            yield from self._in_fence(line)
        elif self._kind == "item":
            yield from self._in_item(line)
        elif not line.strip():
            yield from self._end()
        elif _FENCE_PATTERN.match(line):
            yield from self._begin("fence", line)
        elif self._kind == "text" and _UNDERLINE_PATTERN.match(line):
            self._lines.append(line)
            yield from self._end()
        elif _HEADING_PATTERN.match(line) or _RULE_PATTERN.match(line):
            yield from self._begin("text", line)
            yield from self._end()
        elif _ITEM_PATTERN.match(line) and (
            self._kind != "text" or _INTERRUPTING_PATTERN.match(line)
        ):
            yield from self._begin("item", line)
        elif self._kind == "text":
            self._lines.append(line)
        else:
            yield from self._begin("text", line)

    def _in_fence(self, line: str) -> Iterator[Block]:
        self._lines.append(line)
        if _closes(line, self._fence):
            yield from self._end()
        elif len(self._lines) > self.fence_lines:
            opening = self._lines[0]
            yield Block("\n".join([*self._lines, self._fence]), is_continuation=self._joined)
            self._lines, self._joined = [opening], True

    def _in_item(self, line: str) -> Iterator[Block]:
        is_inside = line[:1] in (" ", "\t") and not _ITEM_PATTERN.match(line)
        inner = _INNER_FENCE_PATTERN.match(line)
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
            self._lines.append(line)
        elif not line.strip():
            self._lines.append("")
        elif inner:
            self._fence = inner[1]
            self._lines.append(line)
        elif _ITEM_PATTERN.match(line) and not _RULE_PATTERN.match(line):
            if line[:2] == "  ":  # an item of a nested list
                self._lines.append(line)
            else:
                yield from self._begin("item", line)
        elif is_inside or (self._lines[-1] and not _starts_a_block(line)):
            self._lines.append(line)
        else:
            yield from self._end()
            self._last = ""
            yield from self._line(line)

    def _begin(self, kind: str, line: str) -> Iterator[Block]:
        yield from self._end()
        self._joined = kind == "item" and self._last == "item"
        self._kind, self._lines = kind, [line]
        match = _FENCE_PATTERN.match(line) if kind == "fence" else None
        self._fence = match[2] if match else ""

    def _end(self) -> Iterator[Block]:
        lines, kind = self._lines, self._kind
        if kind == "fence" and len(lines) > 1 and not _closes(lines[-1], self._fence):
            lines = [*lines, self._fence]
        while lines and not lines[-1]:
            lines = lines[:-1]
        is_remnant = kind == "fence" and self._joined and len(lines) <= 2
        if lines and not is_remnant:
            yield Block("\n".join(lines), is_continuation=self._joined)
        if kind:
            self._last = kind
        self._lines, self._kind, self._fence, self._joined = [], "", "", False


def _closes(line: str, fence: str) -> bool:
    """Whether a line closes the fence with this opening."""
    bare = line.strip()
    return bool(fence) and bare.startswith(fence) and not bare.strip(fence[0])


def _starts_a_block(line: str) -> bool:
    return bool(
        _FENCE_PATTERN.match(line) or _HEADING_PATTERN.match(line) or _RULE_PATTERN.match(line)
    )
