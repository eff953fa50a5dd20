"""The git repositories that a home knows: those in which its sessions worked.

The working folder of an imported session is untrusted. Only the top folder of a repository that
contains one can be named in a request, and only files that git tracks there are read.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harken.attribution.git.commands import PATH_VARIABLES
from harken.attribution.git.repository import GitRepository
from harken.capture.files.sources import SOURCE_LOCATIONS
from harken.cli.commands.ui.session_list import SessionList
from harken.errors import ConfigError, NameNotFound
from harken.service.viewer.code_library import Repository, RepositoryList, UnusableFolder

_MAX_AGE_S = 10.0
_MAX_OTHERS = 50
_MAX_PARENTS = 64


class KnownRepositories:
    """The repositories of the sessions of a home, and the one of the current folder."""

    def __init__(self, sessions: SessionList, start: Path, environ: Mapping[str, str]) -> None:
        """`start`: the folder in which the viewer was started."""
        self._list, self._start = sessions, start
        self._environ = {name: text for name, text in environ.items() if name not in PATH_VARIABLES}
        self._lock = threading.Lock()
        self._tops: dict[str, str | None] = {}
        """Working folder -> the top folder of its repository, or None."""
        self._sessions: Counter[str] = Counter()
        """Working folder -> the number of its sessions."""
        self._read_at = -_MAX_AGE_S

    def describe(self) -> RepositoryList:
        """Return the repositories, that of the start first, then those with most sessions."""
        tops = self._find_all()
        start = tops.get(str(self._start))
        sessions: Counter[str] = Counter()
        others: list[UnusableFolder] = []
        for folder, top in tops.items():
            if top is not None:
                sessions[top] += self._sessions[folder]
            elif self._sessions[folder]:
                problem = "no_repository" if os.path.isdir(folder) else "missing"  # noqa: PTH112
                count = self._sessions[folder]
                others.append(UnusableFolder(folder=folder, problem=problem, sessions=count))
        rows = [
            Repository(folder=top, sessions=count, is_start=top == start)
            for top, count in sessions.items()
        ]
        rows.sort(key=lambda row: (not row.is_start, -row.sessions, row.folder))
        others.sort(key=lambda row: -row.sessions)
        has_git = shutil.which("git", path=self._environ.get("PATH")) is not None
        return RepositoryList(
            repositories=rows,
            others=others[:_MAX_OTHERS],
            runtimes={location.runtime: location.name for location in SOURCE_LOCATIONS},
            problem=None if has_git else "git_missing",
        )

    def find_top(self, folder: str) -> str | None:
        """Return the top folder of the repository of a working folder of sessions."""
        return self._find_all().get(folder)

    def find_tops(self, path: str) -> list[str]:
        """Return the known repositories that contain an absolute path, the innermost first."""
        tops = {top for top in self._find_all().values() if top is not None}
        return sorted((top for top in tops if path.startswith(f"{top}/")), key=len, reverse=True)

    @contextmanager
    def open(self, folder: str) -> Iterator[GitRepository]:
        """Open a known repository by its top folder.

        Raises NameNotFound if the home does not know it, and ConfigError if git cannot read it.
        """
        tops = {top for top in self._find_all().values() if top is not None}
        if folder not in tops:
            raise NameNotFound("repository", folder, [])
        repository = GitRepository(Path(folder), self._environ)
        try:
            if str(repository.top) != folder:  # Its configuration names another working tree.
                raise ConfigError(f"{folder}: the repository has its files in {repository.top}")
            yield repository
        finally:
            repository.close()

    def _find_all(self) -> Mapping[str, str | None]:
        """Return the top folder of each working folder. New sessions are noticed after a while."""
        with self._lock:
            if time.monotonic() - self._read_at >= _MAX_AGE_S:
                self._sessions = Counter(
                    folder
                    for session in self._list.sessions()
                    if (folder := self._list.known_project(session))
                )
                self._tops = {
                    folder: _find_top(folder) for folder in (str(self._start), *self._sessions)
                }
                self._read_at = time.monotonic()
            return self._tops


def _find_top(folder: str) -> str | None:
    """Return the folder with `.git` that contains a folder, without symbolic links."""
    if not folder.startswith("/") or "\0" in folder:
        return None
    path = os.path.realpath(folder)
    if not os.path.isdir(path):  # noqa: PTH112 - does not raise
        return None
    for _ in range(_MAX_PARENTS):
        if os.path.lexists(os.path.join(path, ".git")):  # noqa: PTH118
            return path
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return None
        path = parent
    return None
