"""`NotesMemory`: a long-term memory that is a folder of Markdown files, for people, too.

One idea: a note is a file that anybody can read, edit and keep under version control. Its name is
its path, and no name leads out of the folder, neither by `..` nor by a symbolic link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from harken.core.arguments import check_arguments
from harken.core.logged_string import preview
from harken.world.files.root import Root, size_text
from harken.world.memory.base import MemoryHit, MemoryKind, MemoryNotFound
from harken.world.private_file import replace_file
from harken.world.result import ToolError
from harken.world.tool import ToolContext

MOST_BYTES = 256 * 1024
"""No note is larger."""
MOST_NOTES = 10_000
"""So many are looked through."""
_ENDING, _SHOWN = ".md", 20


@check_arguments
class NotesMemory:
    """Notes below one folder, which is made with the first one."""

    kind: MemoryKind = "LTM"

    def __init__(self, folder: str | Path) -> None:
        """Keep notes in a folder."""
        self.folder = Path(os.path.realpath(folder))

    def read(self, path: str, caller: ToolContext) -> str:
        """Return a note, without the newline at its end. Raises ToolError."""
        return self._read(self._file(path)).removesuffix("\n")

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Write a note, in one step. Raises ToolError."""
        whole = text if text.endswith("\n") else f"{text}\n"
        file, data = self._file(path), whole.encode("utf-8", "backslashreplace")
        if len(data) > MOST_BYTES:
            raise ToolError(f"a note has at most {size_text(MOST_BYTES)}: write several, or less")
        root = Root(self.folder)
        with root.failing(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(file, data)

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return the notes with all these words, those first that have them most often."""
        wanted = words.casefold().split()
        if not wanted:
            raise ToolError("a query has at least one word")
        found: list[tuple[int, MemoryHit]] = []
        for name in self._names():
            try:
                text = self._read(self.folder / name)
            except ToolError:
                continue
            both = f"{name}\n{text}".casefold()
            if all(word in both for word in wanted):
                often = sum(both.count(word) for word in wanted)
                found.append((-often, MemoryHit(name, _line_with(text, wanted))))
        return [one for _, one in sorted(found, key=lambda one: (one[0], one[1].path))[:limit]]

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return the names of all notes."""
        return sorted(self._names())

    def _file(self, path: str) -> Path:
        """Return the file of a note; a name without an ending is one of Markdown.

        Raises ToolError.
        """
        parts = path.strip().split("/")
        if path.startswith("/") or any(part.startswith(".") or not part for part in parts):
            raise ToolError(f"{path[:80]!r} is no name of a note; one is such as people/ann.md")
        name = "/".join(parts)
        if not name.endswith(_ENDING):
            name += _ENDING
        return Root(self.folder).resolve(name)

    def _read(self, file: Path) -> str:
        root = Root(self.folder)
        with root.failing(file):
            if not file.exists():
                there = ", ".join(self._names()[:_SHOWN]) or "none"
                raise MemoryNotFound(f"there is no note {root.shown(file)}; there is: {there}")
            if not file.is_file():
                raise ToolError(f"{root.shown(file)} is no note")
            if file.stat().st_size > MOST_BYTES:
                raise ToolError(f"{root.shown(file)} is no note: it is larger than any")
            return file.read_bytes().decode("utf-8", "replace")

    def _names(self) -> Sequence[str]:
        return tuple(islice(self._all_names(), MOST_NOTES))

    def _all_names(self) -> Iterator[str]:
        """Yield the names of notes; what is hidden is none, nor is what a link leads to."""
        for folder, below, names in os.walk(self.folder):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if name.endswith(_ENDING) and name[0] != "." and not file.is_symlink():
                    yield file.relative_to(self.folder).as_posix()


def _line_with(text: str, words: Sequence[str]) -> str:
    """Return the first line that has most of the words."""
    lines = text.splitlines() or [""]
    return preview(max(lines, key=lambda line: sum(word in line.casefold() for word in words)))
