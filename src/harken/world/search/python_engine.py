"""The Python search engine: a program that lists and searches files without `rg`.

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
from io import FileIO
from itertools import islice
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
    flags = re.MULTILINE | (re.IGNORECASE if query["ignore_case"] else re.NOFLAG)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # A pattern with a warning has another meaning in `rg`.
            regex = re.compile(query["pattern"], flags)
    except (re.error, Warning, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    for path in paths:
        out.writelines(_search(path, regex, query))
    return 0


def _find_paths(query: Mapping[str, Any]) -> Iterable[str]:
    if query["file"] is not None:
        return [f"./{query['file']}"]
    paths = walk(".", hidden=query["hidden"])
    return paths if query["glob"] is None else filter(Glob(**query["glob"]).matcher(), paths)


def _search(path: str, regex: re.Pattern[str], query: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the printed matches in one file."""
    text = _read_text(path, query["max_bytes"])
    # One search of the full text excludes most files.
    if not text or not regex.search(text):
        return
    lines = text.removesuffix("\n").split("\n")
    matches = (index for index, line in enumerate(lines) if regex.search(line))
    matching, context = {*islice(matches, query["most"])}, query["context_lines"]
    shown = {near for index in matching for near in range(index - context, index + context + 1)}
    for index in sorted(shown.intersection(range(len(lines)))):
        mark = b":" if index in matching else b"-"
        line_bytes = lines[index].encode("utf-8", "surrogateescape")[:_MAX_LINE_BYTES]
        yield b"%s\0%d%s%s\n" % (os.fsencode(path), index + 1, mark, line_bytes)


def _read_text(path: str, max_bytes: int) -> str | None:
    """Return the text of a file. Return None if it is too large, binary or unreadable."""
    try:
        with FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            size = os.fstat(file.fileno()).st_size
            data = b"" if size > max_bytes else file.read(size)
    except OSError:
        return None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        return None
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n") if "\r\n" in text else text
