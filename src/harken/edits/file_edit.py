"""`FileEdit`: the changes that one tool call made to one file.

The text of a change is exactly the text in the call. A path is untrusted: it is compared with paths
of a repository, and never opened.
"""

from __future__ import annotations

import posixpath
from difflib import SequenceMatcher
from typing import TypeAlias

import msgspec


class Replacement(msgspec.Struct, frozen=True):
    """A text of the file that was replaced by another."""

    old: str
    new: str
    replaces_all: bool = False


class Content(msgspec.Struct, frozen=True):
    """The complete new content of the file."""

    text: str


class Addition(msgspec.Struct, frozen=True):
    """A text that was added at the end of the file."""

    text: str


class Fragment(msgspec.Struct, frozen=True):
    """Lines that were written into the file at a position that the call does not show."""

    text: str


Change: TypeAlias = Replacement | Content | Addition | Fragment


class FileEdit(msgspec.Struct, frozen=True):
    """The changes of one tool call to one file, in order."""

    path: str
    """In normal form: absolute, or relative to a folder that may be unknown."""
    changes: tuple[Change, ...]
    moved_from: str = ""
    """The earlier path of a file that the call moved."""
    path_argument: str = ""
    """The path as it is in the arguments. Empty if it is in a patch or a command."""


def added_lines(edit: FileEdit) -> list[str]:
    """Return the lines that an edit added, without the lines that it repeats from the file."""
    return [line for change in edit.changes for line in added_by(change)]


def added_by(change: Change) -> list[str]:
    r"""Return the lines that a change added.

    >>> added_by(Replacement("a\nb", "a\nc\nb"))
    ['c']
    """
    lines, flags = split_added(change)
    return [line for line, is_added in zip(lines, flags, strict=True) if is_added]


def split_added(change: Change) -> tuple[list[str], list[bool]]:
    """Return the new lines of a change, and for each whether the change added it."""
    if not isinstance(change, Replacement):
        lines = split_lines(change.text)
        return lines, [True] * len(lines)
    old, new = split_lines(change.old), split_lines(change.new)
    return new, mark_new(old, new)


def mark_new(old: list[str], new: list[str]) -> list[bool]:
    """Return for each new line whether it is not one of the old lines, in order."""
    flags = [True] * len(new)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        flags[start] = False
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        flags[-1 - end] = False
        end += 1
    middle = old[start : len(old) - end], new[start : len(new) - end]
    for block in SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks():
        for index in range(block.b, block.b + block.size):
            flags[start + index] = False
    return flags


def split_lines(text: str) -> list[str]:
    r"""Split a text at its newlines only, as git does. A final newline adds no line.

    >>> split_lines("a\r\nb\x0cc\n"), split_lines("\n"), split_lines("")
    (['a', 'b\x0cc'], [''], [])
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def join_path(folder: str, path: str) -> str:
    r"""Return a path below a folder, in normal form, with slashes.

    >>> join_path("/a/b", "../c.py"), join_path("", "./c.py"), join_path("/a", "C:\\x\\y.py")
    ('/a/c.py', 'c.py', 'C:/x/y.py')
    """
    path = path.replace("\\", "/") if "\\" in path and "/" not in path else path
    full_path = path if is_absolute(path) or not folder else f"{folder}/{path}"
    return posixpath.normpath(full_path) if full_path else ""


def is_absolute(path: str) -> bool:
    """Whether a path in normal form is absolute, on any system.

    >>> is_absolute("/a"), is_absolute("~/a"), is_absolute("C:/a"), is_absolute("a/b")
    (True, True, True, False)
    """
    return path.startswith(("/", "~")) or path[1:3] == ":/"
