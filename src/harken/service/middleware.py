"""The outermost layer of the service: check access, and convert exceptions to responses.

Every error becomes a JSON response, and the process continues. No part of a request is logged,
neither its token nor its content.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harken.core import canonical
from harken.errors import StoreError
from harken.service.dependencies import ServiceLimits
from harken.service.streaming import StreamInterrupted
from harken.service.team.audit import RequestAudit
from harken.service.team.source import TeamParts
from harken.service.team.trace import RequestTrace, begin_trace
from harken.store.remote.errors import ErrorBody, Problem, RequestRefused, encode_error
from harken.store.remote.wire import JSON

FindTeam: TypeAlias = Callable[[], Awaitable[TeamParts | None]]
log = logging.getLogger("harken.service")


class Gate(Protocol):
    """Checks whether a request is allowed."""

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise RequestRefused for a request that is not allowed."""


class ErrorMiddleware:
    """The ASGI application that wraps the routes.

    find_team: returns the parts of the team of the service, or None. Then the gate is that of its
    owner.
    """

    def __init__(
        self,
        inner: ASGIApp,
        gate: Gate,
        limits: ServiceLimits,
        find_team: FindTeam | None = None,
    ) -> None:
        self.inner = inner
        self._gate, self._limits, self._find_team = gate, limits, find_team
        self._running = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended, or 0 during a request."""
        return 0.0 if self._running else time.monotonic() - self._last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        trace = begin_trace(scope)
        sender = _ResponseSender(send, scope, trace)
        self._running += 1
        try:
            parts = None if self._find_team is None else await self._find_team()
            sender.audit = None if parts is None else parts.audit
            self._check_request(scope, trace, parts)
            await self.inner(scope, receive, sender.send)
        except Exception as error:  # noqa: BLE001 - the border: no traceback, and the next is served
            await self._send_error(error, scope, sender)
        finally:
            self._running -= 1
            self._last = time.monotonic()

    def _check_request(self, scope: Scope, trace: RequestTrace, parts: TeamParts | None) -> None:
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        if parts is None:
            self._gate.check(scope["path"], headers)
        else:
            trace.team, client = parts.team, scope.get("client")
            trace.caller, trace.needs_right = parts.gate.identify(
                scope["path"], headers, client[0] if client else ""
            )
        if self._running > self._limits.requests:
            raise RequestRefused("busy", "too many requests: retry in a second")

    async def _send_error(self, error: Exception, scope: Scope, sender: _ResponseSender) -> None:
        problem = encode_error(error)
        if isinstance(error, StreamInterrupted):
            log.warning("an answer was cut off: %s", error)
            return
        if problem.code == "internal":
            last = extract_tb(error.__traceback__)[-1]
            location = f"{Path(last.filename).name}, line {last.lineno}"
            log.error(
                "a bug in Harken (%s in %s): please report it", type(error).__name__, location
            )
            log.debug("all of it", exc_info=error)
        if not sender.is_begun:
            await sender.say(problem)


class _ResponseSender:
    """Tracks whether a response has started, and records the request before it does."""

    def __init__(self, send: Send, scope: Scope, trace: RequestTrace) -> None:
        self._send, self._scope, self._trace = send, scope, trace
        self.audit: RequestAudit | None = None
        """Records the response when it starts."""
        self.is_begun = False
        self._is_replaced = False
        """Whether another response was sent, because the request could not be recorded."""

    async def send(self, message: Message) -> None:
        audit, self.audit = self.audit, None
        if audit is not None and self._trace.needs_right:
            try:
                await audit.record(self._scope, self._trace, message["status"])
            except StoreError as error:
                await self.say(encode_error(error))
                self._is_replaced = True
        self.is_begun = True
        if not self._is_replaced:
            await self._send(message)

    async def say(self, problem: Problem) -> None:
        self._trace.code = problem.code
        body = canonical.to_json_line(ErrorBody(problem))
        response_headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(body)),
        ]
        response_headers += [
            (name.encode(), text.encode()) for name, text in error_headers(problem).items()
        ]
        await self.send(
            {"type": "http.response.start", "status": problem.status, "headers": response_headers}
        )
        await self.send({"type": "http.response.body", "body": body})


def error_headers(problem: Problem) -> dict[str, str]:
    """Return the response headers for an error."""
    match problem.code:
        case "unauthorized":
            return {"www-authenticate": 'Bearer realm="harken"'}
        case "busy" | "store_locked":
            return {"retry-after": "1"}
        case _:
            return {}
