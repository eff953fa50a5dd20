"""Completion of slash commands, and of files after `@` or in a word that looks like a path.

A path is completed from its folder alone. A name after `@` is searched in all files below the
folder of the chat: a separate thread walks the tree, at most once in some seconds, and reads at
most `MOST` files.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from threading import Thread

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from harken.chat.commands.base import COMMANDS, CommandContext, find_command
from harken.terminal.text import escape_control_characters

MAX_FILES = 50_000
MAX_COMPLETIONS = 50
_FRESH_S = 10.0
_MAX_WAIT_STEPS = 50
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})
_WORD_PATTERN = re.compile(r"\S+$")


class FileTree(msgspec.Struct):
    """A cached list of the files below a folder."""

    folder: Path
    files: list[str] = msgspec.field(default_factory=list)
    """Relative paths, those of upper folders first."""
    _walked_at: float = -_FRESH_S
    walking: bool = False

    def refresh(self, now: float) -> Thread | None:
        """Walk the tree again, in a thread, if the cached list of files is old."""
        if self.walking or now - self._walked_at < _FRESH_S:
            return None
        self.walking, self._walked_at = True, now
        thread = Thread(target=self._walk, name="harken files", daemon=True)
        thread.start()
        return thread

    def _walk(self) -> None:
        paths: list[str] = []
        waiting = [""]
        for below in waiting:  # the loop appends subfolders
            for name, is_folder in _iter_entries(self.folder / below):
                path = f"{below}{name}"
                if is_folder and name not in _SKIPPED:
                    waiting.append(f"{path}/")
                elif not is_folder:
                    paths.append(path)
            if len(paths) > MAX_FILES:
                break
        self.files, self.walking = paths[:MAX_FILES], False

    def find_matches(self, wanted: str) -> list[str]:
        """Return the best matches: names with this prefix first, then names that contain it."""
        wanted = wanted.lower()
        ranked: list[tuple[int, int, str]] = []
        for index, path in enumerate(self.files):
            lower = path.lower()
            if wanted not in lower:
                continue
            name = lower.rpartition("/")[2]
            rank = 0 if name.startswith(wanted) else 1 if wanted in name else 2
            ranked.append((rank, index, path))
        return [path for _, _, path in sorted(ranked)[:MAX_COMPLETIONS]]


def _iter_entries(folder: Path, hidden: bool = False) -> Iterator[tuple[str, bool]]:  # noqa: FBT002
    """Yield sorted names and whether they are folders; none if the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return
    for name, is_folder in sorted(names):
        if hidden or not name.startswith("."):
            yield name, is_folder


class InputCompleter(Completer):
    """Completes the input of the user."""

    def __init__(self, folder: Path, talk: Callable[[], CommandContext] | None = None) -> None:
        """Complete files below a folder; `talk` returns the context of the commands."""
        self.folder = folder
        self.talk = talk
        self.tree = FileTree(folder)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield completions; those of files after the first walk of the tree."""
        if "@" in document.text_before_cursor:
            self.tree.refresh(time.monotonic())
            for _ in range(_MAX_WAIT_STEPS):
                if self.tree.files or not self.tree.walking:
                    break
                await asyncio.sleep(0.02)
        for completion in self.get_completions(document, complete_event):
            yield completion

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        if completions := [*self._complete_command(before)]:
            yield from completions
            return
        word = _WORD_PATTERN.search(before)
        if word is None:
            return
        if word[0].startswith("@") and "/" not in word[0] and not word[0].startswith("@~"):
            yield from self._complete_files(word[0][1:])
        elif "/" in word[0]:
            yield from self._complete_paths(word[0].removeprefix("@"))

    def _complete_command(self, before: str) -> Iterator[Completion]:
        """Yield commands with this prefix, or the arguments of a command."""
        if not before.startswith("/") or "\n" in before:
            return
        talk = None if self.talk is None else self.talk()
        user_commands = {} if talk is None else talk.user_commands
        name, space, tail = before[1:].partition(" ")
        if not space:
            for command in chain(COMMANDS.values(), user_commands.values()):
                if command.name.startswith(name):
                    meaning = escape_control_characters(command.meaning)
                    yield Completion(f"/{command.name}", -len(before), display_meta=meaning)
            return
        matching_command = find_command(name, user_commands)
        words = tail.split(" ")
        if matching_command is not None and talk is not None:
            for word in matching_command.completes(talk, words[:-1]):
                if word.startswith(words[-1]) and word.isprintable():
                    yield Completion(word, -len(words[-1]), display=word)

    def _complete_files(self, wanted: str) -> Iterator[Completion]:
        for path in self.tree.find_matches(wanted):
            if path.isprintable():
                yield Completion(path, -len(wanted), display=path)

    def _complete_paths(self, typed: str) -> Iterator[Completion]:
        """Yield the entries of the folder of an incomplete path."""
        above, _, prefix = typed.rpartition("/")
        folder = Path(self.folder, Path(f"{above}/").expanduser())
        count_yielded = 0
        for name, is_folder in _iter_entries(folder, hidden=prefix.startswith(".")):
            if name.startswith(prefix) and name.isprintable():
                end = "/" if is_folder else ""
                yield Completion(
                    f"{name}{end}", -len(prefix), display=escape_control_characters(f"{name}{end}")
                )
                count_yielded += 1
                if count_yielded == MAX_COMPLETIONS:
                    return
