"""The file tools: `read`, `write`, `edit`, `ls`.

A file changes only if the requesting agent knows its current content. If two agents read a file and
both write it, the second one gets an error, and no change is lost.
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
from harken.world.files.edit import EditResult, apply_edit, encode_text
from harken.world.files.line_window import line_count
from harken.world.files.read import read_file
from harken.world.files.read_state import FileReadState, KnownFiles, meta_of
from harken.world.files.regular_file import (
    MAX_FILE_BYTES,
    FileContent,
    create,
    hash_of,
    load,
    replace,
)
from harken.world.files.root import Root, display_name, kind_of, size_text
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, in_thread, tool

MAX_LISTED_ENTRIES = 1000
"""The maximum number of entries of a folder that are shown."""
_MAX_COUNTED_ENTRIES = 100_000

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
    """The file operations below a root; each method is a tool."""

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
            raise ToolError("offset and limit must be 1 or more")
        stop = Event()
        try:
            read_work = partial(read_file, self.root, file, first, limit, stop)
            parts, read_state = await in_thread(read_work)
        finally:
            stop.set()
        if read_state is not None:
            self._record_state(caller, file, read_state)
        return list(parts)

    async def write(self, path: str, content: str, caller: ToolContext) -> list[ContentPart]:
        """Make a new file, with the folders above it, or give a file a whole new content.

        A file that exists must have been read before, all of it, and not have changed since. To
        change a part of a file, use `edit`.
        """
        file, data = self._prepare_write(path, content)
        earlier = self._find_read_state(caller, file)
        is_new = await run_to_completion(partial(self._write, file, data, earlier))
        read_state = FileReadState(hash_of(data))
        self._record_state(caller, file, read_state, wrote=True)
        lines = line_count(data)
        size = f"{lines} line{'' if lines == 1 else 's'}"
        text = f"{'Created' if is_new else 'Wrote'} {self.root.format_name(file)}: {size}"
        return [TextPart(text, meta_of(self.root.name(file), read_state))]

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
        earlier = self._find_read_state(caller, file)
        change = partial(apply_edit, old=old_string, new=new_string, replace_all=replace_all)
        result = await run_to_completion(partial(self._edit, file, change, earlier))
        total = line_count(result.data)
        read_state = FileReadState(hash_of(result.data))
        if earlier is not None and earlier.seen is not None:
            read_state = FileReadState(read_state.hash, (), total)
        self._record_state(caller, file, read_state, wrote=True)
        location = f" at line {', '.join(map(str, result.lines))}" if result.lines else ""
        text = f"Edited {self.root.format_name(file)}: {result.count} replaced{location}"
        return [TextPart(text, meta_of(self.root.name(file), read_state))]

    async def ls(self, path: str = ".") -> str:
        """List the contents of a folder: folders end with /, files have their size."""
        folder = self.root.resolve(path)
        listing: str = await in_thread(partial(self._list_folder, folder))
        return listing

    async def preview_write(self, path: str, content: str, caller: ToolContext) -> str:
        """Return the effect of a `write` as a diff. Raises ToolError if it would fail."""
        file, data = self._prepare_write(path, content)
        earlier = self._find_read_state(caller, file)

        def make_diff() -> str:
            current = self._load_for_write(file, earlier)
            return diff(
                self.root.format_name(file), None if current is None else current.data, data
            )

        text: str = await in_thread(make_diff)
        return text

    async def preview_edit(
        self,
        path: str,
        old_string: str,
        new_string: str,
        caller: ToolContext,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - as `edit`
    ) -> str:
        """Return the effect of an `edit` as a diff. Raises ToolError if it would fail.

        The error reveals no content of a file that the agent does not know.
        """
        file = self.root.resolve(path, to_change=True)
        earlier = self._find_read_state(caller, file)

        def make_diff() -> str:
            before = self._load_for_edit(file, earlier).data
            after = apply_edit(before, old_string, new_string, replace_all=replace_all).data
            return diff(self.root.format_name(file), before, after)

        text: str = await in_thread(make_diff)
        return text

    def _prepare_write(self, path: str, content: str) -> tuple[Path, bytes]:
        """Return the resolved path and the encoded content. Raises ToolError."""
        data = encode_text(content, "content")
        if path.endswith(("/", "/.", "/..")):
            raise ToolError(f"{display_name(path)} is a folder, not a file")
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(f"the content is too large: {size_text(len(data))}")
        return self.root.resolve(path, to_change=True), data

    def _write(self, file: Path, data: bytes, earlier: FileReadState | None) -> bool:
        """Write a file; return whether it is new. Raises ToolError."""
        current = self._load_for_write(file, earlier)
        if current is None:
            create(self.root, file, data)
        else:
            replace(self.root, file, data, current.hash)
        return current is None

    def _load_for_write(self, file: Path, earlier: FileReadState | None) -> FileContent | None:
        """Return the content to be overwritten, or None for a new file. Raises ToolError."""
        if not os.path.lexists(file):
            return None
        current = load(self.root, file)
        self._check_known(file, current.hash, earlier)
        if earlier is not None and earlier.seen is not None:
            raise ToolError(
                f"you have read only a part of {self.root.format_name(file)}: read all of it "
                "before you replace it, or use `edit`"
            )
        return current

    def _edit(
        self, file: Path, change: Callable[[bytes], EditResult], earlier: FileReadState | None
    ) -> EditResult:
        """Apply a change to a file. Raises ToolError."""
        current = self._load_for_edit(file, earlier)
        result = change(current.data)
        replace(self.root, file, result.data, current.hash)
        return result

    def _load_for_edit(self, file: Path, earlier: FileReadState | None) -> FileContent:
        """Return the content to be edited. Raises ToolError if the agent does not know it."""
        current = load(self.root, file)
        self._check_known(file, current.hash, earlier)
        return current

    def _check_known(self, file: Path, current: str, read_state: FileReadState | None) -> None:
        """Raise ToolError if an agent does not know the current content of a file."""
        if read_state is None:
            raise ToolError(
                f"{self.root.format_name(file)} exists, and you have not read it: read it "
                "first, and call this after the result"
            )
        if read_state.hash != current:
            raise ToolError(
                f"{self.root.format_name(file)} was changed since you read it, by another "
                "process or a command: read it again"
            )

    def _find_read_state(self, caller: ToolContext | None, file: Path) -> FileReadState | None:
        if caller is None:
            return None
        return _known_files(caller).find_read_state(caller, self.root.name(file))

    def _record_state(
        self,
        caller: ToolContext | None,
        file: Path,
        read_state: FileReadState,
        *,
        wrote: bool = False,
    ) -> None:
        if caller is not None:
            _known_files(caller).record(caller, self.root.name(file), read_state, wrote=wrote)

    def _list_folder(self, folder: Path) -> str:
        with self.root.convert_errors(folder), os.scandir(folder) as entries:
            folder_entries = list(islice(entries, _MAX_COUNTED_ENTRIES + 1))
        ordered = sorted(folder_entries, key=lambda entry: entry.name)
        lines = [_format_entry(entry) for entry in ordered[:MAX_LISTED_ENTRIES]]
        if len(folder_entries) > MAX_LISTED_ENTRIES:
            count = (
                f"more than {_MAX_COUNTED_ENTRIES}"
                if len(folder_entries) > _MAX_COUNTED_ENTRIES
                else str(len(folder_entries))
            )
            lines.append(f"[the first {MAX_LISTED_ENTRIES} of {count}; `glob` finds by pattern]")
        return "\n".join(lines) or "[the folder is empty]"


def _known_files(caller: ToolContext) -> KnownFiles:
    known_files: KnownFiles = caller.agent.runtime.world.file_states
    return known_files


def _format_entry(entry: os.DirEntry[str]) -> str:
    name = display_name(entry.name)
    with suppress(OSError):
        if entry.is_symlink():
            return f"{name} -> {display_name(str(Path(entry.path).readlink()))}"
        if entry.is_dir():
            return f"{name}/"
        status = entry.stat()
        if stat.S_ISREG(status.st_mode):
            return f"{name}  {size_text(status.st_size)}"
        return f"{name}  {kind_of(status.st_mode)}"
    return f"{name}  gone"


async def run_to_completion(function: Callable[[], T]) -> T:
    """Run a change in a thread. If cancelled, wait until the thread has ended.

    A change that continued unobserved could interfere with the next one.
    """
    future: asyncio.Future[T] = asyncio.ensure_future(in_thread(function))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        if not future.cancelled():
            # The exception is retrieved, so that asyncio does not report it later.
            future.exception()
        raise
