"""`ChangeScanner`: find files that changed since the last scan.

Nearly all files are old and do not change. So a quick scan (`scan_recent`) checks only the files
written last and their folders, and its cost does not depend on the number of files. A full scan
(`scan_all`) from time to time finds what a quick scan misses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from heapq import nlargest
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

import msgspec

MAX_RECENT_PATHS = 100
"""The number of files, and of folders, that a quick scan checks: those written last."""
PathFingerprint: TypeAlias = tuple[int, int]
"""The size and the time of a file. For a folder, 0 and its time."""


class WatchedPath(msgspec.Struct, frozen=True):
    """A folder to watch recursively, or a file."""

    path: Path
    pattern: str = "*"
    """A glob pattern of the file names to include."""


class ChangeScanner:
    """Detect changed files. Links to folders are not followed, and unreadable files are ignored."""

    def __init__(self, watched: Sequence[WatchedPath]) -> None:
        """Start without any known file: the first scan returns all files."""
        self._watched = watched
        self._files: dict[str, PathFingerprint] = {}
        self._folders: dict[str, PathFingerprint] = {}
        self._patterns: dict[str, set[str]] = {}
        """Folder -> the file name patterns for it."""
        self._warm: list[str] = []

    def scan_all(self) -> list[Path]:
        """Scan everything. Return the files that are new or have changed."""
        changed: list[Path] = []
        for watched in self._watched:
            root = str(watched.path)
            if os.path.isdir(root):  # noqa: PTH112 - as fast as it gets, and links are not folders
                changed += self._walk(root, watched.pattern)
            else:
                changed += self._check_files([root])
        self._warm = [
            *nlargest(MAX_RECENT_PATHS, self._files, key=lambda path: self._files[path][1]),
            *nlargest(MAX_RECENT_PATHS, self._folders, key=lambda path: self._folders[path][1]),
            *(str(watched.path) for watched in self._watched),
        ]
        return changed

    def scan_recent(self) -> list[Path]:
        """Scan the paths written last. Return the files that are new or have changed."""
        changed_folders = [
            path for path in self._warm if path in self._folders and self._has_changed(path)
        ]
        folder_patterns = [
            (folder, pattern)
            for folder in changed_folders
            for pattern in sorted(self._patterns[folder])
        ]
        changed_files = [
            file for folder, pattern in folder_patterns for file in self._walk(folder, pattern)
        ]
        changed_files += self._check_files(
            [path for path in self._warm if path not in self._folders]
        )
        self._warm += [str(path) for path in changed_files if str(path) not in self._warm]
        return changed_files

    def _has_changed(self, folder: str) -> bool:
        try:
            return os.stat(folder).st_mtime_ns != self._folders[folder][1]  # noqa: PTH116
        except OSError:
            return False

    def _walk(self, root: str, pattern: str) -> Iterator[Path]:
        """Scan a folder recursively. Yield files that are new or have changed."""
        pending = [root]
        while pending:
            folder = pending.pop()
            try:
                time_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116
                with os.scandir(folder) as entries:
                    folder_entries = [*entries]
            except OSError:
                continue
            self._folders[folder] = 0, time_ns
            self._patterns.setdefault(folder, set()).add(pattern)
            pending += [entry.path for entry in folder_entries if _is_folder(entry)]
            paths = [entry.path for entry in folder_entries if fnmatch(entry.name, pattern)]
            yield from self._check_files(paths)

    def _check_files(self, paths: Iterable[str]) -> Iterator[Path]:
        """Yield the paths of new or changed files."""
        for path in paths:
            fingerprint = _fingerprint(path)
            if fingerprint is not None and self._files.get(path) != fingerprint:
                self._files[path] = fingerprint
                yield Path(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _fingerprint(path: str) -> PathFingerprint | None:
    """Return the size and time of a file. For a database, include its write-ahead log.

    Return None if the file does not exist or is not a regular file: opening a pipe would block.
    """
    size = time_ns = 0
    for file_path in (path, f"{path}-wal") if path.endswith(".db") else (path,):
        try:
            status = os.stat(file_path)  # noqa: PTH116 - thousands of times a minute
        except (OSError, ValueError):
            if file_path is path:
                return None
            continue
        if not S_ISREG(status.st_mode):
            return None
        size, time_ns = size + status.st_size, max(time_ns, status.st_mtime_ns)
    return size, time_ns
