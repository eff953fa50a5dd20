"""The tools that find files: `glob` by name, `grep` by content.

Both leave out hidden files and what git ignores, as programmers expect from ripgrep, unless the
path or pattern names them: whoever asks for `node_modules/x/*.js` means it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from harken.world.files.regular_file import WHOLE, binary_kind, open_regular
from harken.world.files.root import Root, size_text
from harken.world.result import ToolError
from harken.world.search.engines import Engine, FileQuery
from harken.world.search.glob import Glob, glob_of
from harken.world.search.results import MatchLine, SearchOutput, SearchProcess
from harken.world.tool import Tool, ToolContext, in_thread, tool

LISTED = 200
"""Files that `glob` names, and lines that `grep` shows where no limit is given."""
GATHERED = 10_000
"""Lines after which a search is ended: nobody reads more."""
_FILES = 1_000_000
_WITHIN_S = 30.0
_LONGEST_PATTERN = 10_000
_LINE = 500
_CHARACTERS = 40_000
_CONTEXT = 20
_NO_FILES, _NO_LINE = "[no files]", "[no line fits]"
_SOME_LEFT = "[some files could not be searched, there may be more in them]"


def search_tools(root: Root, engine: Engine, *, within_s: float = _WITHIN_S) -> list[Tool]:
    """Return the tools that find files below a folder; a search takes at most `within_s`."""
    searches = Searches(root, engine, within_s=within_s)
    return [
        tool(name="glob", reads_only=True)(searches.glob).with_subject(by="path"),
        tool(name="grep", reads_only=True)(searches.grep).with_subject(by="path", shows_files=True),
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is looked for."""

    folder: Path
    file: str | None = None
    """Only this one in it."""
    glob: Glob | None = None


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of files that were found, without those that rules keep from the caller."""

    names: Sequence[str]
    kept: int

    def said(self, text: str) -> str:
        """Add to a text that something was left out, where it was."""
        if not self.kept:
            return text
        files = (
            "1 file that rules keep from you was"
            if self.kept == 1
            else (f"{self.kept} files that rules keep from you were")
        )
        return f"{text}\n\n({files} left out)"


class Searches:
    """What can be looked for below a root; each method is a tool."""

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
        place = self._place(path, pattern, caller)
        if place.file is not None:
            left = _without_kept(place, [place.file], caller)
            return left.said(
                self.root.shown(place.folder / place.file) if left.names else _NO_FILES
            )
        found = await self._search(place, FileQuery(glob=place.glob), _FILES)
        text: str = await in_thread(partial(self._listed, place, found, caller))
        return text

    async def grep(  # noqa: PLR0917 - a model passes them by name
        self,
        pattern: str,
        caller: ToolContext,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - as above
        context_lines: int = 0,
        limit: int = LISTED,
    ) -> str:
        r"""Find lines by a regular expression, in a file or in all files of a folder.

        `glob` says in which files, as the tool `glob` does. A line is shown with its number and
        a colon, `context_lines` around it with a dash; at most `limit` lines. An expression is
        looked for in single lines; \( \{ \[ \. mean these letters themselves. Hidden files, what
        git ignores, binary files and those above 10 MB are left out.
        """
        if not 0 < limit <= GATHERED or context_lines < 0:
            raise ToolError(f"limit must be from 1 to {GATHERED}, context_lines from 0")
        _check_pattern(pattern)
        place = self._place(path, glob, caller)
        if place.file is not None:
            left = _without_kept(place, [place.file], caller)
            if not left.names:  # not even of what kind it is, nor whether anything fits
                return left.said(_NO_LINE)
            self._check_file(place.folder / place.file)
        query = FileQuery(
            pattern=pattern,
            ignore_case=ignore_case,
            context_lines=min(context_lines, _CONTEXT),
            most=limit + 1,
            glob=place.glob,
            file=place.file,
        )
        found = await self._search(place, query, GATHERED)
        text: str = await in_thread(partial(self._shown, place, found, limit, caller))
        return text

    def _place(self, path: str, pattern: str | None, caller: ToolContext | None) -> _Place:
        """Return where to look. Raises ToolError where nothing is there."""
        folder = self.root.resolve(path)
        if pattern is None:
            return self._existing(folder, None, caller)
        if not pattern:
            raise ToolError("the pattern is empty")
        if not folder.is_dir():
            with self.root.failing(folder):
                folder.lstat()
            raise ToolError(f"{self.root.shown(folder)} is no folder: no pattern fits below it")
        glob = glob_of(pattern)
        if glob.folder:
            folder = self.root.resolve(str(folder / glob.folder))
        try:
            glob.matcher()
        except ValueError as error:
            raise ToolError(str(error)) from None
        return self._existing(folder, glob if glob.rest else None, caller)

    def _existing(self, path: Path, glob: Glob | None, caller: ToolContext | None) -> _Place:
        with self.root.failing(path):
            if not _is_kept(path, caller):  # else not even what has a similar name is said
                path.lstat()
            if path.is_dir():
                return _Place(path, glob=glob)
        if glob is not None:
            raise ToolError(f"{self.root.shown(path)} is no folder: no pattern fits below it")
        return _Place(path.parent, path.name)

    def _check_file(self, file: Path) -> None:
        """Raise ToolError where a file that was named is one that is left out."""
        with open_regular(self.root, file) as begun:
            size = os.fstat(begun.fileno()).st_size
            kind = binary_kind(begun.read(8192))
        if size > WHOLE:
            limit = size_text(WHOLE)
            raise ToolError(
                f"{self.root.shown(file)} has {size_text(size)}, and `grep` looks into files up "
                f"to {limit}: use a shell command"
            )
        if kind is not None and "UTF-16" not in kind:
            raise ToolError(f"{self.root.shown(file)} is {kind}: it is not text")

    async def _search(self, place: _Place, query: FileQuery, enough: int) -> SearchOutput:
        """Run the engine; it ends when nobody waits any more. Raises ToolError."""
        search = SearchProcess(self.engine, query, str(place.folder), within_s=self.within_s)
        try:
            found: SearchOutput = await in_thread(partial(search.run, enough))
        except OSError as error:
            raise ToolError(f"the search could not be started: {error}") from None
        finally:
            search.stop()
        if found.error and not found.lines:
            raise ToolError(_reason(found.error))
        if not found.complete and not found.lines:
            raise ToolError(f"the search took longer than {self.within_s:g} s: look in fewer files")
        return found

    def _listed(self, place: _Place, found: SearchOutput, caller: ToolContext | None) -> str:
        left = _without_kept(place, _fitting(place, found.lines), caller)
        names = left.names
        folder = f"{place.folder}/"
        by_age = sorted(names, key=lambda name: (-_changed_ns(folder + name), name))
        lines = [self.root.shown(place.folder / name) for name in by_age[:LISTED]]
        if len(names) > LISTED:
            lines.append(f"[the {LISTED} newest of {len(names)}; a narrower pattern shows others]")
        if not found.complete:
            lines.append("[there may be more: the search was ended before it was done]")
        if found.some_left:
            lines.append(_SOME_LEFT)
        return left.said("\n".join(lines) or _NO_FILES)

    def _shown(
        self, place: _Place, found: SearchOutput, limit: int, caller: ToolContext | None
    ) -> str:
        """Return lines grouped by file, as many as are wanted."""
        blocks: list[str] = []
        room, left = _CHARACTERS, limit
        kept_out = _without_kept(place, _fitting(place, found.lines), caller)
        cut = not found.complete
        for name in sorted(kept_out.names):
            lines = found.lines[name]
            if left <= 0 or room <= 0:
                cut = True
                break
            lines, rest = _first(lines, left)
            cut = cut or rest
            left -= sum(line.fits for line in lines)
            block = "\n".join([self.root.shown(place.folder / name), *_written(lines)])
            blocks.append(block[:room])
            cut = cut or len(block) > room
            room -= len(block)
        if cut:
            blocks.append(f"[the first {limit - left} lines; there are more: narrow the search]")
        if found.some_left:
            blocks.append(_SOME_LEFT)
        return kept_out.said("\n\n".join(blocks) or _NO_LINE)


def _check_pattern(pattern: str) -> None:
    """Raise ToolError for what no engine could look for."""
    if not pattern:
        raise ToolError("the pattern is empty")
    if len(pattern) > _LONGEST_PATTERN:
        raise ToolError("the pattern is too long")
    if re.search(r"\n|(?<!\\)(\\\\)*\\n", pattern):
        raise ToolError("the pattern has a line end in it, and only single lines are looked at")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError("the pattern has a lone surrogate in it: that is no text") from None
    if "\0" in pattern:
        raise ToolError("the pattern has a NUL in it, which no text has")


def _reason(error: str) -> str:
    """Return what an engine says of a pattern, and what may have been meant."""
    said = error.removeprefix("rg: ")
    return f"{said}\nTo look for ( ) [ ] {{ }} . * + ? themselves, write \\ before each."


def _fitting(place: _Place, names: Iterable[str]) -> list[str]:
    if place.glob is None:
        return list(names)
    fits: Callable[[str], bool] = place.glob.matcher()
    return [name for name in names if fits(name)]


def _without_kept(place: _Place, names: Sequence[str], caller: ToolContext | None) -> _Left:
    """Leave out files that rules keep from a caller."""
    if caller is None or caller.denies_path is None:
        return _Left(names, 0)
    free = [name for name in names if not caller.denies_path(f"{place.folder}/{name}")]
    return _Left(free, len(names) - len(free))


def _is_kept(path: Path, caller: ToolContext | None) -> bool:
    return caller is not None and caller.denies_path is not None and caller.denies_path(str(path))


def _changed_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns  # a text, not a Path: there may be many
    except OSError:
        return 0


def _first(lines: Sequence[MatchLine], count: int) -> tuple[list[MatchLine], bool]:
    """Return the lines up to the last wanted one that fits, and whether more of them do."""
    taken: list[MatchLine] = []
    for line in lines:
        if line.fits:
            if count == 0:
                return taken, True
            count -= 1
        taken.append(line)
    return taken, False


def _written(lines: Sequence[MatchLine]) -> Iterable[str]:
    """Yield lines as grep writes them, with `--` where some are left out between."""
    has_context = not all(line.fits for line in lines)
    for before, line in pairwise([None, *lines]):
        assert line is not None
        if has_context and before is not None and line.number > before.number + 1:
            yield "--"
        text = line.text if len(line.text) <= _LINE else line.text[:_LINE] + " ..."
        yield f"{line.number}{':' if line.fits else '-'}{text}"
