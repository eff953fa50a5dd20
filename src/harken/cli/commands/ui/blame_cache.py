"""`BlameCache`: the lines of files with their agents, as long as nothing changes them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harken.attribution.answers.blamed_lines import BlamedFileLine
from harken.attribution.shares import Share
from harken.cli.commands.ui.code_files import CodeVersion
from harken.service.viewer.code_library import Tell

_MAX_LINES = 400_000
"""The number of lines of all files after which the least used ones are forgotten."""
_MAX_SHARES = 100_000
_WAIT_S = 0.1


class BlameCache:
    """Used by several threads at a time. A file is attributed by one of them, others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: OrderedDict[CodeVersion, Sequence[BlamedFileLine]] = OrderedDict()
        self._shares: OrderedDict[CodeVersion, Share] = OrderedDict()
        self._running: dict[CodeVersion, threading.Lock] = {}

    def find_lines(
        self, version: CodeVersion, tell: Tell, compute: Callable[[], Sequence[BlamedFileLine]]
    ) -> Sequence[BlamedFileLine]:
        """Return the lines of a file, computed if they are not known."""
        with self._alone(version, tell):
            with self._lock:
                known_lines = self._lines.get(version)
                if known_lines is not None:
                    self._lines.move_to_end(version)
                    return known_lines
            lines = compute()
            with self._lock:
                self._lines[version] = lines
                while len(self._lines) > 1 and sum(map(len, self._lines.values())) > _MAX_LINES:
                    self._lines.popitem(last=False)
            return lines

    def find_share(self, version: CodeVersion, compute: Callable[[], Share]) -> Share:
        """Return the share of agents in a file, computed if it is not known."""
        with self._lock:
            share = self._shares.get(version)
        if share is None:
            share = compute()
            with self._lock:
                self._shares[version] = share
                if len(self._shares) > _MAX_SHARES:
                    self._shares.popitem(last=False)
        return share

    @contextmanager
    def _alone(self, version: CodeVersion, tell: Tell) -> Iterator[None]:
        """Wait until no other thread attributes the file. `tell` ends the waiting."""
        with self._lock:
            running = self._running.setdefault(version, threading.Lock())
        while not running.acquire(timeout=_WAIT_S):
            tell(0, 0)
        try:
            yield
        finally:
            running.release()
            with self._lock:
                if not running.locked():
                    self._running.pop(version, None)
