"""Files of known repositories, opened for one request, and the version of answers about them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from harken.attribution.agent_trace import TRACE_FILE, TRACE_REF
from harken.attribution.changes import find_commit
from harken.attribution.git.blame import decode_content
from harken.attribution.git.hooks import NOTES_REF
from harken.attribution.git.repository import HEAD, GitRepository
from harken.attribution.git.tracked_files import list_tracked
from harken.attribution.source_files import SourceFiles
from harken.cli.commands.ui.known_repositories import KnownRepositories
from harken.config.home import Home
from harken.edits.file_edit import split_lines
from harken.errors import ConfigError
from harken.service.viewer.code_library import CodeFile

_UNDECODED = "�"
"""In place of a byte of a path that is no UTF-8: an address of the page cannot contain it."""


class CodeVersion(NamedTuple):
    """The inputs of the answers about a file. Equal ones have equal answers."""

    repository: str
    path: str
    content: str
    """The commit, or the size and the times of the file in the working tree."""
    state: RepositoryState

    @property
    def text(self) -> str:
        """A short text that differs for different versions."""
        return hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class RepositoryState(NamedTuple):
    """The state of a repository and of the recorded edits."""

    head: str
    records: str
    """The notes and files with records about commits."""
    edits: str
    """The size and the time of the store."""

    @classmethod
    def of(cls, repository: GitRepository, home: Home) -> RepositoryState:
        """Return the current state. Raises ConfigError."""
        head = find_commit(repository, HEAD) or ""
        names = ("--format=%(objectname)", NOTES_REF, TRACE_REF)
        records = repository.run("for-each-ref", *names).decode("ascii", "replace")
        trace = _describe(repository.top / TRACE_FILE)
        store = home.store_file
        wal = store.with_name(f"{store.name}-wal")
        return cls(head, f"{records} {trace}", f"{_describe(store)} {_describe(wal)}")

    def of_file(self, repository: GitRepository, path: str, commit: str = "") -> CodeVersion:
        """Return the version of a file in a commit, or in the working tree."""
        content = commit or _describe(repository.top / path)
        return CodeVersion(str(repository.top), path, content, self)


class OpenCodeFile(msgspec.Struct, frozen=True):
    """A tracked text file, with its lines."""

    repository: GitRepository
    path: str
    commit: str
    """The id of the commit of a revision, or empty for the working tree."""
    size: int
    lines: list[str]
    version: CodeVersion


@contextmanager
def open_file(
    repositories: KnownRepositories, home: Home, file: CodeFile
) -> Iterator[OpenCodeFile]:
    """Open a file of a known repository. Raises NameNotFound, and ConfigError with the reason."""
    with repositories.open(file.repository) as repository:
        commit = resolve_revision(repository, file.revision)
        files = SourceFiles(repository)
        path = files.resolve_top_path(_resolve_name(repository, file.path, commit), commit)
        version = RepositoryState.of(repository, home).of_file(repository, path, commit)
        data = files.read_file(path, commit)
        lines = split_lines(decode_content(data))
        yield OpenCodeFile(repository, path, commit, len(data), lines, version)


def resolve_revision(repository: GitRepository, revision: str) -> str:
    """Return the id of a commit, empty for an empty revision. Raises ConfigError."""
    commit = find_commit(repository, revision) if revision else ""
    if commit is None:
        raise ConfigError(f"{revision}: no such git commit in {repository.top}")
    return commit


def _resolve_name(repository: GitRepository, path: str, commit: str) -> str:
    """Return the path of a file below the top folder.

    Raises ConfigError for a path in any other form, which could lead out of the repository.
    """
    if not path or "\0" in path or {"", ".", ".."} & {*path.split("/")}:
        raise ConfigError(f"{path}: no file; name one by its path below {repository.top}")
    if _UNDECODED not in path or repository.list_entry(path, commit) is not None:
        return path
    names = [name for name in list_tracked(repository, commit) if _readable(name) == path]
    return names[0] if len(names) == 1 else path


def _readable(name: str) -> str:
    """Return a path as a browser sends it back: with a sign for each byte that is no text."""
    return "".join(_UNDECODED if "\ud800" <= char <= "\udfff" else char for char in name)


def _describe(path: Path) -> str:
    """Return the identity, size and times of a file."""
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(state.st_mode):
        return "other"
    if not state.st_size:  # SQLite creates and deletes an empty file when a database is read.
        return ""
    return f"{state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"
