"""Pages of a long tool result: a list by items, a text by characters.

Programs that run models truncate long results. So a result ends before that, with a line that names
the offset at which the next call continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from msgspec import Meta

MAX_PAGE_CHARS = 20_000
"""The size limit of a page. Claude Code warns above 10,000 tokens and truncates above 25,000."""
MAX_LIMIT = 200
_MIN_BREAK = MAX_PAGE_CHARS // 2
"""A page of text ends after a line, unless the line is longer than the remaining page."""

MAX_OFFSET = 1_000_000_000

Offset: TypeAlias = Annotated[
    int, Meta(ge=0, le=MAX_OFFSET, description="The number of items to skip, to continue a list.")
]
TextOffset: TypeAlias = Annotated[
    int,
    Meta(ge=0, le=MAX_OFFSET, description="The number of characters to skip, to continue a text."),
]
Limit: TypeAlias = Annotated[
    int, Meta(ge=1, le=MAX_LIMIT, description="The maximum number of items.")
]


def format_list_page(
    items: Iterable[str], *, offset: int, limit: int, total: int | None = None
) -> str:
    r"""Return the items of a page, one below the other, and how to continue after them.

    `items` are those from the offset on, at least one more than the limit if there are more.
    An item that is longer than a page is truncated. `total` is None if it is not known.

    >>> format_list_page(["b", "c"], offset=1, limit=1, total=3)
    'b\n(2 to 2 of 3; continue with offset=2)'
    """
    lines: list[str] = []
    chars, is_more = 0, False
    for item in items:
        chars += len(item) + 1
        is_more = len(lines) == limit or bool(lines and chars > MAX_PAGE_CHARS)
        if is_more:
            break
        lines.append(_truncate(item))
    end = offset + len(lines)
    if not lines and offset:
        return f"(no items after {offset:,})"
    if is_more:
        count = "" if total is None else f" of {total:,}"
        lines.append(f"({offset + 1} to {end}{count}; continue with offset={end})")
    return "\n".join(lines)


def format_text_page(chunks: Iterable[str], *, offset: int) -> str:
    """Return a page of a text from an offset on, and how to continue after it.

    The chunks are read only as far as they are needed.
    """
    to_skip, pieces, chars, is_more = offset, list[str](), 0, False
    for chunk in chunks:
        if to_skip >= len(chunk):
            to_skip -= len(chunk)
            continue
        piece, to_skip = chunk[to_skip:], 0
        pieces.append(piece[: MAX_PAGE_CHARS + 1 - chars])
        chars += len(pieces[-1])
        if is_more := chars > MAX_PAGE_CHARS:
            break
    text = "".join(pieces)
    if not text:
        return f"(the text ends before offset={offset})" if offset else ""
    if not is_more:
        return text
    end = text.rfind("\n", _MIN_BREAK, MAX_PAGE_CHARS) + 1 or MAX_PAGE_CHARS
    return f"{text[:end].rstrip()}\n(continue with offset={offset + end})"


def _truncate(item: str) -> str:
    hidden = len(item) - MAX_PAGE_CHARS
    return f"{item[:MAX_PAGE_CHARS]}... ({hidden:,} more characters)" if hidden > 0 else item
