"""`Checkouts`: whether a recorded edit was made in a checkout of the repository.

A path of an edit is compared with the files of the repository by its last components. Files of
unrelated projects have equal names (`LICENSE`, `Makefile`), so the folder of the edit is compared
as well: with the repository that is in it, if it is on this machine, else by other edits there.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from harken.attribution.git.commands import PATH_VARIABLES
from harken.attribution.git.repository import GitRepository
from harken.attribution.records.edit_index import EditIndex, EditRow
from harken.edits.file_edit import is_absolute
from harken.errors import ConfigError

Kinship: TypeAlias = Literal["same", "other", "unknown"]
"""Of a folder: a checkout of the repository, one of another repository, or not known."""
_MAX_COMPARED = 200


class Checkouts(msgspec.Struct):
    """Compares the folders of edits with a repository."""

    repository: GitRepository
    index: EditIndex
    find_project: Callable[[EditRow], str]
    """Return the folder in which the session of an edit worked, or an empty text."""
    _kinships: dict[str, Kinship] = msgspec.field(default_factory=dict)
    _doubts: dict[str, bool] = msgspec.field(default_factory=dict)
    _projects: dict[str, str] = msgspec.field(default_factory=dict)

    def is_foreign(self, row: EditRow) -> bool:
        """Whether an edit was made in another repository of this machine."""
        return self._kinship(self._folder(row)) == "other"

    def is_doubtful(self, row: EditRow) -> bool:
        """Whether nothing but the name of a file relates an edit to the repository."""
        folder = self._folder(row)
        if not folder or self._kinship(folder) != "unknown":
            return False
        if folder not in self._doubts:
            self._doubts[folder] = not self._has_relation(folder)
        return self._doubts[folder]

    def find_root(self, row: EditRow, *paths: str) -> str:
        """Return the top folder of the checkout in which an edit changed one of some files.

        Return an empty text if it is not known.
        """
        if not is_absolute(row.path):
            return self._project(row)
        for path in paths:
            if row.path.endswith(f"/{path}"):
                return row.path[: -len(path) - 1]
        return ""

    def _folder(self, row: EditRow) -> str:
        if is_absolute(row.path):
            return posixpath.dirname(row.path)
        return self._project(row)

    def _project(self, row: EditRow) -> str:
        if row.session not in self._projects:
            self._projects[row.session] = self.find_project(row)
        return self._projects[row.session]

    def _kinship(self, folder: str) -> Kinship:
        if folder not in self._kinships:
            self._kinships[folder] = self._compare(folder)
        return self._kinships[folder]

    def _compare(self, folder: str) -> Kinship:
        top = str(self.repository.top)
        if folder == top or folder.startswith(f"{top}/"):
            return "same"
        path = Path(folder)
        if not path.is_absolute() or not path.is_dir():
            return "unknown"
        environ = {name: text for name, text in os.environ.items() if name not in PATH_VARIABLES}
        try:
            other = GitRepository(path, environ)
        except ConfigError:
            return "unknown"
        if other.is_shallow or self.repository.is_shallow:
            return "unknown"
        is_same = (
            other.top == self.repository.top
            or other.common_folder == self.repository.common_folder
            or not other.first_commits.isdisjoint(self.repository.first_commits)
        )
        return "same" if is_same else "other"

    def _has_relation(self, folder: str) -> bool:
        """Whether a folder has the name of the top folder, or files of the repository below.

        The last components of the folder may be folders of the repository.
        """
        parts = folder.strip("/").split("/")
        if parts[-1] == self.repository.top.name:
            return True
        if any(self.repository.is_folder("/".join(parts[-size:])) for size in (1, 2, 3)):
            return True
        paths = self.index.find_paths_below(folder, _MAX_COMPARED)
        names = [path[len(folder) + 1 :] for path in paths]
        return any("/" in name and self.repository.is_tracked(name) for name in names)
