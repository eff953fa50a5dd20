"""A Python replacement for `rg`: a program that lists and searches files.

It is a separate program because a regular expression can take exponential time, and only a process
can be stopped then. It prints the format of `rg`, so that one parser reads both:

    path NUL                        a file
    path NUL line ":" text LF       a line that matches ("-": a context line)
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from harken.world.search.gitignore import walk
from harken.world.search.glob import Glob

_MAX_LINE_BYTES = 2000
"""The maximum number of bytes of a line that are printed."""


def main(arguments: str, out: BinaryIO) -> int:
    """Run the query (JSON) in the current folder; return an exit code like `rg`."""
    query = json.loads(arguments)
    paths = _find_paths(query)
    if query["pattern"] is None:
        out.writelines(os.fsencode(path) + b"\0" for path in paths)
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # A pattern with a warning has another meaning in `rg`.
            regex = re.compile(query["pattern"], _flags(query["pattern"], query["ignore_case"]))
    except (re.error, Warning, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    for path in paths:
        out.writelines(_search(path, regex, query))
    return 0


def _flags(pattern: str, ignore_case: bool) -> re.RegexFlag:  # noqa: FBT001 - a value of JSON
    return re.MULTILINE | (re.IGNORECASE if ignore_case else re.NOFLAG)


def _find_paths(query: Mapping[str, Any]) -> Iterable[str]:
    if query["file"] is not None:
        return ["./" + os.fsdecode(os.fsencode(query["file"]))]
    paths = walk(".", hidden=query["hidden"])
    if query["glob"] is None:
        return paths
    matches = Glob("", query["glob"], anchored=query["anchored"]).matcher()
    return (path for path in paths if matches(path))


def _search(path: str, regex: re.Pattern[str], query: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the printed matches in one file."""
    text = _read_text(path, query["largest"])
    # One search of the full text excludes most files.
    if text is None or not regex.search(text):
        return
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    context, limit = query["context_lines"], query["most"]
    match_indexes: list[int] = []
    for index, line in enumerate(lines):
        if regex.search(line):
            match_indexes.append(index)
            if len(match_indexes) >= limit:
                break
    matching, name = set(match_indexes), os.fsencode(path)
    shown_indexes = matching if not context else _context_lines(match_indexes, context, len(lines))
    for index in sorted(shown_indexes):
        mark = b":" if index in matching else b"-"
        line_bytes = lines[index].encode("utf-8", "surrogateescape")[:_MAX_LINE_BYTES]
        yield b"%s\0%d%s%s\n" % (name, index + 1, mark, line_bytes)


def _context_lines(match_indexes: list[int], context: int, count: int) -> set[int]:
    return {
        line_index
        for index in match_indexes
        for line_index in range(max(0, index - context), min(count, index + context + 1))
    }


def _read_text(path: str, largest: int) -> str | None:
    """Return the text of a file. Return None if it is too large, binary or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > largest:
            return None
        data = os.read(descriptor, size + 1)
        while len(data) < size and (chunk := os.read(descriptor, size - len(data))):
            data += chunk
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        return None
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n") if "\r\n" in text else text
