"""Sources: where runtimes keep their histories on a machine, and which files there are.

One idea: a place is data, a kind of file is what its first bytes say. Nothing is ever written
there, no link to a folder is followed, and a file that cannot be read is no reason not to read
the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from harken.capture.files.change_scanner import WatchedPath
from harken.capture.files.companions import companions_of
from harken.formats.runtimes.compressed import beginning_of
from harken.index.catalogue import FileFingerprint

_TAIL_BYTES = 4096
_LATER = "agent-"
"""Files of subagents are named so; that of their parent comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """Where a runtime keeps its histories."""

    runtime: str
    name: str
    """As people call it."""
    folder: str
    """Below the home of its user."""
    variable: str = ""
    """The variable of the environment that names another folder in place of `folder`."""
    inside: tuple[str, ...]
    """The folders in it that hold histories."""
    patterns: tuple[str, ...]
    """How the files of histories are named."""

    def has(self, path: Path) -> bool:
        """Whether a file is named as a history of this runtime."""
        return any(path.match(pattern) for pattern in self.patterns)


PLACES = (
    SourceLocation(
        runtime="claude",
        name="Claude Code",
        folder=".claude",
        variable="CLAUDE_CONFIG_DIR",
        inside=("projects",),
        patterns=("*.jsonl",),
    ),
    SourceLocation(
        runtime="codex",
        name="Codex",
        folder=".codex",
        variable="CODEX_HOME",
        inside=("sessions", "archived_sessions"),
        patterns=("*.jsonl", "*.jsonl.zst"),
    ),
    SourceLocation(
        runtime="gemini",
        name="Gemini CLI",
        folder=".gemini",
        inside=("tmp",),
        patterns=("session-*",),
    ),
    SourceLocation(
        runtime="pi", name="Pi", folder=".pi/agent", inside=("sessions",), patterns=("*.jsonl",)
    ),
    SourceLocation(
        runtime="copilot",
        name="Copilot CLI",
        folder=".copilot",
        inside=("session-state",),
        patterns=("events.jsonl",),
    ),
    SourceLocation(
        runtime="opencode",
        name="OpenCode",
        folder=".local/share",
        inside=("opencode",),
        patterns=("opencode*.db",),
    ),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file that may be a source."""

    path: Path
    size: int
    """With the log that a database has beside it: the newest stands only there."""
    mtime_ns: int

    @property
    def name(self) -> str:
        """Its path, from the root on: by that it is known again."""
        return os.path.abspath(self.path)  # noqa: PTH100 - links stay as they are

    @property
    def shown(self) -> str:
        """The same as a text that can be written down, also where the name is no UTF-8."""
        return self.name.encode("utf-8", "backslashreplace").decode()

    def beginning(self, size_bytes: int) -> bytes:
        """Return its first bytes, unpacked where it is compressed. Raises OSError."""
        return beginning_of(self.path, size_bytes)

    def mark(self) -> FileFingerprint:
        """Return by what it is seen later that it has changed. Raises OSError."""
        tails = blake3()
        for path in (self.path, *_beside(self.path)):
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _TAIL_BYTES))
                tails.update(file.read(_TAIL_BYTES) or b"")
        return FileFingerprint(self.size, self.mtime_ns, tails.digest(16))


@dataclass(frozen=True, slots=True)
class RuntimeHistory:
    """What is found at a place."""

    place: SourceLocation
    folder: Path
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def histories(home: Path, environ: Mapping[str, str]) -> list[RuntimeHistory]:
    """Return what is in the known folders of a user's home; those with nothing are left out."""
    found = []
    for place in PLACES:
        for folder in folders_of(place, home, environ):
            files = tuple(f for f in files_in(folder) if place.has(f.path))
            if files:
                found.append(RuntimeHistory(place, folder, files))
    return found


def folders_of(place: SourceLocation, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of a place for a user; they may not be there."""
    given = environ.get(place.variable, "").strip() if place.variable else ""
    at = Path(given).expanduser() if given else home / place.folder
    return [at / inside for inside in place.inside]


def watched_at(
    places: Iterable[SourceLocation], home: Path, environ: Mapping[str, str]
) -> list[WatchedPath]:
    """Return the folders of places, and which files in them are histories."""
    return [
        WatchedPath(folder, pattern)
        for place in places
        for folder in folders_of(place, home, environ)
        for pattern in place.patterns
    ]


def files_in(path: Path) -> Iterator[File]:
    """Yield a file, or those in a folder and below it, those of subagents last."""
    if path.is_dir():
        walked = (Path(at, name) for at, _, names in os.walk(path) for name in names)
        found = [file for file in map(_file, walked) if file is not None]
        yield from in_order(found)
    elif path.exists():
        file = _file(path)
        if file is not None:
            yield file


def with_companions(files: Iterable[File]) -> list[File]:
    """Return files, and after them those that belong to them and are not among them."""
    found = {file.name: file for file in files}
    for file in [*found.values()]:
        for path in companions_of(file.path):
            companion = _file(path)
            if companion is not None:
                found.setdefault(companion.name, companion)
    return [*found.values()]


def in_order(files: Iterable[File]) -> list[File]:
    """Return files in the order in which they are read: what others go on from comes first."""
    return sorted(
        files, key=lambda file: (file.path.name.startswith(_LATER), file.mtime_ns, file.name)
    )


def _file(path: Path) -> File | None:
    """Return a file that can be looked at; sockets, pipes and what is gone are none."""
    try:
        found = [path.stat()]
    except OSError:
        return None
    with suppress(OSError):  # its owner may take away the log just now
        found += [one.stat() for one in _beside(path)]
    size, changed_ns = sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)
    return File(path, size, changed_ns) if path.is_file() else None


def _beside(path: Path) -> list[Path]:
    """Return the log of a SQLite database, where there is one."""
    log = f"{path}-wal"
    return [Path(log)] if os.path.isfile(log) else []  # noqa: PTH113 - half of an import again
