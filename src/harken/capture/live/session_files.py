"""`RunFiles`: the files that one run of a client writes, and the commits that they become.

One idea: a client writes down more than it says, and what it writes is what it resumes from. So its
own file is the better witness, and what is made of it is what importing it later would make: there
is one history, not two.

Which files a run writes is seen by when they were written, and by what stands at their beginning:
the id of the session (in those of its subagents, too), else the folder in which the client works.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from harken.capture.files.change_scanner import ChangeScanner
from harken.capture.files.follower import FileFollower, ImportedChange
from harken.formats.runtimes.compressed import beginning_of
from harken.formats.runtimes.registry import LOOKED_AT_BYTES

FIRST_S, SELDOM_S = 0.2, 10.0
"""So soon all files are looked at for the second time; then each time later, up to so seldom."""
_HASHED = frozenset({"gemini"})
"""Who names a folder by its hash."""
_UNNAMED = frozenset({"opencode"})
"""Who has all sessions in one file."""
_SHORTEST_ID = 8


class RunFiles:
    """The files of a run."""

    def __init__(
        self, follower: FileFollower, sight: ChangeScanner, mentions: Iterable[bytes]
    ) -> None:
        """Follow what `sight` sees to have changed since its last look.

        mentions: one of these stands at the beginning of a file of the run.
        """
        self._follower, self._sight = follower, sight
        self._mentions = tuple(mentions)
        self._waiting: set[Path] = set()
        """Files of which it is not known yet whose they are."""
        self._ours: set[Path] = set()
        self._swept_s, self._pause_s = float("-inf"), FIRST_S

    @property
    def is_found(self) -> bool:
        """Whether a file of the run was seen."""
        return bool(self._ours)

    def name(self, session: str) -> None:
        """Say how the client calls the session: by that its files are known from now on."""
        if len(session) >= _SHORTEST_ID:
            self._mentions = (session.encode("utf-8", "replace"),)

    def look(self, *, at_once: bool = False, to_the_end: bool = False) -> list[ImportedChange]:
        """Import what is new; see `Follower.read`. Raises StoreError."""
        self._see(everything=to_the_end)
        return [*self._follower.read(at_once=at_once, to_the_end=to_the_end)]

    def _see(self, *, everything: bool = False) -> None:
        """See which files have changed."""
        now = self._follower.clock()
        if everything or now - self._swept_s >= self._pause_s:
            self._waiting.update(self._sight.sweep())
            self._swept_s, self._pause_s = now, min(2 * self._pause_s, SELDOM_S)
        else:
            self._waiting.update(self._sight.glance())
        found = {path for path in self._waiting if path in self._ours or self._is_ours(path)}
        self._waiting -= found
        self._ours |= found
        self._follower.note(sorted(found))

    def _is_ours(self, path: Path) -> bool:
        if b"" in self._mentions:
            return True
        try:
            beginning = beginning_of(path, LOOKED_AT_BYTES)
        except OSError:
            return False
        where = str(path).encode("utf-8", "surrogateescape")
        return any(one in beginning or one in where for one in self._mentions)


def mentions_of(runtime: str, folder: Path) -> list[bytes]:
    """Return what stands at the beginning of files of sessions in a folder: one of these."""
    if runtime in _UNNAMED:
        return [b""]
    found = []
    for one in dict.fromkeys((folder.absolute(), folder.resolve())):
        name = str(one)
        if runtime in _HASHED:
            found.append(hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest())
        else:
            found += [json.dumps(name), json.dumps(name, ensure_ascii=False)]
    return [one.encode("utf-8", "surrogateescape") for one in found]
