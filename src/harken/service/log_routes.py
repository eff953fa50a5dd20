"""Session logs over HTTP: list logs, read and append lines.

Source: docs/formats/service.md, "Logs".

`Logs` is the folder of received logs, with a lock for each log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Annotated, TypeAlias, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from harken.errors import CredentialInLog, LogNotFound
from harken.service.body import Json, RawBody
from harken.service.dependencies import WRITE_DEPENDENCIES, PageLimit, Sender
from harken.service.openapi import operation
from harken.service.team.trace import trace_of
from harken.session.log import receive as received
from harken.session.log.credential_check import check_credentials
from harken.session.log.listing import stat_logs
from harken.session.log.receive import LogEnd
from harken.store.remote import wire
from harken.store.remote.errors import RequestRefused
from harken.store.remote.paging import cut_mapping
from harken.teams.caller import USER_SEPARATOR

_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_LOCK_COUNT = 64
_BATCH_BYTES = 4 * 1024 * 1024
"""A response with lines ends at the first complete group after this size."""


class Logs:
    """The received logs in a folder. With None, all requests are rejected."""

    def __init__(
        self, folder: Path | None, *, refuses_credentials: bool = False, prefix: str = ""
    ) -> None:
        self._folder, self._refuses_credentials = folder, refuses_credentials
        self._prefix = prefix
        self._locks = [Lock() for _ in range(_LOCK_COUNT)]
        """A cancelled request may still be running when it is repeated.

        The repeated request waits for it, but not for other programs that write the log.
        """

    def of_user(self, user: str) -> Logs:
        """Return the logs of a user: names of other users' logs are other files.

        The separator is in no name of a user, so no name of a log reaches those of another user.
        """
        logs = Logs(
            self._folder,
            refuses_credentials=self._refuses_credentials,
            prefix=user + USER_SEPARATOR,
        )
        logs._locks = self._locks
        return logs

    def list_logs(self, after: str, limit: int) -> wire.LogList:
        """Return the logs whose names follow `after`, sorted, at most `limit`.

        Each user has the logs that this user sent, and the owner all others. Raises RequestRefused.
        """
        logs = {
            path.stem.rpartition(USER_SEPARATOR): stat
            for path, stat in stat_logs(self._require_folder()).items()
        }
        names = {
            name: stat
            for (user, separator, name), stat in logs.items()
            if user + separator == self._prefix
        }
        page = cut_mapping(names, after, limit)
        listed_logs = [
            wire.ListedLog(name, stat.size_bytes, stat.modified_ns)
            for name, stat in page.rows.items()
        ]
        return wire.LogList(listed_logs, page.next)

    def end(self, name: str, limit_bytes: int | None = None) -> LogEnd:
        """Return the end of a log, or of its first bytes. Raises RequestRefused, InvalidLog."""
        return received.read_log_end(self._path(name), limit_bytes)

    def lines(self, name: str, start: int, stop: int) -> bytes:
        """Return complete lines between two offsets. Raises RequestRefused, LogError."""
        path = self._path(name)
        try:
            return received.read_lines(path, start, stop, batch_bytes=_BATCH_BYTES)
        except LogNotFound:
            raise RequestRefused("unknown_name", "this service has no such log") from None

    def receive(self, name: str, at: int, lines: bytes) -> LogEnd:
        """Append lines to a log.

        Raises RequestRefused, and as `session.log.receive.receive_lines`.
        """
        path = self._path(name)
        if self._refuses_credentials:
            try:
                check_credentials(path, lines)
            except CredentialInLog as error:
                where = "the name" if error.is_in_name else "a line"
                reason = f"{where} has a credential ({error.kind})"
                raise RequestRefused("invalid", reason) from None
        with self._locks[hash(name) % _LOCK_COUNT]:
            return received.receive_lines(path, at, lines)

    def _path(self, name: str) -> Path:
        folder = self._require_folder()
        if not _NAME_PATTERN.fullmatch(name):
            raise ValueError("the name of a log has letters, digits, '.', '_' and '-' only")
        return folder / f"{self._prefix}{name}.jsonl"

    def _require_folder(self) -> Path:
        if self._folder is None:
            raise RequestRefused("not_found", "this service stores no logs")
        return self._folder


routes = APIRouter(prefix="/v1/logs", tags=["logs"])
Offset: TypeAlias = Annotated[int, Query(alias="from", ge=0, le=2**53)]

Stop: TypeAlias = Annotated[int, Query(alias="to", ge=0, le=2**53)]
Limit: TypeAlias = Annotated[int | None, Query(alias="to", ge=0, le=2**53)]
LogName: TypeAlias = Annotated[str, Query(max_length=1000)]


async def logs_of(request: Request, caller: Sender) -> Logs:
    """Return the logs of the service, or those of the user who sent the request."""
    logs = cast(Logs, request.app.state.logs)
    return logs if caller.is_owner else logs.of_user(caller.user)


async def charge_of(request: Request, caller: Sender) -> Callable[[int], None]:
    """Return a function that counts bytes for the quota of the sender."""
    team = trace_of(request.scope).team
    return (lambda _: None) if team is None else lambda size: team.charge(caller, size)


Charge = Annotated[Callable[[int], None], Depends(charge_of)]
ReceivedLogs = Annotated[Logs, Depends(logs_of)]


@routes.get("", **operation(wire.LogList, names=True))
def list_logs(logs: ReceivedLogs, after: LogName = "", limit: PageLimit = wire.MAX_NAMES) -> Json:
    """List the logs whose names follow `after`, sorted by name."""
    return Json(logs.list_logs(after, limit))


@routes.get("/{name}", **operation(wire.LogEndBody, names=True))
def end(logs: ReceivedLogs, name: str, limit: Limit = None) -> Json:
    """Return the end of the log of a session, of size 0 if there is no log.

    `to`: the end of these first bytes of the log.
    """
    return _build_response(logs.end(name, limit))


@routes.get("/{name}/lines", **operation(names=True))
def lines(logs: ReceivedLogs, name: str, start: Offset, stop: Stop) -> Response:
    """Return complete lines of a log between two offsets, the first few megabytes of them.

    Lines that belong together are not separated, and left out if the last one is missing.
    """
    return Response(logs.lines(name, start, stop), media_type=wire.BYTES)


@routes.post(
    "/{name}",
    **operation(wire.LogEndBody, names=True, takes_bytes=True),
    dependencies=WRITE_DEPENDENCIES,
)
def append(logs: ReceivedLogs, charge: Charge, name: str, at: Offset, lines: RawBody) -> Json:
    """Append complete lines after the first `from` bytes.

    They are durable when the response arrives. Existing equal lines are skipped. Different lines
    at their position are refused.
    """
    charge(len(lines))
    return _build_response(logs.receive(name, at, lines))


def _build_response(log_end: LogEnd) -> Json:
    return Json(wire.LogEndBody(log_end.size_bytes, log_end.last_sum.decode("ascii", "replace")))
