"""`Attribution`: questions about the lines of one repository."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Sequence
from pathlib import Path

from harken.attribution.commit_matching import CommitMatcher
from harken.attribution.edit_index import EditIndex
from harken.attribution.edits.file_edit import split_lines
from harken.attribution.explanation import Explainer
from harken.attribution.git.blame import decode
from harken.attribution.git.history import VersionReader
from harken.attribution.git.repository import MAX_FILE_BYTES, SUBMODULE_MODE, GitRepository
from harken.attribution.line_blame import FileBlame
from harken.attribution.line_origin import LineOrigin
from harken.attribution.recorded_edits import EditSource
from harken.attribution.target import find_python_function
from harken.attribution.trivial_lines import widen_ranges
from harken.errors import ConfigError
from harken.index.session_index import SessionIndex
from harken.store.base import Store

_BINARY_BYTES = 8000
"""Git calls a file binary if it has a zero byte among so many."""


class Attribution:
    """Attributes lines of a repository to recorded edits. Close it after use."""

    def __init__(
        self, repository: GitRepository, index: EditIndex, facts: SessionIndex, store: Store
    ) -> None:
        self.repository = repository
        source = EditSource(index, store, repository.top, repository.is_tracked)
        self._blame = FileBlame(repository, CommitMatcher(VersionReader(repository), source))
        self.explainer = Explainer(facts.database, store)

    def resolve_path(self, path: str, revision: str = "") -> str:
        """Return the path of a tracked text file below the top folder.

        `path` is relative to the folder in which the repository was found. Raises ConfigError with
        the reason for any other file.
        """
        top = self.repository.top
        absolute = posixpath.normpath(str(self.repository.folder / path))
        relative = posixpath.relpath(absolute, str(top))
        if relative == ".." or relative.startswith("../"):
            raise ConfigError(f"{path}: not in this repository ({top})")
        mode = self.repository.list_entry(relative, revision)
        if mode is None:
            where = f"in {revision}" if revision else "tracked by git"
            raise ConfigError(f"{path}: not {where}; `git add` and commit the file first")
        if stat.S_IFMT(mode) == SUBMODULE_MODE:
            raise ConfigError(f"{path}: a submodule; run the command inside of it")
        if stat.S_ISLNK(mode):
            raise ConfigError(f"{path}: a symbolic link; name the file that it points to")
        return relative

    def read_file(self, path: str, revision: str = "") -> bytes:
        """Return the content of a text file. Raises ConfigError for a binary or a large file."""
        if revision:
            name = f"{revision}:{path}"
            data = self.repository.read_blobs([name]).get(name)
        else:
            data = _read(self.repository.top / path)
        if data is None:
            raise ConfigError(f"{path}: cannot be read, or is larger than {MAX_FILE_BYTES} bytes")
        if b"\0" in data[:_BINARY_BYTES]:
            raise ConfigError(f"{path}: a binary file, which has no lines")
        return data

    def find_function(self, path: str, name: str, data: bytes, revision: str) -> tuple[int, int]:
        """Return the lines of a function: by its syntax in Python, else by the rules of git.

        Raises ConfigError if there is none.
        """
        if path.endswith((".py", ".pyi")):
            lines = find_python_function(data.decode("utf-8", "replace"), name)
            if lines is None:
                raise ConfigError(f"{path}: no function or class {name!r}")
            return lines
        return self.repository.find_function(path, name, revision)

    def origins(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), revision: str = ""
    ) -> list[LineOrigin]:
        """Return the origins of lines of a file, all without `ranges`. Raises ConfigError."""
        if not ranges:
            return self._blame.origins(path, (), revision)
        lines = split_lines(decode(self.read_file(path, revision)))
        origins = self._blame.origins(path, widen_ranges(ranges, lines), revision)
        return [
            origin
            for origin in origins
            if any(first <= origin.line.number <= last for first, last in ranges)
        ]


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None
