"""`HomeImports`: import sessions of other runtimes into a home, for the routes of the viewer.

The import is that of `harken import`, in a process of its own. It reports its state, which this
process keeps, so that a page finds it again after it was closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from harken.capture.files.sources import File, RuntimeHistory, find_histories
from harken.cli.commands.ui.child_process import ChildFailure, ChildProcess
from harken.cli.commands.ui.imports.import_process import ImportArguments, run_import
from harken.config.home import Home
from harken.config.imported_sessions import has_catalogue, open_catalogue
from harken.core import structs
from harken.service.viewer.home_pages.imports import ImportPhase, ImportSource, ImportState
from harken.store.remote.errors import RequestRefused

_MAX_SOURCES_AGE_S = 5.0
_CANCEL_S = 20.0
"""An import that did not end so long after it was cancelled is killed."""
_DATABASE_SUFFIX = ".db"


class HomeImports:
    """The imports of a home, one at a time. Methods are called by several threads at a time."""

    def __init__(self, home: Home, user_folder: Path, environ: Mapping[str, str]) -> None:
        """Search in the folder of the user, and in those that the environment names."""
        self._home, self._user_folder, self._environ = home, user_folder, dict(environ)
        self._lock = threading.Lock()
        self._state = ImportState()
        self._process: ChildProcess | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._sources: list[ImportSource] = []
        self._sources_expire_at = 0.0

    def list_sources(self) -> list[ImportSource]:
        """Return the sessions of each runtime that are found on this machine. No file is read."""
        if time.monotonic() >= self._sources_expire_at:
            histories = find_histories(self._user_folder, self._environ)
            files = [file for history in histories for file in history.files]
            new = self._find_new(files)
            runtimes = dict.fromkeys(history.place.runtime for history in histories)
            self._sources = [
                _describe_source([h for h in histories if h.place.runtime == runtime], new)
                for runtime in runtimes
            ]
            self._sources_expire_at = time.monotonic() + _MAX_SOURCES_AGE_S
        return self._sources

    def state(self) -> ImportState:
        """Return the state of the running import, or of the last one."""
        return self._state

    def is_running(self) -> bool:
        """Whether an import runs."""
        return self._state.is_running

    def start(self, runtimes: Sequence[str]) -> ImportState:
        """Start an import of these runtimes. See `ImportService`."""
        names = {source.runtime for source in self.list_sources()}
        missing = [name for name in runtimes if name not in names]
        if missing or not runtimes:
            suffix = f" of {missing[0]!r}" if missing else " to import"
            raise RequestRefused("invalid", f"no sessions{suffix} are on this machine")
        with self._lock:
            if self._state.is_running:
                raise RequestRefused("busy", "an import is running; wait for its end, or cancel it")
            state = ImportState(phase="searching", runtimes=sorted(set(runtimes)), began=_now())
            arguments = ImportArguments(
                folder=str(self._home.folder),
                user_folder=str(self._user_folder),
                environ=self._environ,
                runtimes=state.runtimes,
                began=state.began or "",
            )
            self._process = ChildProcess(run_import, arguments)
            self._state = state
            self._idle.clear()
            follow = threading.Thread(target=self._follow, args=(self._process,), daemon=True)
            follow.start()
            return self._state

    def cancel(self) -> ImportState:
        """Ask the running import to end. It is killed if it does not end soon."""
        with self._lock:
            process = self._process
            if process is None or not self._state.is_running:
                return self._state
            if self._state.phase == "indexing":  # The next update of the index does the rest.
                process.kill()
                return self._state
            self._state = structs.replace(self._state, is_cancelling=True)
            process.send("cancel")
            timer = threading.Timer(_CANCEL_S, process.kill)
            timer.daemon = True
            timer.start()
            return self._state

    def close(self) -> None:
        """End a running import. Files that are in the store stay there."""
        process = self._process
        if process is not None:
            process.kill()
        self._idle.wait()

    def _follow(self, process: ChildProcess) -> None:
        """Keep the state that the process reports. The import has ended when the process has."""
        error, last_state = None, None
        try:
            for state in process.receive():
                with self._lock:
                    if state.is_running:
                        is_cancelling = self._state.is_cancelling
                        self._state = structs.replace(state, is_cancelling=is_cancelling)
                    else:
                        last_state = state
        except ChildFailure as failure:
            error = str(failure)
        with self._lock:
            if last_state is not None:
                self._state = last_state
            else:
                phase = _find_end_phase(self._state)
                is_failure = phase == "failed"
                self._state = structs.replace(
                    self._state,
                    phase=phase,
                    is_cancelling=False,
                    ended=_now(),
                    error=(error or "its process ended") if is_failure else None,
                )
            self._process = None
            self._sources_expire_at = 0.0
        self._idle.set()

    def _find_new(self, files: Sequence[File]) -> set[str]:
        """Return the names of files that were never imported, or have changed since."""
        entries = {}
        if has_catalogue(self._home):
            with closing(open_catalogue(self._home)) as catalogue:
                entries = catalogue.find_entries(file.name for file in files)
        new = set()
        for file in files:
            entry = entries.get(file.name)
            if entry is None or (entry.fingerprint.size, entry.fingerprint.mtime_ns) != (
                file.size,
                file.mtime_ns,
            ):
                new.add(file.name)
        return new


def _find_end_phase(state: ImportState) -> ImportPhase:
    """Return the phase of an import that ended in this state without a report."""
    if state.phase == "indexing":  # All files are in the store.
        return "done"
    return "cancelled" if state.is_cancelling else "failed"


def _describe_source(histories: Sequence[RuntimeHistory], new: Iterable[str]) -> ImportSource:
    """Return the source of a runtime, which may have several folders."""
    place, names = histories[0].place, set(new)
    files = [file for history in histories for file in history.files]
    newest = max(file.mtime_ns for file in files) / 1e9
    is_database = any(file.path.suffix == _DATABASE_SUFFIX for file in files)
    return ImportSource(
        runtime=place.runtime,
        name=place.name,
        folders=[_as_text(history.folder) for history in histories],
        files=len(files),
        sessions=None if is_database else sum(not file.is_of_subagent for file in files),
        size_bytes=sum(file.size for file in files),
        newest=datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds"),
        new_files=sum(file.name in names for file in files),
    )


def _as_text(path: Path) -> str:
    """Return a path as valid text."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
