"""`OtlpSpool`: store accepted requests as files until they are recorded.

An exporter forgets requests that were acknowledged. So a request is written to disk before the
response is sent. It is removed when all calls in it, and in all earlier requests, are in a log.
After a crash or a full disk, the next receiver processes the remaining requests.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.capture.otlp.decode import JSON, PROTOBUF, redact_request
from harken.capture.otlp.span import SpanId
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError

_NAME_PATTERN = re.compile(r"(\d{1,18})\.(trace|logs)\.(json|pb)")
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class SpooledRequest(msgspec.Struct, frozen=True):
    """A request on disk."""

    kind: str
    """`trace` or `logs`."""
    is_json: bool
    data: bytes


class OtlpSpool:
    """A folder of requests. Used by one process at a time."""

    def __init__(self, folder: Path, redact: Credentials | None = None) -> None:
        """Create the folder with private permissions.

        redact: removes credentials before a request is written. Raises ConfigError if another
        process uses the folder.
        """
        self._redact = redact
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be used ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ConfigError(f"{folder}: another receiver uses this folder") from None
        self._folder = folder
        self._stored: deque[tuple[Path, Collection[SpanId]]] = deque()
        self._unfinished = sorted(_list_numbered(folder))
        self._next = self._unfinished[-1][0] + 1 if self._unfinished else 1

    def iter_unfinished(self) -> Iterator[SpooledRequest]:
        """Yield the requests of an earlier process, oldest first. Call `set_last_ids` after each.

        A file that cannot be read stays in the folder.
        """
        for _, path in self._unfinished:
            match = _NAME_PATTERN.fullmatch(path.name)
            with suppress(OSError):
                data = path.read_bytes()
                if match is not None:
                    self._stored.append((path, ()))
                    yield SpooledRequest(match[2], match[3] == "json", data)

    def write(self, request: SpooledRequest) -> None:
        """Write a request to disk. Raises OSError if it was not written."""
        data = request.data
        if self._redact is not None:
            content_type = JSON if request.is_json else PROTOBUF
            data = redact_request(request.kind, data, content_type, self._redact)
        path = self._folder / f"{self._next}.{request.kind}.{'json' if request.is_json else 'pb'}"
        part = path.with_suffix(".part")
        self._next += 1
        try:
            with os.fdopen(os.open(part, _CREATE_FLAGS, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
            os.fsync(self._lock)
        except OSError:
            with suppress(OSError):
                part.unlink()
            raise
        self._stored.append((path, ()))

    def set_last_ids(self, ids: Collection[SpanId]) -> None:
        """Set the call ids of the last request."""
        if self._stored:
            self._stored[-1] = (self._stored[-1][0], frozenset(ids))

    def remove_finished(self, is_waiting: Callable[[SpanId], bool]) -> None:
        """Remove the oldest requests as long as none of their calls is waiting."""
        while self._stored and not any(map(is_waiting, self._stored[0][1])):
            with suppress(OSError):
                self._stored[0][0].unlink()
            self._stored.popleft()

    def close(self) -> None:
        """Release the lock of the folder."""
        os.close(self._lock)


def _list_numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.iterdir():
        match = _NAME_PATTERN.fullmatch(path.name)
        if match is not None:
            yield int(match[1]), path
