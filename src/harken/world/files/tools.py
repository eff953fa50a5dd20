"""The tools for files: `read`, `write`, `edit`, `ls`.

A file changes only where the agent that wants it knows what is in it now. So of two agents that
read a file and write it, the second one is told that it was changed, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TypeVar

from harken.core.messages import ContentPart, TextPart
from harken.world.files.diff import diff
from harken.world.files.edit import EditResult, edited, encoded
from harken.world.files.line_window import line_count
from harken.world.files.read import read_file
from harken.world.files.read_state import FileReadState, KnownFiles, meta_of
from harken.world.files.regular_file import WHOLE, FileContent, create, hash_of, load, replace
from harken.world.files.root import Root, display_name, kind_of, size_text
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, in_thread, tool

LISTED = 1000
"""Entries of a folder that are shown."""
_COUNTED = 100_000

T = TypeVar("T")


def file_tools(root: Root) -> list[Tool]:
    """Return the tools for the files below a folder, which should be the folder of the world."""
    files = Files(root)
    return [
        tool(name="read", reads_only=True)(files.read).with_subject(by="path"),
        tool(name="write")(files.write).with_subject(
            by="path", edits_files=True, preview=files.preview_write
        ),
        tool(name="edit")(files.edit).with_subject(
            by="path", edits_files=True, preview=files.preview_edit
        ),
        tool(name="ls", reads_only=True)(files.ls).with_subject(by="path"),
    ]


class Files:
    """What can be done with the files below a root; each method is a tool."""

    def __init__(self, root: Root) -> None:
        self.root = root

    async def read(
        self, path: str, caller: ToolContext, offset: int | None = None, limit: int | None = None
    ) -> list[ContentPart]:
        """Read a text file or an image.

        Lines are shown as `cat -n` does, with a number and a tab that are not in the file.
        `offset` is the first line to show, from 1; `limit` how many (2000, if they are not too
        long). A path starts at the working folder.
        """
        file = self.root.resolve(path)
        first = 1 if offset is None else offset
        if first < 1 or (limit is not None and limit < 1):
            raise ToolError("offset and limit count from 1")
        stop = Event()
        try:
            work = partial(read_file, self.root, file, first, limit, stop)
            parts, known = await in_thread(work)
        finally:
            stop.set()
        if known is not None:
            self._learn(caller, file, known)
        return list(parts)

    async def write(self, path: str, content: str, caller: ToolContext) -> list[ContentPart]:
        """Make a new file, with the folders above it, or give a file a whole new content.

        A file that exists must have been read before, all of it, and not have changed since. To
        change a part of a file, use `edit`.
        """
        file, data = self._to_write(path, content)
        earlier = self._known(caller, file)
        is_new = await to_the_end(partial(self._write, file, data, earlier))
        known = FileReadState(hash_of(data))
        self._learn(caller, file, known, wrote=True)
        lines = line_count(data)
        size = f"{lines} line{'' if lines == 1 else 's'}"
        text = f"{'Created' if is_new else 'Wrote'} {self.root.shown(file)}: {size}"
        return [TextPart(text, meta_of(self.root.name(file), known))]

    async def edit(
        self,
        path: str,
        old_string: str,
        new_string: str,
        caller: ToolContext,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - a model passes it by name
    ) -> list[ContentPart]:
        """Replace a text in a file by another.

        `old_string` must be in the file exactly once (or `replace_all` be true), exactly as it is
        there, with all white space and without line numbers. The file must have been read before
        and not have changed since.
        """
        file = self.root.resolve(path, to_change=True)
        earlier = self._known(caller, file)
        change = partial(edited, old=old_string, new=new_string, replace_all=replace_all)
        done = await to_the_end(partial(self._edit, file, change, earlier))
        total = line_count(done.data)
        known = FileReadState(hash_of(done.data))
        if earlier is not None and earlier.seen is not None:
            known = FileReadState(known.hash, (), total)
        self._learn(caller, file, known, wrote=True)
        where = f" at line {', '.join(map(str, done.lines))}" if done.lines else ""
        text = f"Edited {self.root.shown(file)}: {done.count} replaced{where}"
        return [TextPart(text, meta_of(self.root.name(file), known))]

    async def ls(self, path: str = ".") -> str:
        """List what is in a folder: folders end with /, files have their size."""
        folder = self.root.resolve(path)
        listed: str = await in_thread(partial(self._ls, folder))
        return listed

    async def preview_write(self, path: str, content: str, caller: ToolContext) -> str:
        """Return what a `write` would change, as a diff. Raises ToolError where it would fail."""
        file, data = self._to_write(path, content)
        earlier = self._known(caller, file)

        def look() -> str:
            before = self._to_replace(file, earlier)
            return diff(self.root.shown(file), None if before is None else before.data, data)

        text: str = await in_thread(look)
        return text

    async def preview_edit(
        self,
        path: str,
        old_string: str,
        new_string: str,
        caller: ToolContext,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - as `edit`
    ) -> str:
        """Return what an `edit` would change, as a diff. Raises ToolError where it would fail.

        Of a file that its agent does not know, the failure says nothing: that would be to read it.
        """
        file = self.root.resolve(path, to_change=True)
        earlier = self._known(caller, file)

        def look() -> str:
            before = self._to_edit(file, earlier).data
            after = edited(before, old_string, new_string, replace_all=replace_all).data
            return diff(self.root.shown(file), before, after)

        text: str = await in_thread(look)
        return text

    def _to_write(self, path: str, content: str) -> tuple[Path, bytes]:
        """Return where to write what. Raises ToolError."""
        data = encoded(content, "content")
        if path.endswith(("/", "/.", "/..")):
            raise ToolError(f"{display_name(path)} names a folder, not a file")
        if len(data) > WHOLE:
            raise ToolError(f"the content is too large: {size_text(len(data))}")
        return self.root.resolve(path, to_change=True), data

    def _write(self, file: Path, data: bytes, earlier: FileReadState | None) -> bool:
        """Write a file; return whether it is a new one. Raises ToolError."""
        before = self._to_replace(file, earlier)
        if before is None:
            create(self.root, file, data)
        else:
            replace(self.root, file, data, before.hash)
        return before is None

    def _to_replace(self, file: Path, earlier: FileReadState | None) -> FileContent | None:
        """Return what would be written over, None where nothing is there. Raises ToolError."""
        if not os.path.lexists(file):
            return None
        current = load(self.root, file)
        self._check_known(file, current.hash, earlier)
        if earlier is not None and earlier.seen is not None:
            raise ToolError(
                f"you have seen only a part of {self.root.shown(file)}: read all of it before "
                f"you write it anew, or use `edit`"
            )
        return current

    def _edit(
        self, file: Path, change: Callable[[bytes], EditResult], earlier: FileReadState | None
    ) -> EditResult:
        """Change a file. Raises ToolError."""
        current = self._to_edit(file, earlier)
        done = change(current.data)
        replace(self.root, file, done.data, current.hash)
        return done

    def _to_edit(self, file: Path, earlier: FileReadState | None) -> FileContent:
        """Return what would be changed. Raises ToolError where its agent does not know it."""
        current = load(self.root, file)
        self._check_known(file, current.hash, earlier)
        return current

    def _check_known(self, file: Path, current: str, known: FileReadState | None) -> None:
        """Raise ToolError where an agent does not know the content that a file has now."""
        if known is None:
            raise ToolError(
                f"{self.root.shown(file)} exists, and you have not read it: read it first (the "
                f"result must be there before you call this)"
            )
        if known.hash != current:
            raise ToolError(
                f"{self.root.shown(file)} was changed since you read it, by somebody else or by a "
                f"command: read it again"
            )

    def _known(self, caller: ToolContext | None, file: Path) -> FileReadState | None:
        if caller is None:
            return None
        return _known_files(caller).before(caller, self.root.name(file))

    def _learn(
        self, caller: ToolContext | None, file: Path, known: FileReadState, *, wrote: bool = False
    ) -> None:
        if caller is not None:
            _known_files(caller).learn(caller, self.root.name(file), known, wrote=wrote)

    def _ls(self, folder: Path) -> str:
        with self.root.failing(folder), os.scandir(folder) as entries:
            found = list(islice(entries, _COUNTED + 1))
        ordered = sorted(found, key=lambda entry: entry.name)
        lines = [_entry_line(entry) for entry in ordered[:LISTED]]
        if len(found) > LISTED:
            count = f"more than {_COUNTED}" if len(found) > _COUNTED else str(len(found))
            lines.append(f"[the first {LISTED} of {count}; `glob` finds by pattern]")
        return "\n".join(lines) or "[the folder is empty]"


def _known_files(caller: ToolContext) -> KnownFiles:
    known: KnownFiles = caller.agent.runtime.world.known
    return known


def _entry_line(entry: os.DirEntry[str]) -> str:
    name = display_name(entry.name)
    with suppress(OSError):
        if entry.is_symlink():
            return f"{name} -> {display_name(str(Path(entry.path).readlink()))}"
        if entry.is_dir():
            return f"{name}/"
        found = entry.stat()
        if stat.S_ISREG(found.st_mode):
            return f"{name}  {size_text(found.st_size)}"
        return f"{name}  {kind_of(found.st_mode)}"
    return f"{name}  gone"


async def to_the_end(function: Callable[[], T]) -> T:
    """Run a change in a thread; where it is cancelled, wait until it has ended, one way or other.

    A change that goes on when nobody waits for it would meet the next one.
    """
    running: asyncio.Future[T] = asyncio.ensure_future(in_thread(function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at, so that nobody is told of it later
        raise
