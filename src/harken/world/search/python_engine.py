"""What `rg` does, in Python, where it is not installed: a program that lists and searches files.

It is a program because a regular expression can take longer than anybody lives, and only a
process can be stopped then. It prints what `rg` prints, so one parser reads both:

    path NUL                        a file
    path NUL line ":" text LF       a line that fits ("-": one beside it)
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

_SHOWN = 2000
"""Bytes of a line."""


def main(arguments: str, out: BinaryIO) -> int:
    """Do what the arguments (JSON) say, in the current folder; return an exit code as `rg`."""
    query = json.loads(arguments)
    paths = _paths(query)
    if query["pattern"] is None:
        out.writelines(os.fsencode(path) + b"\0" for path in paths)
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what is only warned of means something else in `rg`
            regex = re.compile(query["pattern"], _flags(query["pattern"], query["ignore_case"]))
    except (re.error, Warning, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    for path in paths:
        out.writelines(_search(path, regex, query))
    return 0


def _flags(pattern: str, ignore_case: bool) -> re.RegexFlag:  # noqa: FBT001 - a value of JSON
    return re.MULTILINE | (re.IGNORECASE if ignore_case else re.NOFLAG)


def _paths(query: Mapping[str, Any]) -> Iterable[str]:
    if query["file"] is not None:
        return ["./" + os.fsdecode(os.fsencode(query["file"]))]
    found = walk(".", hidden=query["hidden"])
    if query["glob"] is None:
        return found
    wanted = Glob("", query["glob"], anchored=query["anchored"]).matcher()
    return (path for path in found if wanted(path))


def _search(path: str, regex: re.Pattern[str], query: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield what is found in one file, as it is printed."""
    text = _text(path, query["largest"])
    # One look at the whole says of most files that nothing is in them.
    if text is None or not regex.search(text):
        return
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    around, most = query["context_lines"], query["most"]
    found: list[int] = []
    for at, line in enumerate(lines):
        if regex.search(line):
            found.append(at)
            if len(found) >= most:
                break
    fitting, name = set(found), os.fsencode(path)
    near = fitting if not around else _around(found, around, len(lines))
    for at in sorted(near):
        mark = b":" if at in fitting else b"-"
        shown = lines[at].encode("utf-8", "surrogateescape")[:_SHOWN]
        yield b"%s\0%d%s%s\n" % (name, at + 1, mark, shown)


def _around(found: list[int], around: int, count: int) -> set[int]:
    return {
        near for at in found for near in range(max(0, at - around), min(count, at + around + 1))
    }


def _text(path: str, largest: int) -> str | None:
    """Return what a file says; None where it is too large, no text, or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > largest:
            return None
        data = os.read(descriptor, size + 1)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
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
