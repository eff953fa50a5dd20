"""`Attribution`: questions about the lines of one repository."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harken.attribution.changes import find_commit, list_added_ranges, match_diff, resolve_commit
from harken.attribution.explanation import Explainer
from harken.attribution.git.blame import decode, decode_content
from harken.attribution.git.history import VersionReader
from harken.attribution.git.repository import MAX_FILE_BYTES, SUBMODULE_MODE, GitRepository
from harken.attribution.line_blame import FileBlame
from harken.attribution.line_origin import LineOrigin
from harken.attribution.matching.commit_matcher import CommitMatcher
from harken.attribution.records.checkouts import Checkouts
from harken.attribution.records.edit_index import EditIndex
from harken.attribution.records.recorded_edits import EditSource
from harken.attribution.target import find_python_function
from harken.attribution.text.line_ranges import join_ranges
from harken.attribution.trivial_lines import widen_ranges
from harken.errors import ConfigError
from harken.index.session_index import SessionIndex
from harken.store.base import Store
from harken.world.edits.file_edit import split_lines
from harken.world.edits.patch_text import FileDiff, parse_unified_diff
from harken.world.files.line_window import line_count

_BINARY_BYTES = 8000
"""Git calls a file binary if it has a zero byte among so many."""


class Attribution:
    """Attributes lines of a repository to recorded edits."""

    def __init__(
        self, repository: GitRepository, index: EditIndex, facts: SessionIndex, store: Store
    ) -> None:
        self.repository = repository
        self.explainer = Explainer(facts.database, store)
        checkouts = Checkouts(repository, index, self.explainer.find_project)
        source = EditSource(index, store, checkouts)
        self._matcher = CommitMatcher(VersionReader(repository), source)
        self._blame = FileBlame(repository, self._matcher)

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
        commit = find_commit(self.repository, revision)
        if commit is None:
            raise ConfigError(f"--rev {revision}: no such git commit")
        return commit

    def is_file(self, path: str, revision: str) -> bool:
        """Whether a path is a file in the working tree, or in a commit."""
        if not revision:
            return (self.repository.folder / path).is_file()
        try:
            return self.repository.list_entry(self._relative_path(path), revision) is not None
        except ConfigError:
            return False

    def resolve_top_path(self, path: str) -> str:
        """Return a path below the top folder, if it is a tracked text file. Raises ConfigError."""
        return self._check_path(path, path, "")

    def _relative_path(self, path: str) -> str:
        """Return a path of the folder as one of the top folder. Raises ConfigError."""
        top = self.repository.top
        named = self.repository.folder / path
        # The folder may be named by a symbolic link; a link to a file is refused later.
        for folder in (named.parent, Path(os.path.realpath(named.parent))):
            absolute = posixpath.normpath(str(folder / named.name))
            relative = posixpath.relpath(absolute, str(top))
            if relative != ".." and not relative.startswith("../"):
                return relative
        raise ConfigError(f"{path}: not in this repository ({top})")

    def _check_path(self, path: str, relative: str, revision: str) -> str:
        mode = self.repository.list_entry(relative, revision)
        if mode is None:
            if revision:
                raise ConfigError(f"{path}: not a file in {revision[:10]}")
            reason = (
                "not tracked by git" if (self.repository.top / relative).exists() else "no file"
            )
            raise ConfigError(f"{path}: {reason}; name a file that is committed")
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
            file = self.repository.top / path
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
        return self.repository.find_function(path, name, revision)

    def origins(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), revision: str = ""
    ) -> list[LineOrigin]:
        """Return the origins of lines of a file, all without `ranges`. Raises ConfigError."""
        if not ranges:
            return self._blame.origins(path, (), revision)
        lines = split_lines(decode_content(self.read_file(path, revision)))
        origins = self._blame.origins(path, widen_ranges(ranges, lines), revision)
        return [
            origin
            for origin in origins
            if any(first <= origin.line.number <= last for first, last in ranges)
        ]

    def commit_origins(self, name: str) -> Iterator[tuple[str, list[LineOrigin]]]:
        """Yield the files of a git commit, and the origins of the lines that it added.

        Binary files are left out. Raises ConfigError.
        """
        commit = resolve_commit(self.repository, name)
        for file in list_added_ranges(self.repository, commit):
            try:
                yield file.path, self.origins(file.path, file.ranges, commit)
            except ConfigError:  # The file is a submodule, binary or too large.
                continue

    def diff_origins(self, text: str) -> Iterator[tuple[str, list[LineOrigin]]]:
        """Yield the files of a unified diff, and the origins of the lines that it adds.

        A file that is in the working tree as after the diff is blamed; of any other file only the
        text of the diff is known. Raises ConfigError for a text without a diff.
        """
        files = parse_unified_diff(text)
        if not files:
            raise ConfigError("the input is not a unified diff; try `git diff | harken why -`")
        for file in files:
            if file.new_path:
                yield file.new_path, self._diff_origins(file)

    def _diff_origins(self, file: FileDiff) -> list[LineOrigin]:
        numbers = [hunk.new_start + index for hunk in file.hunks for index in hunk.added]
        if not numbers:
            return []
        try:
            path = self.resolve_top_path(file.new_path)
            lines = split_lines(decode_content(self.read_file(path)))
        except ConfigError:
            return [*match_diff(self._matcher, file)]
        is_applied = all(
            lines[hunk.new_start - 1 : hunk.new_start - 1 + len(hunk.new_lines)] == hunk.new_lines
            for hunk in file.hunks
        )
        if not is_applied:
            return [*match_diff(self._matcher, file)]
        return self.origins(path, join_ranges(numbers))

    def find_models(self, origins: Iterable[LineOrigin]) -> dict[int, tuple[str, str]]:
        """Return the runtime and the model of the edits of lines, by the id of the edit's row."""
        edits = {origin.edit.row.id: origin.edit for origin in origins if origin.edit is not None}
        return {id_: self.explainer.find_model(edit) for id_, edit in edits.items()}

    def resolve_folder(self, folder: str) -> str:
        """Return a folder below the top folder; an empty text is the top folder itself."""
        relative = self._relative_path(folder)
        return "" if relative == "." else relative

    def list_files(self, folder: str) -> list[str]:
        """Return the tracked files below a folder. Raises ConfigError if there are none."""
        relative = self._relative_path(folder)
        pathspec = [] if relative == "." else [relative]
        output = self.repository.run("ls-files", "-z", "--", *pathspec)
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
