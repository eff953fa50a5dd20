"""Find session files: where each runtime stores its histories, and which files exist.

The locations are data, and the format of a file is detected from its first bytes. These folders are
never written, links to folders are not followed, and an unreadable file does not stop the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.capture.files.change_scanner import WatchedPath
from harken.capture.files.companions import iter_companions
from harken.formats.runtimes.compressed import read_beginning
from harken.index.catalogue import FileFingerprint

_TAIL_BYTES = 4096
_SUBAGENT_PREFIX = "agent-"
"""Files of subagents have this prefix. They are imported after the file of the parent."""


class SourceLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The folder in which a runtime stores its histories."""

    runtime: str
    name: str
    """The display name."""
    folder: str
    """The folder, relative to the user's home."""
    variable: str = ""
    """The environment variable that overrides `folder`."""
    subfolders: tuple[str, ...]
    """The subfolders that contain histories."""
    patterns: tuple[str, ...]
    """Glob patterns of history files."""

    def matches(self, path: Path) -> bool:
        """Whether the name of a file matches a pattern of this runtime."""
        return any(path.match(pattern) for pattern in self.patterns)


SOURCE_LOCATIONS = (
    SourceLocation(
        runtime="claude",
        name="Claude Code",
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        subfolders=("projects",),
        patterns=("*.jsonl",),
    ),
    SourceLocation(
        runtime="codex",
        name="Codex",
        folder=".codex",
        variable="CODEX_HOME",
        subfolders=("sessions", "archived_sessions"),
        patterns=("*.jsonl", "*.jsonl.zst"),
    ),
    SourceLocation(
        runtime="gemini",
        name="Gemini CLI",
        folder=".gemini",
        subfolders=("tmp",),
        patterns=("session-*",),
    ),
    SourceLocation(
        runtime="pi", name="Pi", folder=".pi/agent", subfolders=("sessions",), patterns=("*.jsonl",)
    ),
    SourceLocation(
        runtime="copilot",
        name="Copilot CLI",
        folder=".copilot",
        subfolders=("session-state",),
        patterns=("events.jsonl",),
    ),
    SourceLocation(
        runtime="opencode",
        name="OpenCode",
        folder=".local/share",
        subfolders=("opencode",),
        patterns=("opencode*.db",),
    ),
)


class File(msgspec.Struct, frozen=True):
    """A file that may be a source."""

    path: Path
    size: int
    """The size, including the write-ahead log of a database, which has the newest content."""
    mtime_ns: int

    @property
    def name(self) -> str:
        """Its absolute path, which identifies it in the catalogue."""
        return os.path.abspath(self.path)  # noqa: PTH100 - links stay as they are

    @property
    def display_name(self) -> str:
        """The same as valid text, also if the name is not valid UTF-8."""
        return self.name.encode("utf-8", "backslashreplace").decode()

    @property
    def is_of_subagent(self) -> bool:
        """Whether its name is that of the conversation of a subagent."""
        return self.path.name.startswith(_SUBAGENT_PREFIX)

    def read_beginning(self, size_bytes: int) -> bytes:
        """Return its first bytes, decompressed if necessary. Raises OSError."""
        return read_beginning(self.path, size_bytes)

    def compute_fingerprint(self) -> FileFingerprint:
        """Return a fingerprint for detecting changes. Raises OSError."""
        tails = blake3()
        for path in (self.path, *_list_wal(self.path)):
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _TAIL_BYTES))
                tails.update(file.read(_TAIL_BYTES) or b"")
        return FileFingerprint(self.size, self.mtime_ns, tails.digest(16))


class RuntimeHistory(msgspec.Struct, frozen=True):
    """The files in a location."""

    place: SourceLocation
    folder: Path
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """The total size of all files."""
        return sum(file.size for file in self.files)


def find_histories(home: Path, environ: Mapping[str, str]) -> list[RuntimeHistory]:
    """Return the non-empty history folders in a user's home."""
    runtime_histories = []
    for place in SOURCE_LOCATIONS:
        for folder in source_folders(place, home, environ):
            files = tuple(f for f in iter_files(folder) if place.matches(f.path))
            if files:
                runtime_histories.append(RuntimeHistory(place, folder, files))
    return runtime_histories


def source_folders(place: SourceLocation, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of a location for a user. They may not exist."""
    override = environ.get(place.variable, "").strip() if place.variable else ""
    base_folder = Path(override).expanduser() if override else home / place.folder
    return [base_folder / inside for inside in place.subfolders]


def watched_paths(
    places: Iterable[SourceLocation], home: Path, environ: Mapping[str, str]
) -> list[WatchedPath]:
    """Return the folders of locations to watch, with the patterns of history files."""
    return [
        WatchedPath(folder, pattern)
        for place in places
        for folder in source_folders(place, home, environ)
        for pattern in place.patterns
    ]


def iter_files(path: Path) -> Iterator[File]:
    """Yield a file, or the files in a folder recursively, those of subagents last."""
    if path.is_dir():
        walked = (Path(directory, name) for directory, _, names in os.walk(path) for name in names)
        files = [file for file in map(_stat_file, walked) if file is not None]
        yield from sort_for_import(files)
    elif path.exists():
        file = _stat_file(path)
        if file is not None:
            yield file


def with_companions(files: Iterable[File]) -> list[File]:
    """Return files, followed by their companion files."""
    by_name = {file.name: file for file in files}
    for file in [*by_name.values()]:
        for path in iter_companions(file.path):
            companion = _stat_file(path)
            if companion is not None:
                by_name.setdefault(companion.name, companion)
    return [*by_name.values()]


def sort_for_import(files: Iterable[File]) -> list[File]:
    """Return files in import order: a file comes after the files it depends on."""
    return sorted(
        files,
        key=lambda file: (file.is_of_subagent, file.mtime_ns, file.name),
    )


def _stat_file(path: Path) -> File | None:
    """Return a file with its status. Return None for sockets, pipes and missing files."""
    try:
        statuses = [path.stat()]
    except OSError:
        return None
    with suppress(OSError):  # Another process may remove the write-ahead log.
        statuses += [wal_path.stat() for wal_path in _list_wal(path)]
    size, changed_ns = (
        sum(wal_path.st_size for wal_path in statuses),
        max(wal_path.st_mtime_ns for wal_path in statuses),
    )
    return File(path, size, changed_ns) if path.is_file() else None


def _list_wal(path: Path) -> list[Path]:
    """Return the write-ahead log of a SQLite database, if there is one."""
    log = f"{path}-wal"
    return [Path(log)] if os.path.isfile(log) else []  # noqa: PTH113 - pathlib makes an import half as slow again
