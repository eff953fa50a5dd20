"""`RunFiles`: find the session files of one run of a client, and import them as commits.

A client writes more to its session file than to its output, and it resumes from the file. So the
file is the better source, and importing it later results in the same commits: there is one history,
not two.

The files of a run are recognized by their modification time and their beginning: it contains the id
of the session (also in files of its subagents), or else the folder in which the client works.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from harken.capture.files.change_scanner import ChangeScanner
from harken.capture.files.follower import FileFollower, ImportedChange
from harken.formats.runtimes.compressed import read_beginning
from harken.formats.runtimes.registry import CHECKED_BYTES

MIN_SWEEP_INTERVAL_S, MAX_SWEEP_INTERVAL_S = 0.2, 10.0
"""The pause before the second full scan. It doubles after each scan, up to `SELDOM_S`."""
_HASHED_RUNTIMES = frozenset({"gemini"})
"""Runtimes that name a folder by its hash."""
_SHARED_FILE_RUNTIMES = frozenset({"opencode"})
"""Runtimes that store all sessions in one file."""
_MIN_ID_CHARS = 8


class RunFiles:
    """The session files of a run."""

    def __init__(
        self, follower: FileFollower, sight: ChangeScanner, mentions: Iterable[bytes]
    ) -> None:
        """Follow the files that `sight` reports as changed.

        mentions: a file of the run contains one of these at its beginning.
        """
        self._follower, self._sight = follower, sight
        self._mentions = tuple(mentions)
        self._unassigned: set[Path] = set()
        """Changed files that are not assigned to the run yet."""
        self._run_files: set[Path] = set()
        self._last_sweep_s, self._pause_s = float("-inf"), MIN_SWEEP_INTERVAL_S

    @property
    def is_found(self) -> bool:
        """Whether a file of the run was found."""
        return bool(self._run_files)

    def set_session(self, session: str) -> None:
        """Set the client's session id, which identifies its files from now on."""
        if len(session) >= _MIN_ID_CHARS:
            self._mentions = (session.encode("utf-8", "replace"),)

    def import_new(
        self, *, at_once: bool = False, to_the_end: bool = False
    ) -> list[ImportedChange]:
        """Import new content. See `FileFollower.read`. Raises StoreError."""
        self._find_changed(everything=to_the_end)
        return [*self._follower.read(at_once=at_once, to_the_end=to_the_end)]

    def _find_changed(self, *, everything: bool = False) -> None:
        """Find changed files of the run."""
        now = self._follower.clock()
        if everything or now - self._last_sweep_s >= self._pause_s:
            self._unassigned.update(self._sight.scan_all())
            self._last_sweep_s, self._pause_s = now, min(2 * self._pause_s, MAX_SWEEP_INTERVAL_S)
        else:
            self._unassigned.update(self._sight.scan_recent())
        run_files = {
            path for path in self._unassigned if path in self._run_files or self._is_run_file(path)
        }
        self._unassigned -= run_files
        self._run_files |= run_files
        self._follower.note_changed(sorted(run_files))

    def _is_run_file(self, path: Path) -> bool:
        if b"" in self._mentions:
            return True
        try:
            beginning = read_beginning(path, CHECKED_BYTES)
        except OSError:
            return False
        path_bytes = str(path).encode("utf-8", "surrogateescape")
        return any(mention in beginning or mention in path_bytes for mention in self._mentions)


def build_mentions(runtime: str, folder: Path) -> list[bytes]:
    """Return the texts of which a session file of this folder contains one at its beginning."""
    if runtime in _SHARED_FILE_RUNTIMES:
        return [b""]
    mentions = []
    for candidate_folder in dict.fromkeys((folder.absolute(), folder.resolve())):
        name = str(candidate_folder)
        if runtime in _HASHED_RUNTIMES:
            mentions.append(hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest())
        else:
            mentions += [json.dumps(name), json.dumps(name, ensure_ascii=False)]
    return [text.encode("utf-8", "surrogateescape") for text in mentions]
