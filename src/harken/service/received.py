"""The folder of logs that come from elsewhere, and who adds to them: one at a time for each log."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

from harken.session import received
from harken.session.received import End
from harken.store.remote.failures import Refused

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_LOCKS = 64


class Logs:
    """The logs of sessions in a folder; None: there is none, and no log is taken."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._locks = [Lock() for _ in range(_LOCKS)]
        """A request that was cut off may still be running when it is asked again: it is waited for,
        while other programs that write a log are not."""

    def end(self, name: str) -> End:
        """Return how far a log goes. Raises Refused, NotALog."""
        return received.end_of(self._path(name))

    def receive(self, name: str, at: int, lines: bytes) -> End:
        """Add lines to a log. Raises Refused, and as `session.received.receive`."""
        path = self._path(name)
        with self._locks[hash(name) % _LOCKS]:
            return received.receive(path, at, lines)

    def _path(self, name: str) -> Path:
        if self._folder is None:
            raise Refused("not_found", "this service keeps no logs")
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a log has letters, digits, '.', '_' and '-' only")
        return self._folder / f"{name}.jsonl"
