"""Logs over HTTP: how much of one is there, and lines that come after it.

Source: docs/formats/service.md, "Logs".

The folder of logs that come from elsewhere, and who adds to them: one at a time for each log.
"""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock
from typing import Annotated, TypeAlias, cast

from fastapi import APIRouter, Depends, Query, Request

from harken.service.body import Json, Sent
from harken.service.dependencies import CHANGES
from harken.service.openapi import operation
from harken.session.log import receive as received
from harken.session.log.receive import LogEnd
from harken.store.remote import wire
from harken.store.remote.errors import RequestRefused

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


_LOCKS = 64


class Logs:
    """The logs of sessions in a folder; None: there is none, and no log is taken."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._locks = [Lock() for _ in range(_LOCKS)]
        """A request that was cut off may still be running when it is asked again: it is waited for,
        while other programs that write a log are not."""

    def end(self, name: str) -> LogEnd:
        """Return how far a log goes. Raises Refused, InvalidLog."""
        return received.end_of(self._path(name))

    def receive(self, name: str, at: int, lines: bytes) -> LogEnd:
        """Add lines to a log. Raises Refused, and as `session.received.receive`."""
        path = self._path(name)
        with self._locks[hash(name) % _LOCKS]:
            return received.receive(path, at, lines)

    def _path(self, name: str) -> Path:
        if self._folder is None:
            raise RequestRefused("not_found", "this service keeps no logs")
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a log has letters, digits, '.', '_' and '-' only")
        return self._folder / f"{name}.jsonl"


routes = APIRouter(prefix="/v1/logs", tags=["logs"])
Offset: TypeAlias = Annotated[int, Query(alias="from", ge=0, le=2**53)]


async def logs_of(request: Request) -> Logs:
    """Return the logs of the service."""
    return cast(Logs, request.app.state.logs)


Kept = Annotated[Logs, Depends(logs_of)]


@routes.get("/{name}", **operation(wire.LogEndBody, names=True))
def end(logs: Kept, name: str) -> Json:
    """Say how much is there of the log of a session; nothing, where there is none."""
    return _told(logs.end(name))


@routes.post(
    "/{name}", **operation(wire.LogEndBody, names=True, takes_bytes=True), dependencies=CHANGES
)
def append(logs: Kept, name: str, at: Offset, given: Sent) -> Json:
    """Add whole lines after the first `from` bytes; once answered they are durable.

    Lines that are there already are not added again; others in their place are refused.
    """
    return _told(logs.receive(name, at, given))


def _told(found: LogEnd) -> Json:
    return Json(wire.LogEndBody(found.size_bytes, found.last_sum.decode("ascii", "replace")))
