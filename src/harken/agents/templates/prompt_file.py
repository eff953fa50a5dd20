"""Prompt files: texts with placeholders for arguments, each in a Markdown file.

    ---
    description: Looks at a change.
    argument-hint: FILE
    ---
    Review the change in $1. Pay attention to: $ARGUMENTS

A file is read when it is used, so an edit counts at once. The text is sent to the agent as if the
user had typed it, through the agent and its hooks. With `role: system` it is a system message, past
the hooks, and the agent owes no answer. Nothing in it is run.

The files of Claude Code have the same form: `sub/fix.md` is `/sub:fix`, `$ARGUMENTS[0]` is the
first word, and so is `$0`; where a file contains `$0`, `$1` is the second.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import (
    NAME,
    Malformed,
    file_errors,
    find_markdown_files,
    read_markdown_file,
)
from harken.agents.templates.skills import has_shell
from harken.errors import ConfigError

FOLDER = "commands"
ROLES = ("user", "system")
MAX_FILES = 200
"""The maximum number of listed files."""
_END = "(?![0-9A-Za-z_])"
_PLACEHOLDER_PATTERN = re.compile(
    rf"\$(?:ARGUMENTS\[(?P<at>[0-9]{{1,3}})\]|(?P<word>ARGUMENTS|[0-9]){_END})"
)
_FROM_ZERO_PATTERN = re.compile(rf"\$0{_END}")


class PromptFile(msgspec.Struct, frozen=True):
    """A prompt file as a list shows it."""

    path: Path
    description: str
    """The description in the file, or the error if it cannot be used."""
    argument_hint: str


class FilledPrompt(msgspec.Struct, frozen=True):
    """The text of a prompt file with its arguments filled in, and its role."""

    text: str
    is_system: bool


class PromptFiles(msgspec.Struct):
    """The prompt files in some folders. The first folder takes precedence."""

    folders: Sequence[Path] = ()
    _cache: dict[Path, tuple[tuple[int, int], PromptFile]] = msgspec.field(default_factory=dict)

    def paths(self) -> dict[str, Path]:
        """Return the files by name; the name of a file in a subfolder includes the subfolder."""
        paths = dict(find_markdown_files(self.folders))
        for folder in self.folders:
            for path in sorted(islice(folder.rglob("*.md"), MAX_FILES)):
                names = path.relative_to(folder).with_suffix("").parts
                if all(map(NAME.fullmatch, names)):
                    paths.setdefault(":".join(names), path)
        return paths

    def read(self, path: Path) -> PromptFile:
        """Return a prompt file. It is read again only if it changed."""
        try:
            status = os.stat(path)  # noqa: PTH116 - its errors are reported when the file is read
            state = (status.st_mtime_ns, status.st_size)
        except OSError:
            state = (0, 0)
        cached = self._cache.get(path)
        if cached is None or cached[0] != state:
            cached = self._cache[path] = (state, _read_prompt_file(path))
        return cached[1]


def fill_in_prompt(path: Path, typed: str) -> FilledPrompt:
    """Read a prompt file and fill in what the user typed after its name. Raises ConfigError."""
    with file_errors(path):
        page = read_markdown_file(path, lenient=True)
        role = front_matter.text(page.front, "role") or "user"
        if role not in ROLES:
            raise Malformed("role must be user or system")
        text = fill_in_arguments(page.body, typed).strip()
        if not text:
            raise Malformed("has no text: write it below the front matter")
    return FilledPrompt(
        f"{text}\n\n[{texts.UNRUN_COMMANDS}]" if has_shell(text) else text,
        is_system=role == "system",
    )


def fill_in_arguments(body: str, typed: str) -> str:
    r"""Replace placeholders with typed words, or append the words if there is no placeholder.

    >>> fill_in_arguments("Fix $1, then $2. ($ARGUMENTS)", "tea 'the pot'")
    "Fix tea, then the pot. (tea 'the pot')"
    >>> fill_in_arguments("Review.", "all of it"), fill_in_arguments("It costs $15 or $1.", "")
    ('Review.\n\nall of it', 'It costs $15 or .')
    >>> (
    ...     fill_in_arguments("Fix $0, then $1.", "tea pot"),
    ...     fill_in_arguments("Fix $ARGUMENTS[1].", "tea pot"),
    ... )
    ('Fix tea, then pot.', 'Fix pot.')
    """
    try:
        words = shlex.split(typed)
    except ValueError:  # an apostrophe
        words = typed.split()

    first = 0 if _FROM_ZERO_PATTERN.search(body) else 1

    def fill_in(match: re.Match[str]) -> str:
        if match["word"] == "ARGUMENTS":
            return typed
        index = int(match["at"]) if match["at"] else int(match["word"]) - first
        return words[index] if index < len(words) else ""

    if _PLACEHOLDER_PATTERN.search(body):
        return _PLACEHOLDER_PATTERN.sub(fill_in, body)
    return f"{body.rstrip()}\n\n{typed}" if typed else body


def _read_prompt_file(path: Path) -> PromptFile:
    try:
        with file_errors(path):
            front = read_markdown_file(path, lenient=True).front
            description = _one_line(front, "description")
        return PromptFile(path, description, _one_line(front, "argument-hint"))
    except ConfigError as error:
        return PromptFile(path, f"cannot be used: {error}", "")


def _one_line(front: Mapping[str, Any], key: str) -> str:
    """Return a member on a single line; `[file]`, a list in YAML, is formatted as in the file."""
    value = front.get(key)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(f"[{word}]" for word in value)
    return front_matter.one_line(front, key)
