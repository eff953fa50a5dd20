"""`NotesMemory`: a long-term memory in a folder of Markdown files, readable by people.

A note is a file that a user can read, edit and keep under version control. Its name is its path. No
name leads out of the folder, neither by `..` nor by a symbolic link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from harken.core.arguments import check_arguments, format_existing
from harken.core.logged_string import preview
from harken.world.files.root import Root, size_text
from harken.world.memory.base import MemoryHit, MemoryKind, MemoryNotFound
from harken.world.private_file import replace_file
from harken.world.result import ToolError
from harken.world.tool import ToolContext

MAX_NOTE_BYTES = 256 * 1024
"""The maximum size of a note."""
MAX_NOTES = 10_000
"""The maximum number of notes that are searched."""
_SUFFIX, _MAX_LISTED_NAMES = ".md", 20


@check_arguments
class NotesMemory:
    """Notes below one folder, which is created with the first note."""

    kind: MemoryKind = "LTM"

    def __init__(self, folder: str | Path) -> None:
        """Use a folder for notes."""
        self.folder = Path(os.path.realpath(folder))

    def read(self, path: str, caller: ToolContext) -> str:
        """Return a note without its final newline. Raises ToolError."""
        return self._read(self._resolve_file(path)).removesuffix("\n")

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Write a note atomically. Raises ToolError."""
        text_with_newline = text if text.endswith("\n") else f"{text}\n"
        file, data = self._resolve_file(path), text_with_newline.encode("utf-8", "backslashreplace")
        if len(data) > MAX_NOTE_BYTES:
            raise ToolError(f"a note has at most {size_text(MAX_NOTE_BYTES)}: split or shorten it")
        root = Root(self.folder)
        with root.convert_errors(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(file, data)

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return the notes with all these words, those with most occurrences first."""
        query_words = words.casefold().split()
        if not query_words:
            raise ToolError("a query needs at least one word")
        hits: list[tuple[int, MemoryHit]] = []
        for name in self._list_names():
            try:
                text = self._read(self.folder / name)
            except ToolError:
                continue
            searched_text = f"{name}\n{text}".casefold()
            if all(word in searched_text for word in query_words):
                count = sum(searched_text.count(word) for word in query_words)
                hits.append((-count, MemoryHit(name, _find_best_line(text, query_words))))
        return [hit for _, hit in sorted(hits, key=lambda hit: (hit[0], hit[1].path))[:limit]]

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return the names of all notes."""
        return sorted(self._list_names())

    def _resolve_file(self, path: str) -> Path:
        """Return the file of a note; `.md` is added to a name without it.

        Raises ToolError.
        """
        parts = path.strip().split("/")
        if path.startswith("/") or any(part.startswith(".") or not part for part in parts):
            raise ToolError(f"{path[:80]!r} is not the name of a note, such as people/ann.md")
        name = "/".join(parts)
        if not name.endswith(_SUFFIX):
            name += _SUFFIX
        return Root(self.folder).resolve(name)

    def _read(self, file: Path) -> str:
        root = Root(self.folder)
        with root.convert_errors(file):
            if not file.exists():
                existing = format_existing(self._list_names()[:_MAX_LISTED_NAMES], "notes")
                raise MemoryNotFound(f"note {root.format_name(file)} not found{existing}")
            if not file.is_file():
                raise ToolError(f"{root.format_name(file)} is not a note")
            if file.stat().st_size > MAX_NOTE_BYTES:
                raise ToolError(f"{root.format_name(file)} is not a note: it is too large")
            return file.read_bytes().decode("utf-8", "replace")

    def _list_names(self) -> Sequence[str]:
        return tuple(islice(self._iter_names(), MAX_NOTES))

    def _iter_names(self) -> Iterator[str]:
        """Yield the names of notes, without hidden files and symbolic links."""
        for folder, subfolders, names in os.walk(self.folder):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if name.endswith(_SUFFIX) and name[0] != "." and not file.is_symlink():
                    yield file.relative_to(self.folder).as_posix()


def _find_best_line(text: str, words: Sequence[str]) -> str:
    """Return the first line that contains the most words."""
    lines = text.splitlines() or [""]
    return preview(max(lines, key=lambda line: sum(word in line.casefold() for word in words)))
