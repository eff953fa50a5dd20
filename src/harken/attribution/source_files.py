"""`SourceFiles`: the files of a repository that have lines, and their content.

Only files that git tracks are read, and none through a symbolic link.
"""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from harken.attribution.changes import find_commit
from harken.attribution.git.blame import decode
from harken.attribution.git.repository import MAX_FILE_BYTES, SUBMODULE_MODE, GitRepository
from harken.attribution.target import find_python_function
from harken.errors import ConfigError
from harken.world.files.line_window import line_count

_BINARY_BYTES = 8000
"""Git calls a file binary if it has a zero byte among so many."""


class SourceFiles:
    """The tracked text files of a repository."""

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository

    def resolve_path(self, path: str, revision: str = "") -> str:
        """Return the path of a tracked text file below the top folder.

        `path` is relative to the folder in which the repository was found. Raises ConfigError with
        the reason for any other file.
        """
        return self._check_path(path, self._relative_path(path), revision)

    def resolve_revision(self, revision: str) -> str:
        """Return the id of the commit of a revision, or an empty text for an empty one.

        Raises ConfigError if there is none.
        """
        if not revision:
            return ""
        commit = find_commit(self._repository, revision)
        if commit is None:
            raise ConfigError(f"--rev {revision}: no such git commit")
        return commit

    def is_file(self, path: str, revision: str) -> bool:
        """Whether a path is a file in the working tree, or in a commit."""
        if not revision:
            return (self._repository.folder / path).is_file()
        try:
            return self._repository.list_entry(self._relative_path(path), revision) is not None
        except ConfigError:
            return False

    def resolve_top_path(self, path: str, revision: str = "") -> str:
        """Return a path below the top folder, if it is a tracked text file. Raises ConfigError."""
        return self._check_path(path, path, revision)

    def _relative_path(self, path: str) -> str:
        """Return a path of the folder as one of the top folder. Raises ConfigError."""
        top = self._repository.top
        named = self._repository.folder / path
        # The folder may be named by a symbolic link; a link to a file is refused later.
        for folder in (named.parent, Path(os.path.realpath(named.parent))):
            absolute = posixpath.normpath(str(folder / named.name))
            relative = posixpath.relpath(absolute, str(top))
            if relative != ".." and not relative.startswith("../"):
                return relative
        raise ConfigError(f"{path}: not in this repository ({top})")

    def _check_path(self, path: str, relative: str, revision: str) -> str:
        mode = self._repository.list_entry(relative, revision)
        if mode is None:
            if revision:
                raise ConfigError(f"{path}: not a file in {revision[:10]}")
            reason = (
                "not tracked by git" if (self._repository.top / relative).exists() else "no file"
            )
            raise ConfigError(f"{path}: {reason}; name a file that is committed")
        if stat.S_IFMT(mode) == SUBMODULE_MODE:
            raise ConfigError(f"{path}: a submodule; run the command inside of it")
        if stat.S_ISLNK(mode):
            raise ConfigError(f"{path}: a symbolic link; name the file that it points to")
        if not revision and self._is_below_link(relative):
            raise ConfigError(f"{path}: its folder was replaced by a symbolic link; --rev HEAD")
        return relative

    def _is_below_link(self, relative: str) -> bool:
        """Whether a folder of a path is a symbolic link: git follows it, out of the repository."""
        parent = posixpath.dirname(relative)
        top = os.path.realpath(self._repository.top)
        return os.path.realpath(os.path.join(top, parent)) != posixpath.normpath(  # noqa: PTH118
            posixpath.join(top, parent)
        )

    def read_file(self, path: str, revision: str = "") -> bytes:
        """Return the content of a text file. Raises ConfigError for a binary or a large file."""
        if revision:
            name = f"{revision}:{path}"
            data = self._repository.read_blobs([name]).get(name)
        else:
            file = self._repository.top / path
            if not os.path.lexists(file):
                raise ConfigError(
                    f"{path}: deleted from the working tree; --rev COMMIT shows an earlier one"
                )
            data = _read(file)
        if data is None:
            raise ConfigError(f"{path}: cannot be read, or is larger than {MAX_FILE_BYTES} bytes")
        if b"\0" in data[:_BINARY_BYTES]:
            raise ConfigError(f"{path}: a binary file, which has no lines")
        return data

    def check_line(self, name: str, number: int, data: bytes) -> None:
        """Raise ConfigError if a file has no line with a number. `name`: that of the user."""
        count = line_count(data)
        if number > count:
            raise ConfigError(f"{name}: line {number} is out of range; it has {count}")

    def find_function(self, path: str, name: str, data: bytes, revision: str) -> tuple[int, int]:
        """Return the lines of a function: by its syntax in Python, else by the rules of git.

        Raises ConfigError if there is none.
        """
        if path.endswith((".py", ".pyi")):
            lines = find_python_function(data.decode("utf-8", "replace"), name)
            if lines is None:
                raise ConfigError(f"{path}: no function or class {name!r}")
            return lines
        return self._repository.find_function(path, name, revision)

    def resolve_folder(self, folder: str) -> str:
        """Return a folder below the top folder; an empty text is the top folder itself."""
        relative = self._relative_path(folder)
        return "" if relative == "." else relative

    def list_files(self, folder: str) -> list[str]:
        """Return the tracked files below a folder. Raises ConfigError if there are none."""
        relative = self._relative_path(folder)
        pathspec = [] if relative == "." else [relative]
        output = self._repository.run("ls-files", "-z", "--", *pathspec)
        paths = [path for path in decode(output).split("\0") if path]
        if not paths:
            raise ConfigError(f"{folder}: no files tracked by git")
        return paths


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None
