"""`FilesChanged`: report which of the watched files changed, appeared or disappeared.

The operating system says when to scan (inotify, FSEvents, in a separate thread); a change is a
difference between two scans. The first scan reports files with a newer change time (ctime, which a
user cannot set back) than the newest one seen before, so changes while no session listened are
reported, except for deletions.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import msgspec

from harken.world.files.root import Root
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import in_thread
from harken.world.triggers.base import TriggerEvent, missing_extra

DEBOUNCE_S = 0.3
"""The wait for further changes: a program seldom writes a single file."""
MAX_FILES = 20_000
"""The maximum number of scanned files; for more, a smaller folder must be named."""
MAX_PATHS = 20
_MAX_LISTED_NAMES = 20
_STOP_POLL_MS = 200
"""The interval at which a thread checks for a stop: the main cost of many triggers."""
_POLL_MS = 400
_FOLDER_CHECK_S = 2.0
"""The interval of checks that the watched folder was not replaced."""
_PAUSE_FACTOR = 10.0
"""The pause after a scan, as a multiple of its duration."""
_IGNORED_NAMES = """
.git .harken .hg .hypothesis .mypy_cache .pytest_cache .ruff_cache .svn .tox .venv __pycache__
node_modules
"""
_IGNORED = frozenset(_IGNORED_NAMES.split())
"""Folders that programs fill and agents do not mean; also `.harken`, which may contain sessions."""

SelectKnownFiles = Callable[[Collection[str]], Collection[str]]
"""Takes names of files; returns those with content that the agent has read or written."""
OnPaths = Callable[[Collection[str], str | None], None]
"""Takes changed paths, and the reason why no more will come."""


class _Fingerprint(msgspec.Struct, frozen=True):
    """A file fingerprint, which differs after a change."""

    ctime_ns: int
    size_bytes: int
    inode: int


class FilesChanged:
    """The event source of one file trigger."""

    pause_s = 10.0

    def __init__(
        self,
        root: Root,
        paths: Sequence[str],
        *,
        seen: int | None = None,
        own: SelectKnownFiles = lambda _: (),
        ignore: Collection[Path] = (),
    ) -> None:
        """Watch files and folders below a root; `seen` is the newest change time already reported.

        `ignore` are paths that this program writes: each message would be a change of its log.
        """
        self._root, self._paths, self._own = root, paths, own
        self._ignore, self._seen = tuple(ignore), seen
        self._last_scan: dict[str, _Fingerprint] = {}
        self._initial_changes: set[str] = set()
        """Files that had changed before the start, which may or may not be new."""
        self._wake_event = asyncio.Event()
        self._stop = Flag()
        self._watched_inodes: list[tuple[int, int] | None] = []
        self._is_folder_lost = False
        """Whether a watched folder was removed: its successor may have the same inode."""
        self._failure: str | None = None

    def newest(self) -> int:
        """Return the newest change time (nanoseconds) of all watched files. Raises ToolError."""
        return max((fingerprint.ctime_ns for fingerprint in self._scan().values()), default=0)

    @cached_property
    def _targets(self) -> list[Path]:
        return [self._root.resolve(path) for path in self._paths]

    @cached_property
    def _roots(self) -> set[str]:
        """The folders that may be watched."""
        return {str(folder) for path in self._targets for folder in (path, path.parent)}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start to watch, then compare the files with the last known state."""
        self._check_parents()
        scan = await in_thread(self._scan)
        seen = self._seen
        self._last_scan = {
            name: fingerprint
            for name, fingerprint in scan.items()
            if seen is None or fingerprint.ctime_ns <= seen
        }
        self._initial_changes = scan.keys() - self._last_scan.keys()
        self._start_watching()
        try:
            yield
        finally:
            self._stop.set()

    def _start_watching(self) -> None:
        """Start threads that watch the current folders, and stop the earlier ones."""
        self._stop.set()
        watch, loop = _import_watch(), asyncio.get_running_loop()
        self._stop = stop = Flag()
        self._is_folder_lost, self._watched_inodes = False, self._inodes()

        def on_paths(names: Collection[str], failure: str | None) -> None:
            with suppress(RuntimeError):  # The loop is closed, so no task waits any more.
                if not stop.is_set():
                    loop.call_soon_threadsafe(self._on_paths, names, failure)

        for folders, recursive in self._iter_watch_folders():
            watch_changes = partial(
                _watch_changes, watch, folders, recursive=recursive, stop=stop, on_paths=on_paths
            )
            Thread(target=watch_changes, name="harken files", daemon=True).start()

    async def wait(self) -> TriggerEvent:
        """Wait for a change that the agent did not make itself."""
        clock, took_s = asyncio.get_running_loop().time, 0.0
        while True:
            await self._wait_for_reason()
            await asyncio.sleep(max(DEBOUNCE_S, _PAUSE_FACTOR * took_s))
            self._wake_event.clear()
            if self._failure is not None:
                raise ToolError(self._failure)
            start_s = clock()
            scan = await in_thread(self._scan)
            took_s = clock() - start_s
            if (event := self._diff_event(scan)) is not None:
                return event

    async def _wait_for_reason(self) -> None:
        """Wait for a reason to scan; watch a replaced folder anew."""
        is_awake = False
        while not is_awake:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake_event.wait(), _FOLDER_CHECK_S)
            if self._is_folder_lost or await in_thread(self._inodes) != self._watched_inodes:
                self._start_watching()
                self._wake_event.set()
            is_awake = self._wake_event.is_set()

    def _on_paths(self, names: Collection[str], failure: str | None) -> None:
        """Handle paths from a thread; no paths mean that it has begun to watch."""
        self._failure = self._failure or failure
        self._is_folder_lost = self._is_folder_lost or not self._roots.isdisjoint(names)
        if failure or not names or any(self._concerns(Path(name)) for name in names):
            self._wake_event.set()

    def _diff_event(self, scan: dict[str, _Fingerprint]) -> TriggerEvent | None:
        """Return an event with the differences to the last scan. Return None if there are none."""
        last_scan, initial_changes = self._last_scan, self._initial_changes
        touched = [name for name, fingerprint in scan.items() if last_scan.get(name) != fingerprint]
        own_names = set(self._own(touched)) if touched else set()
        changes = [
            self._format_change(name, scan, last_scan.keys() | initial_changes) for name in touched
        ]
        news = [
            change for name, change in zip(touched, changes, strict=True) if name not in own_names
        ]
        news += [
            self._format_change(name, scan, last_scan) for name in last_scan if name not in scan
        ]
        self._last_scan, self._initial_changes = scan, set()
        seen = max((fingerprint.ctime_ns for fingerprint in scan.values()), default=0)
        return TriggerEvent(text=_format_changes(sorted(news)), seen=seen) if news else None

    def _format_change(self, name: str, now: Collection[str], before: Collection[str]) -> str:
        note = " (gone)" if name not in now else "" if name in before else " (new)"
        return self._root.format_name(self._root.folder / name) + note

    def _scan(self) -> dict[str, _Fingerprint]:
        """Scan the existing files, by name. Raises ToolError."""
        fingerprints: dict[str, _Fingerprint] = {}
        for path in self._files():
            try:
                status = os.lstat(path)
            except OSError:
                continue  # The file was removed meanwhile.
            fingerprints[self._root.name(path)] = _Fingerprint(
                status.st_ctime_ns, status.st_size, status.st_ino
            )
            if len(fingerprints) > MAX_FILES:
                raise ToolError(f"more than {MAX_FILES:,} files: name a smaller folder")
        return fingerprints

    def _files(self) -> Iterator[Path]:
        for path in self._targets:
            if _find_inode(path) is None:
                yield path
                continue
            for folder, folders, names in os.walk(path):
                folders[:] = [name for name in folders if not self._is_ignored(path, folder, name)]
                paths = (Path(folder, name) for name in names)
                yield from (file_path for file_path in paths if file_path not in self._ignore)

    def _is_ignored(self, target: Path, *parts: str) -> bool:
        """Whether a path below a watched folder belongs to a program, not to the user."""
        path = Path(*parts)
        if any(path.is_relative_to(folder) for folder in self._ignore):
            return True
        return not _IGNORED.isdisjoint(path.relative_to(target).parts)

    def _concerns(self, path: Path) -> bool:
        """Whether an event at a path may be relevant."""
        containing_targets = (target for target in self._targets if path.is_relative_to(target))
        return any(not self._is_ignored(target, str(path)) for target in containing_targets)

    def _check_parents(self) -> None:
        """Raise ToolError for a file in a folder that does not exist."""
        for path in self._targets:
            if _find_inode(path) is None and _find_inode(path.parent) is None:
                raise ToolError(f"folder {self._root.format_name(path.parent)} does not exist")

    def _inodes(self) -> list[tuple[int, int] | None]:
        """Return the device and inode numbers of the watched folders."""
        return [_find_inode(Path(place)) for place in sorted(self._roots)]

    def _iter_watch_folders(self) -> Iterator[tuple[list[str], bool]]:
        """Yield folders to watch, and whether recursively: the parent folder for a file."""
        folders = [path for path in self._targets if _find_inode(path) is not None]
        file_parents = (path.parent for path in self._targets if path not in folders)
        parents = [folder for folder in file_parents if _find_inode(folder) is not None]
        for watched_folders, recursive in ((folders, True), (parents, False)):
            if watched_folders:
                yield [str(folder) for folder in watched_folders], recursive


