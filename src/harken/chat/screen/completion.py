"""Completion: slash commands, and files after `@` or where a word looks like a path.

A path is completed by its folder alone. A name after `@` is looked for in the whole tree below
the folder of the chat: the tree is walked in a thread of its own, once for some seconds, and
never further than `MOST` files.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Thread

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from harken.chat.commands.base import COMMANDS, CommandContext, named_command
from harken.terminal.text import escape_control_characters

MOST = 50_000
SHOWN = 50
_FRESH_S = 10.0
_PATIENCE = 50
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})
_WORD = re.compile(r"\S+$")


@dataclass(slots=True)
class FileTree:
    """The files below a folder, as they were some seconds ago."""

    folder: Path
    files: list[str] = field(default_factory=list)
    """Relative paths, those near the top first."""
    _walked_at: float = -_FRESH_S
    walking: bool = False

    def refresh(self, now: float) -> Thread | None:
        """Walk the tree again, in a thread, where what is known of it is old."""
        if self.walking or now - self._walked_at < _FRESH_S:
            return None
        self.walking, self._walked_at = True, now
        thread = Thread(target=self._walk, name="harken files", daemon=True)
        thread.start()
        return thread

    def _walk(self) -> None:
        found: list[str] = []
        waiting = [""]
        for below in waiting:  # grows
            for name, is_folder in _entries(self.folder / below):
                path = f"{below}{name}"
                if is_folder and name not in _SKIPPED:
                    waiting.append(f"{path}/")
                elif not is_folder:
                    found.append(path)
            if len(found) > MOST:
                break
        self.files, self.walking = found[:MOST], False

    def matching(self, wanted: str) -> list[str]:
        """Return the files that fit best: by how a name begins, then by what it holds."""
        wanted = wanted.lower()
        ranked: list[tuple[int, int, str]] = []
        for at, path in enumerate(self.files):
            lower = path.lower()
            if wanted not in lower:
                continue
            name = lower.rpartition("/")[2]
            rank = 0 if name.startswith(wanted) else 1 if wanted in name else 2
            ranked.append((rank, at, path))
        return [path for _, _, path in sorted(ranked)[:SHOWN]]


def _entries(folder: Path, hidden: bool = False) -> Iterator[tuple[str, bool]]:  # noqa: FBT002
    """Yield names and whether they are folders, sorted; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
    except OSError:
        return
    for name, is_folder in sorted(found):
        if hidden or not name.startswith("."):
            yield name, is_folder


class InputCompleter(Completer):
    """Completes what is typed into the input."""

    def __init__(self, folder: Path, talk: Callable[[], CommandContext] | None = None) -> None:
        """Complete files below a folder; `talk` knows the names that commands take."""
        self.folder = folder
        self.talk = talk
        self.tree = FileTree(folder)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield completions; of files as soon as the tree was walked for the first time."""
        if "@" in document.text_before_cursor:
            self.tree.refresh(time.monotonic())
            for _ in range(_PATIENCE):
                if self.tree.files or not self.tree.walking:
                    break
                await asyncio.sleep(0.02)
        for completion in self.get_completions(document, complete_event):
            yield completion

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        if found := [*self._of_command(before)]:
            yield from found
            return
        word = _WORD.search(before)
        if word is None:
            return
        if word[0].startswith("@") and "/" not in word[0] and not word[0].startswith("@~"):
            yield from self._files(word[0][1:])
        elif "/" in word[0]:
            yield from self._paths(word[0].removeprefix("@"))

    def _of_command(self, before: str) -> Iterator[Completion]:
        """Yield commands that begin like this, or what may stand after one."""
        if not before.startswith("/") or "\n" in before:
            return
        talk = None if self.talk is None else self.talk()
        own = {} if talk is None else talk.own
        name, space, rest = before[1:].partition(" ")
        if not space:
            for command in chain(COMMANDS.values(), own.values()):
                if command.name.startswith(name):
                    meaning = escape_control_characters(command.meaning)
                    yield Completion(f"/{command.name}", -len(before), display_meta=meaning)
            return
        known = named_command(name, own)
        words = rest.split(" ")
        if known is not None and talk is not None:
            for word in known.completes(talk, words[:-1]):
                if word.startswith(words[-1]) and word.isprintable():
                    yield Completion(word, -len(words[-1]), display=word)

    def _files(self, wanted: str) -> Iterator[Completion]:
        for path in self.tree.matching(wanted):
            if path.isprintable():
                yield Completion(path, -len(wanted), display=path)

    def _paths(self, typed: str) -> Iterator[Completion]:
        """Yield what is in the folder that a path names so far."""
        above, _, begun = typed.rpartition("/")
        folder = Path(self.folder, Path(f"{above}/").expanduser())
        shown = 0
        for name, is_folder in _entries(folder, hidden=begun.startswith(".")):
            if name.startswith(begun) and name.isprintable():
                end = "/" if is_folder else ""
                yield Completion(
                    f"{name}{end}", -len(begun), display=escape_control_characters(f"{name}{end}")
                )
                shown += 1
                if shown == SHOWN:
                    return
