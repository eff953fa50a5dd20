"""Write the audit record of a request, before its response is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread

from harken.core.clock import format_rfc3339
from harken.service.team.trace import RequestTrace
from harken.teams.audit import AuditRecord

if TYPE_CHECKING:
    from harken.teams.team import Team

_MAX_NAMES = 20
_MAX_FAILURES = 100
"""Unauthorized requests that are recorded in a minute. Others are counted."""
_MINUTE_US = 60_000_000


class RequestAudit:
    """The audit of all requests of a service.

    A record of a change is on disk before the response. Nothing of a request is recorded but its
    route and the names of commits: a path, too, may contain a secret.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self._minute = self._failures = self._omitted = 0

    async def record(self, scope: Any, trace: RequestTrace, status: int) -> None:
        """Record a request. Raises StoreWriteError."""
        if trace.caller is None and not self._has_room():
            return
        record = self._build_record(scope, trace, status)
        if trace.right == "read":
            self._team.audit.append(record, is_synced=False)
        else:
            await anyio.to_thread.run_sync(self._team.audit.append, record)

    def _build_record(self, scope: Any, trace: RequestTrace, status: int) -> AuditRecord:
        route, client, caller = scope.get("route"), scope.get("client"), trace.caller
        template = route.path if route is not None else "(no route)"
        names = [*dict.fromkeys(trace.touched)]
        return AuditRecord(
            time=format_rfc3339(self._team.clock()),
            user="" if caller is None else caller.user,
            token="" if caller is None else caller.token,
            remote=client[0] if client else "",
            action=f"{scope['method']} {template}",
            status=status,
            code=trace.code,
            right=trace.right,
            names=tuple(names[:_MAX_NAMES]),
            count=len(names),
            size_bytes=trace.size_bytes,
        )

    def _has_room(self) -> bool:
        """Whether another unauthorized request is recorded: they must not fill the disk."""
        minute = self._team.clock() // _MINUTE_US
        if minute != self._minute:
            if self._omitted:
                time = format_rfc3339(self._team.clock())
                action = "unauthorized requests that were not recorded"
                omitted = AuditRecord(time=time, action=action, count=self._omitted)
                self._team.audit.append(omitted, is_synced=False)
            self._minute, self._failures, self._omitted = minute, 0, 0
        self._failures += 1
        self._omitted += self._failures > _MAX_FAILURES
        return self._failures <= _MAX_FAILURES
