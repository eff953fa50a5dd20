"""`ChangeScanner`: which files of some folders have changed since one looked last.

One idea: nearly all files are old, and old files stay as they are. So a glance looks at those that
were written lately and at the folders they are in, and costs the same however many there are; now
and then all of them are looked at, for what a glance cannot see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from heapq import nlargest
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

MOST_WARM = 100
"""So many files, and so many folders, are looked at in a glance: those that were written last."""
Seen: TypeAlias = tuple[int, int]
"""Size and time of a file; time and nothing of a folder."""


@dataclass(frozen=True, slots=True)
class WatchedPath:
    """What is watched: a folder with all below it, or a file."""

    path: Path
    pattern: str = "*"
    """Which names are meant."""


class ChangeScanner:
    """What was seen of files. No link to a folder is followed; what cannot be seen is not there."""

    def __init__(self, watched: Sequence[WatchedPath]) -> None:
        """Begin with nothing seen: the first look gives all there is."""
        self._watched = watched
        self._files: dict[str, Seen] = {}
        self._folders: dict[str, Seen] = {}
        self._patterns: dict[str, set[str]] = {}
        """Folder -> the names in it that are meant."""
        self._warm: list[str] = []

    def sweep(self) -> list[Path]:
        """Look at everything; return the files that are new or have changed."""
        found: list[Path] = []
        for one in self._watched:
            root = str(one.path)
            if os.path.isdir(root):  # noqa: PTH112 - as fast as it gets, and links are not folders
                found += self._walk(root, one.pattern)
            else:
                found += self._look([root])
        self._warm = [
            *nlargest(MOST_WARM, self._files, key=lambda path: self._files[path][1]),
            *nlargest(MOST_WARM, self._folders, key=lambda path: self._folders[path][1]),
            *(str(one.path) for one in self._watched),
        ]
        return found

    def glance(self) -> list[Path]:
        """Look at what was written lately; return the files that are new or have changed."""
        changed = [path for path in self._warm if path in self._folders and self._has_changed(path)]
        meant = [(folder, name) for folder in changed for name in sorted(self._patterns[folder])]
        found = [file for folder, pattern in meant for file in self._walk(folder, pattern)]
        found += self._look([path for path in self._warm if path not in self._folders])
        self._warm += [str(path) for path in found if str(path) not in self._warm]
        return found

    def _has_changed(self, folder: str) -> bool:
        try:
            return os.stat(folder).st_mtime_ns != self._folders[folder][1]  # noqa: PTH116
        except OSError:
            return False

    def _walk(self, root: str, pattern: str) -> Iterator[Path]:
        """Look at all in a folder and below it; yield what is new or has changed."""
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            try:
                time_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116
                with os.scandir(folder) as entries:
                    listed = [*entries]
            except OSError:
                continue
            self._folders[folder] = 0, time_ns
            self._patterns.setdefault(folder, set()).add(pattern)
            waiting += [one.path for one in listed if _is_folder(one)]
            names = [one.path for one in listed if fnmatch(one.name, pattern)]
            yield from self._look(names)

    def _look(self, paths: Iterable[str]) -> Iterator[Path]:
        """Yield those of some files that are new or have changed."""
        for path in paths:
            seen = _seen(path)
            if seen is not None and self._files.get(path) != seen:
                self._files[path] = seen
                yield Path(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _seen(path: str) -> Seen | None:
    """Return the size and time of a file, of a database with what stands in its log.

    None: it is gone, or no file; who opens a pipe waits for ever.
    """
    size = time_ns = 0
    for one in (path, f"{path}-wal") if path.endswith(".db") else (path,):
        try:
            found = os.stat(one)  # noqa: PTH116 - thousands of times a minute
        except (OSError, ValueError):
            if one is path:
                return None
            continue
        if not S_ISREG(found.st_mode):
            return None
        size, time_ns = size + found.st_size, max(time_ns, found.st_mtime_ns)
    return size, time_ns
