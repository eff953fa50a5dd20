"""`FilesChanged`: tells which of some files changed, came or went.

The system says when to look (inotify, FSEvents, in a thread of its own); what has changed is what
looks different then. When it begins, that is what has a newer change time (ctime, which nobody can
set back) than the newest that was seen before: so it tells what changed while nobody listened, but
for what was deleted.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

from harken.world.files.root import Root
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import in_thread
from harken.world.triggers.base import TriggerEvent, missing_extra

DEBOUNCE_S = 0.3
"""So long after a change others are waited for: a program seldom writes one file alone."""
MOST_FILES = 20_000
"""So many files are looked at; more is a reason to name a smaller folder."""
MOST_PATHS = 20
_NAMED = 20
_STEP_MS = 200
"""So often a thread looks whether it is stopped: with a hundred triggers that is most of what it
costs to wait."""
_LOOK_MS = 400
_LOST_S = 2.0
"""So often is looked whether the folder that is watched is still the one of that name."""
_REST = 10.0
"""After a look it rests so many times as long as that took."""
_IGNORED_NAMES = """
.git .harken .hg .hypothesis .mypy_cache .pytest_cache .ruff_cache .svn .tox .venv __pycache__
node_modules
"""
_IGNORED = frozenset(_IGNORED_NAMES.split())
"""Folders that programs fill, and agents do not mean; also `.harken`, where sessions may be."""

Own = Callable[[Collection[str]], Collection[str]]
"""Takes names of files; returns those whose content the agent knows, having made or read it."""
Hear = Callable[[Collection[str], str | None], None]
"""Takes paths of which something is said, and why nothing more will be said."""


@dataclass(frozen=True, slots=True)
class _Print:
    """What a file looks like: another one where it has changed."""

    changed_ns: int
    size_bytes: int
    inode: int


class FilesChanged:
    """The source of one trigger."""

    pause_s = 10.0

    def __init__(
        self,
        root: Root,
        paths: Sequence[str],
        *,
        seen: int | None = None,
        own: Own = lambda _: (),
        ignore: Collection[Path] = (),
    ) -> None:
        """Watch files and folders below a root; `seen` is the newest change that is no news.

        `ignore` is what the program itself writes: each message would be a change of its log.
        """
        self._root, self._paths, self._own = root, paths, own
        self._ignore, self._seen = tuple(ignore), seen
        self._there: dict[str, _Print] = {}
        self._first: set[str] = set()
        """What had changed before it began: nobody knows whether it is new."""
        self._woken = asyncio.Event()
        self._stop = Flag()
        self._watched: list[tuple[int, int] | None] = []
        self._is_lost = False
        """Whether a folder that is watched went away: the next one may have its number."""
        self._failure: str | None = None

    def newest(self) -> int:
        """Return the newest change time (nanoseconds) of all that is watched. Raises ToolError."""
        return max((one.changed_ns for one in self._look().values()), default=0)

    @cached_property
    def _meant(self) -> list[Path]:
        return [self._root.resolve(path) for path in self._paths]

    @cached_property
    def _roots(self) -> set[str]:
        """The folders that may be watched."""
        return {str(place) for path in self._meant for place in (path, path.parent)}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Begin to watch; what was there is compared when the system watches already."""
        self._check_places()
        now = await in_thread(self._look)
        seen = self._seen
        self._there = {n: one for n, one in now.items() if seen is None or one.changed_ns <= seen}
        self._first = now.keys() - self._there.keys()
        self._begin()
        try:
            yield
        finally:
            self._stop.set()

    def _begin(self) -> None:
        """Let threads watch what is there now, and those of before end."""
        self._stop.set()
        watch, loop = _watch(), asyncio.get_running_loop()
        self._stop = stop = Flag()
        self._is_lost, self._watched = False, self._inodes()

        def hear(names: Collection[str], failure: str | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                if not stop.is_set():
                    loop.call_soon_threadsafe(self._hear, names, failure)

        for places, recursive in self._places():
            follow = partial(_follow, watch, places, recursive=recursive, stop=stop, hear=hear)
            Thread(target=follow, name="harken files", daemon=True).start()

    async def wait(self) -> TriggerEvent:
        """Return when something else has changed than what the agent changed itself."""
        clock, took_s = asyncio.get_running_loop().time, 0.0
        while True:
            await self._roused()
            await asyncio.sleep(max(DEBOUNCE_S, _REST * took_s))
            self._woken.clear()
            if self._failure is not None:
                raise ToolError(self._failure)
            began = clock()
            now = await in_thread(self._look)
            took_s = clock() - began
            if (happening := self._compared(now)) is not None:
                return happening

    async def _roused(self) -> None:
        """Return when there is a reason to look; a folder that is another one is watched anew."""
        is_awake = False
        while not is_awake:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _LOST_S)
            if self._is_lost or await in_thread(self._inodes) != self._watched:
                self._begin()
                self._woken.set()
            is_awake = self._woken.is_set()

    def _hear(self, names: Collection[str], failure: str | None) -> None:
        """Take what a thread saw; the first time it names nothing: it watches now."""
        self._failure = self._failure or failure
        self._is_lost = self._is_lost or not self._roots.isdisjoint(names)
        if failure or not names or any(self._concerns(Path(name)) for name in names):
            self._woken.set()

    def _compared(self, now: dict[str, _Print]) -> TriggerEvent | None:
        """Return what is different from the last time; None: nothing that is news."""
        before, first = self._there, self._first
        touched = [name for name, one in now.items() if before.get(name) != one]
        own = set(self._own(touched)) if touched else set()
        words = [self._words(name, now, before.keys() | first) for name in touched]
        news = [word for name, word in zip(touched, words, strict=True) if name not in own]
        news += [self._words(name, now, before) for name in before if name not in now]
        self._there, self._first = now, set()
        seen = max((one.changed_ns for one in now.values()), default=0)
        return TriggerEvent(text=_listed(sorted(news)), seen=seen) if news else None

    def _words(self, name: str, now: Collection[str], before: Collection[str]) -> str:
        note = " (gone)" if name not in now else "" if name in before else " (new)"
        return self._root.shown(self._root.folder / name) + note

    def _look(self) -> dict[str, _Print]:
        """Return the files that are there, by name. Raises ToolError."""
        found: dict[str, _Print] = {}
        for path in self._files():
            try:
                one = os.lstat(path)
            except OSError:
                continue  # gone meanwhile
            found[self._root.name(path)] = _Print(one.st_ctime_ns, one.st_size, one.st_ino)
            if len(found) > MOST_FILES:
                raise ToolError(f"there are more than {MOST_FILES:,} files: name a smaller folder")
        return found

    def _files(self) -> Iterator[Path]:
        for path in self._meant:
            if _inode(path) is None:
                yield path
                continue
            for folder, folders, names in os.walk(path):
                folders[:] = [name for name in folders if not self._is_ignored(path, folder, name)]
                paths = (Path(folder, name) for name in names)
                yield from (one for one in paths if one not in self._ignore)

    def _is_ignored(self, meant: Path, *parts: str) -> bool:
        """Whether what lies below a folder that is meant is what programs keep for themselves."""
        path = Path(*parts)
        if any(path.is_relative_to(folder) for folder in self._ignore):
            return True
        return not _IGNORED.isdisjoint(path.relative_to(meant).parts)

    def _concerns(self, path: Path) -> bool:
        """Whether what happened at a path may be news."""
        inside = (meant for meant in self._meant if path.is_relative_to(meant))
        return any(not self._is_ignored(meant, str(path)) for meant in inside)

    def _check_places(self) -> None:
        """Raise ToolError for a file in a folder that is not there."""
        for path in self._meant:
            if _inode(path) is None and _inode(path.parent) is None:
                raise ToolError(f"there is no folder {self._root.shown(path.parent)}")

    def _inodes(self) -> list[tuple[int, int] | None]:
        """Return what tells the folders that are watched from others of their names."""
        return [_inode(Path(place)) for place in sorted(self._roots)]

    def _places(self) -> Iterator[tuple[list[str], bool]]:
        """Yield the folders to watch, and whether with all below: of a file, the one it is in."""
        folders = [path for path in self._meant if _inode(path) is not None]
        others = (path.parent for path in self._meant if path not in folders)
        parents = [place for place in others if _inode(place) is not None]
        for places, recursive in ((folders, True), (parents, False)):
            if places:
                yield [str(place) for place in places], recursive