def _find_inode(folder: Path) -> tuple[int, int] | None:
    """Return the device and inode of a folder. Return None if it is none or not accessible."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def _format_changes(changes: Sequence[str]) -> str:
    """Format a list of changes.

    >>> _format_changes(["a.py (new)"]), _format_changes(["a.py", "b.py"])
    ('changed: a.py (new)', '2 changes: a.py, b.py')
    """
    listed_names = ", ".join(changes[:_MAX_LISTED_NAMES])
    remainder = (
        f" and {len(changes) - _MAX_LISTED_NAMES} more" if len(changes) > _MAX_LISTED_NAMES else ""
    )
    return (
        f"changed: {listed_names}"
        if len(changes) == 1
        else f"{len(changes)} changes: {listed_names}{remainder}"
    )


def check_paths(root: Root, paths: Sequence[str]) -> list[str]:
    """Return normalized paths without duplicates. Raises InvalidArguments or ToolError."""
    if not paths or len(paths) > MAX_PATHS:
        raise InvalidArguments(f"name 1 to {MAX_PATHS} files or folders")
    _import_watch()
    return list(dict.fromkeys(root.name(root.resolve(path)) for path in paths))


def _import_watch() -> Any:
    """Import the watch function. Raises InvalidArguments if it is not installed."""
    try:
        from watchfiles import watch  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra(error) from None
    return watch


def _watch_changes(
    watch: Any, folders: Sequence[str], *, recursive: bool, stop: Flag, on_paths: OnPaths
) -> None:
    """Pass changes to `on_paths` until stopped; the first call has no paths: it now watches."""
    is_new = True
    try:
        for changes in watch(
            *folders,
            watch_filter=None,
            debounce=_POLL_MS,
            step=_STOP_POLL_MS,
            stop_event=stop,
            rust_timeout=_POLL_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=recursive,
            ignore_permission_denied=True,
        ):
            if is_new:
                on_paths((), None)
            elif changes:
                on_paths({path for _, path in changes}, None)
            is_new = False
    except Exception as error:  # noqa: BLE001 - the waiting task reports any failure of the thread
        on_paths((), f"the operating system cannot watch more files: {error}")
