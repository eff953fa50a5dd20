"""The sources of the events of a session: a log that may be written, or an import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.config.home import Home
from harken.config.imported_sessions import read_imported
from harken.config.store import build_commit_resolver
from harken.core.events import Event
from harken.errors import InvalidLog
from harken.session.log.compressed import find_packs, stat_log
from harken.session.log.file import is_being_written
from harken.views.model_calls import placeholders
from harken.views.viewer import SessionFollower, SessionViewer

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession


_MAX_EVENTS = 2000
"""The number of events of a log that are read at once: a tenth of a second, roughly."""


class LogSource:
    """The events of a log, which other processes may write."""

    def __init__(self, home: Home, path: Path) -> None:
        """Nothing is read yet."""
        self.key = log_key(path)
        self.resolver = build_commit_resolver(home)
        self._path = path
        self._follower: SessionFollower | None = SessionFollower(path)

    def read(self) -> Sequence[Event]:
        """Return some of the events since the last call. Raises HarkenError.

        A log of an older dialect has no checksums and does not grow: it is read once.
        """
        if self._follower is None:
            return ()
        try:
            return self._follower.read(max_events=_MAX_EVENTS)
        except InvalidLog:
            if self._follower.events.events:
                raise
            self._follower = None
            return SessionViewer(self._path).events.events

    def find_version(self) -> object:
        """Return the size of the log and the time of its last change."""
        try:
            stat = stat_log(self._path)
        except OSError:
            return None
        return stat.size_bytes, stat.modified_ns

    def is_live(self) -> bool:
        """Whether a process writes the log now."""
        return self._follower is not None and is_being_written(self._path)


class ImportedSource:
    """The events of an imported session."""

    resolver = staticmethod(placeholders)

    def __init__(self, home: Home, session: ImportedSession) -> None:
        """Nothing is read yet."""
        self.key = imported_key(session)
        self._home, self._session = home, session
        self._is_read = False

    def read(self) -> Sequence[Event]:
        """Return all events at the first call, none later. Raises HarkenError."""
        if self._is_read:
            return ()
        events = read_imported(self._home, self._session).events.events
        self._is_read = True
        return events

    def find_version(self) -> object:
        """Return None, because an import is never written, but replaced."""

    def is_live(self) -> bool:
        """Return False: only the next import adds messages."""
        return False


def log_key(path: Path) -> object:
    """Return a value that changes when a log is replaced, such as by a purge."""
    try:
        return path, path.stat().st_ino
    except FileNotFoundError:
        try:
            return path, find_packs(path)[0].stat().st_ino
        except (OSError, IndexError):
            return path, None  # It was removed, or is being compressed.


def imported_key(session: ImportedSession) -> object:
    """Return a value that changes when an import adds to a session."""
    return session.name, tuple(tip.ctx for tip in session.branch_tips)
