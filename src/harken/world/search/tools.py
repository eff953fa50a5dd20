"""The tools that find files: `glob` by name, `grep` by content.

Both leave out hidden files and files that git ignores, as ripgrep does, unless the path or pattern
names them explicitly, such as `node_modules/x/*.js`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from harken.world.files.regular_file import MAX_FILE_BYTES, binary_kind, open_regular
from harken.world.files.root import Root, size_text
from harken.world.result import ToolError
from harken.world.search.engines import Engine, FileQuery
from harken.world.search.glob import Glob, glob_of
from harken.world.search.results import MatchLine, SearchOutput, SearchProcess
from harken.world.tool import Tool, ToolContext, in_thread, tool

MAX_LISTED_FILES = 200
"""The maximum number of files in `glob`, and the default limit of lines in `grep`."""
MAX_GATHERED_LINES = 10_000
"""The number of lines after which a search is stopped."""
_MAX_FILES = 1_000_000
_TIMEOUT_S = 30.0
_MAX_PATTERN_CHARS = 10_000
_MAX_LINE_CHARS = 500
_MAX_RESULT_CHARS = 40_000
_MAX_CONTEXT_LINES = 20
_NO_FILES_TEXT, _NO_LINE_TEXT = "[no files]", "[no matches]"
_INCOMPLETE_NOTE = "[some files could not be searched and may have more matches]"


def search_tools(root: Root, engine: Engine, *, within_s: float = _TIMEOUT_S) -> list[Tool]:
    """Return the tools that find files below a folder; a search takes at most `within_s`."""
    searches = Searches(root, engine, within_s=within_s)
    return [
        tool(name="glob", reads_only=True)(searches.glob).with_subject(by="path"),
        tool(name="grep", reads_only=True)(searches.grep).with_subject(by="path", shows_files=True),
    ]


class _SearchTarget(msgspec.Struct, frozen=True):
    """The target of a search."""

    folder: Path
    file: str | None = None
    """The only file in the folder to search."""
    glob: Glob | None = None


class _VisibleFiles(msgspec.Struct, frozen=True):
    """The found files that the caller may see, and the number of hidden ones."""

    names: Sequence[str]
    kept: int

    def said(self, text: str) -> str:
        """Append a note on hidden files, if there are any."""
        if not self.kept:
            return text
        files = (
            "1 file that permission rules hide from you was"
            if self.kept == 1
            else (f"{self.kept} files that permission rules hide from you were")
        )
        return f"{text}\n\n({files} left out)"


class Searches:
    """The search operations below a root; each method is a tool."""

    def __init__(self, root: Root, engine: Engine, *, within_s: float) -> None:
        self.root = root
        self.engine = engine
        self.within_s = within_s

    async def glob(self, pattern: str, caller: ToolContext, path: str = ".") -> str:
        """Find files by name; those that changed last come first.

        `*` and `?` stay within a name, `**` goes through folders, `{a,b}` are alternatives. A
        pattern without / is looked for in every folder. Hidden files and what git ignores are
        left out, unless path or pattern names them.
        """
        target = self._resolve_target(path, pattern, caller)
        if target.file is not None:
            visible = _remove_hidden(target, [target.file], caller)
            return visible.said(
                self.root.format_name(target.folder / target.file)
                if visible.names
                else _NO_FILES_TEXT
            )
        output = await self._search(target, FileQuery(glob=target.glob), _MAX_FILES)
        text: str = await in_thread(partial(self._format_files, target, output, caller))
        return text

    async def grep(  # noqa: PLR0917 - a model passes them by name
        self,
        pattern: str,
        caller: ToolContext,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - as above
        context_lines: int = 0,
        limit: int = MAX_LISTED_FILES,
    ) -> str:
        r"""Find lines by a regular expression, in a file or in all files of a folder.

        `glob` says in which files, as the tool `glob` does. A line is shown with its number and
        a colon, `context_lines` around it with a dash; at most `limit` lines. An expression is
        looked for in single lines; \( \{ \[ \. mean these letters themselves. Hidden files, what
        git ignores, binary files and those above 10 MB are left out.
        """
        if not 0 < limit <= MAX_GATHERED_LINES or context_lines < 0:
            raise ToolError(f"limit must be from 1 to {MAX_GATHERED_LINES}, context_lines from 0")
        _check_pattern(pattern)
        target = self._resolve_target(path, glob, caller)
        if target.file is not None:
            visible = _remove_hidden(target, [target.file], caller)
            if not visible.names:  # Even its type, or whether a line matches, must not be revealed.
                return visible.said(_NO_LINE_TEXT)
            self._check_file(target.folder / target.file)
        query = FileQuery(
            pattern=pattern,
            ignore_case=ignore_case,
            context_lines=min(context_lines, _MAX_CONTEXT_LINES),
            most=limit + 1,
            glob=target.glob,
            file=target.file,
        )
        output = await self._search(target, query, MAX_GATHERED_LINES)
        text: str = await in_thread(partial(self._format_matches, target, output, limit, caller))
        return text

    def _resolve_target(
        self, path: str, pattern: str | None, caller: ToolContext | None
    ) -> _SearchTarget:
        """Return the folder or file to search. Raises ToolError if it does not exist."""
        folder = self.root.resolve(path)
        if pattern is None:
            return self._build_target(folder, None, caller)
        if not pattern:
            raise ToolError("the pattern is empty")
        if not folder.is_dir():
            with self.root.convert_errors(folder):
                folder.lstat()
            raise ToolError(f"{self.root.format_name(folder)} is not a folder")
        glob = glob_of(pattern)
        if glob.folder:
            folder = self.root.resolve(str(folder / glob.folder))
        try:
            glob.matcher()
        except ValueError as error:
            raise ToolError(str(error)) from None
        return self._build_target(folder, glob if glob.rest else None, caller)

    def _build_target(
        self, path: Path, glob: Glob | None, caller: ToolContext | None
    ) -> _SearchTarget:
        with self.root.convert_errors(path):
            if not _is_hidden(path, caller):  # Otherwise a similar name would be revealed.
                path.lstat()
            if path.is_dir():
                return _SearchTarget(path, glob=glob)
        if glob is not None:
            raise ToolError(f"{self.root.format_name(path)} is not a folder")
        return _SearchTarget(path.parent, path.name)

    def _check_file(self, file: Path) -> None:
        """Raise ToolError if a named file is too large or binary."""
        with open_regular(self.root, file) as opened_file:
            size = os.fstat(opened_file.fileno()).st_size
            kind = binary_kind(opened_file.read(8192))
        if size > MAX_FILE_BYTES:
            limit = size_text(MAX_FILE_BYTES)
            raise ToolError(
                f"{self.root.format_name(file)} has {size_text(size)}; `grep` searches files "
                f"up to {limit}: use a shell command"
            )
        if kind is not None and "UTF-16" not in kind:
            raise ToolError(f"{self.root.format_name(file)} is {kind}, not text")

    async def _search(self, target: _SearchTarget, query: FileQuery, enough: int) -> SearchOutput:
        """Run the engine, and stop it when the task is cancelled. Raises ToolError."""
        search = SearchProcess(self.engine, query, str(target.folder), within_s=self.within_s)
        try:
            output: SearchOutput = await in_thread(partial(search.run, enough))
        except OSError as error:
            raise ToolError(f"the search could not be started: {error}") from None
        finally:
            search.stop()
        if output.error and not output.lines:
            raise ToolError(_format_error(output.error))
        if not output.complete and not output.lines:
            raise ToolError(f"the search took longer than {self.within_s:g} s: search fewer files")
        return output

    def _format_files(
        self, target: _SearchTarget, output: SearchOutput, caller: ToolContext | None
    ) -> str:
        visible = _remove_hidden(target, _filter_names(target, output.lines), caller)
        names = visible.names
        folder = f"{target.folder}/"
        by_age = sorted(names, key=lambda name: (-_mtime_ns(folder + name), name))
        lines = [self.root.format_name(target.folder / name) for name in by_age[:MAX_LISTED_FILES]]
        if len(names) > MAX_LISTED_FILES:
            lines.append(
                f"[the {MAX_LISTED_FILES} newest of {len(names)}; a narrower pattern shows others]"
            )
        if not output.complete:
            lines.append("[there may be more matches: the search was stopped]")
        if output.some_left:
            lines.append(_INCOMPLETE_NOTE)
        return visible.said("\n".join(lines) or _NO_FILES_TEXT)

    def _format_matches(
        self, target: _SearchTarget, output: SearchOutput, limit: int, caller: ToolContext | None
    ) -> str:
        """Format lines grouped by file, up to the limit."""
        blocks: list[str] = []
        remaining_chars, remaining_lines = _MAX_RESULT_CHARS, limit
        visible = _remove_hidden(target, _filter_names(target, output.lines), caller)
        is_truncated = not output.complete
        for name in sorted(visible.names):
            lines = output.lines[name]
            if remaining_lines <= 0 or remaining_chars <= 0:
                is_truncated = True
                break
            lines, has_more = _take_matches(lines, remaining_lines)
            is_truncated = is_truncated or has_more
            remaining_lines -= sum(line.fits for line in lines)
            block = "\n".join([self.root.format_name(target.folder / name), *_format_lines(lines)])
            blocks.append(block[:remaining_chars])
            is_truncated = is_truncated or len(block) > remaining_chars
            remaining_chars -= len(block)
        if is_truncated:
            blocks.append(f"[the first {limit - remaining_lines} lines of more: narrow the search]")
        if output.some_left:
            blocks.append(_INCOMPLETE_NOTE)
        return visible.said("\n\n".join(blocks) or _NO_LINE_TEXT)


def _check_pattern(pattern: str) -> None:
    """Raise ToolError if no engine can search for the pattern."""
    if not pattern:
        raise ToolError("the pattern is empty")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ToolError("the pattern is too long")
    if re.search(r"\n|(?<!\\)(\\\\)*\\n", pattern):
        raise ToolError("the pattern has a line break, but only single lines are searched")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError("the pattern has a lone surrogate, which is not valid text") from None
    if "\0" in pattern:
        raise ToolError("the pattern has a NUL character")


def _format_error(error: str) -> str:
    """Return the error of an engine for a pattern, with a hint on escaping."""
    message = error.removeprefix("rg: ")
    return f"{message}\nEscape ( ) [ ] {{ }} . * + ? with \\ to search for them literally."


def _filter_names(target: _SearchTarget, names: Iterable[str]) -> list[str]:
    if target.glob is None:
        return list(names)
    fits: Callable[[str], bool] = target.glob.matcher()
    return [name for name in names if fits(name)]


def _remove_hidden(
    target: _SearchTarget, names: Sequence[str], caller: ToolContext | None
) -> _VisibleFiles:
    """Remove files that rules hide from a caller."""
    if caller is None or caller.denies_path is None:
        return _VisibleFiles(names, 0)
    visible_names = [name for name in names if not caller.denies_path(f"{target.folder}/{name}")]
    return _VisibleFiles(visible_names, len(names) - len(visible_names))


def _is_hidden(path: Path, caller: ToolContext | None) -> bool:
    return caller is not None and caller.denies_path is not None and caller.denies_path(str(path))


def _mtime_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns  # A text is faster than a Path for many files.
    except OSError:
        return 0


def _take_matches(lines: Sequence[MatchLine], count: int) -> tuple[list[MatchLine], bool]:
    """Return the lines up to the last match within `count`, and whether there are more matches."""
    selected: list[MatchLine] = []
    for line in lines:
        if line.fits:
            if count == 0:
                return selected, True
            count -= 1
        selected.append(line)
    return selected, False


def _format_lines(lines: Sequence[MatchLine]) -> Iterable[str]:
    """Format lines as grep does, with `--` between groups."""
    has_context = not all(line.fits for line in lines)
    for previous, line in pairwise([None, *lines]):
        assert line is not None
        if has_context and previous is not None and line.number > previous.number + 1:
            yield "--"
        text = (
            line.text if len(line.text) <= _MAX_LINE_CHARS else line.text[:_MAX_LINE_CHARS] + " ..."
        )
        yield f"{line.number}{':' if line.fits else '-'}{text}"
