"""What was taken and is not recorded yet, as files, so that a crash loses nothing of it.

An exporter forgets what was acknowledged. So a request is on disk before it is, and goes away when
all calls in it, and in all requests before it, have been told to the recorder; what a receiver left
behind is taken again by the next.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harken.capture.otlp.span import SpanId
from harken.errors import ConfigError

_NAME = re.compile(r"(\d{1,18})\.(trace|logs)\.(json|pb)")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class SpooledRequest:
    """A request that is on disk."""

    kind: str
    """`trace` or `logs`."""
    is_json: bool
    data: bytes


class OtlpSpool:
    """A folder of requests. One process at a time."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, its owner's alone. Raises ConfigError where another one uses it."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be used ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ConfigError(f"{folder}: another receiver is at work there") from None
        self._folder = folder
        self._held: deque[tuple[Path, Collection[SpanId]]] = deque()
        self._left = sorted(_numbered(folder))
        self._next = self._left[-1][0] + 1 if self._left else 1

    def left(self) -> Iterator[SpooledRequest]:
        """Yield what was left behind, oldest first; `holds` must be told of each.

        A file that cannot be read stays where it is.
        """
        for _, path in self._left:
            matched = _NAME.fullmatch(path.name)
            with suppress(OSError):
                data = path.read_bytes()
                if matched is not None:
                    self._held.append((path, ()))
                    yield SpooledRequest(matched[2], matched[3] == "json", data)

    def keep(self, one: SpooledRequest) -> None:
        """Have a request on disk. Raises OSError: then it is not kept."""
        path = self._folder / f"{self._next}.{one.kind}.{'json' if one.is_json else 'pb'}"
        part = path.with_suffix(".part")
        self._next += 1
        try:
            with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
                file.write(one.data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
            os.fsync(self._lock)
        except OSError:
            with suppress(OSError):
                part.unlink()
            raise
        self._held.append((path, ()))

    def holds(self, ids: Collection[SpanId]) -> None:
        """Say which calls were in the request of late."""
        if self._held:
            self._held[-1] = (self._held[-1][0], frozenset(ids))

    def forget(self, is_waiting: Callable[[SpanId], bool]) -> None:
        """Remove the requests whose calls, and those before them, wait no longer."""
        while self._held and not any(map(is_waiting, self._held[0][1])):
            with suppress(OSError):
                self._held[0][0].unlink()
            self._held.popleft()

    def close(self) -> None:
        """Let others use the folder."""
        os.close(self._lock)


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.iterdir():
        matched = _NAME.fullmatch(path.name)
        if matched is not None:
            yield int(matched[1]), path