def _inode(folder: Path) -> tuple[int, int] | None:
    """Return which folder it is; None for none, and where nobody may look."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _listed(words: Sequence[str]) -> str:
    """Say what changed.

    >>> _listed(["a.py (new)"]), _listed(["a.py", "b.py"])
    ('changed: a.py (new)', '2 changes: a.py, b.py')
    """
    named = ", ".join(words[:_NAMED])
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return f"changed: {named}" if len(words) == 1 else f"{len(words)} changes: {named}{more}"


def check_paths(root: Root, paths: Sequence[str]) -> list[str]:
    """Return paths by the one name that each has. Raises InvalidArguments or Failed."""
    if not paths or len(paths) > MOST_PATHS:
        raise InvalidArguments(f"name 1 to {MOST_PATHS} files or folders")
    _watch()
    return list(dict.fromkeys(root.name(root.resolve(path)) for path in paths))


def _watch() -> Any:
    """Return what watches. Raises InvalidArguments where it is not installed."""
    try:
        from watchfiles import watch  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra(error) from None
    return watch


def _follow(watch: Any, places: Sequence[str], *, recursive: bool, stop: Flag, hear: Hear) -> None:
    """Tell of changes until it is stopped; first, of none: now it watches."""
    is_new = True
    try:
        for changes in watch(
            *places,
            watch_filter=None,
            debounce=_LOOK_MS,
            step=_STEP_MS,
            stop_event=stop,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=recursive,
            ignore_permission_denied=True,
        ):
            if is_new:
                hear((), None)
            elif changes:
                hear({path for _, path in changes}, None)
            is_new = False
    except Exception as error:  # noqa: BLE001 - the border of a thread: whoever waits is told
        hear((), f"the system watches no more: {error}")
