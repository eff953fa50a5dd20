"""The border of the service: who is refused before anything is read, and what becomes of a bug.

One idea: whatever happens, the caller gets one JSON line and the process goes on. Nothing of a
request is written anywhere: neither its token nor its content is in any log.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from traceback import extract_tb

from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from harken.core import canonical
from harken.service.access import AccessCheck
from harken.service.dependencies import ServiceLimits
from harken.service.streaming import StreamInterrupted
from harken.store.remote.errors import ErrorBody, Problem, RequestRefused, problem_of
from harken.store.remote.wire import JSON

log = logging.getLogger("harken.service")


class ErrorMiddleware:
    """The ASGI application around the routes."""

    def __init__(self, inner: FastAPI, gate: AccessCheck, limits: ServiceLimits) -> None:
        self.inner = inner
        self._gate, self._limits = gate, limits
        self._running = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """For how long nobody has asked for anything."""
        return 0.0 if self._running else time.monotonic() - self._last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        answer = _Answer(send)
        self._running += 1
        try:
            self._check(scope)
            await self.inner(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001 - the border: no traceback, and the next is served
            await self._failed(error, scope, answer)
        finally:
            self._running -= 1
            self._last = time.monotonic()

    def _check(self, scope: Scope) -> None:
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        self._gate.check(scope["path"], headers)
        if self._running > self._limits.requests:
            raise RequestRefused("busy", "too much is asked at once: ask again in a second")

    async def _failed(self, error: Exception, scope: Scope, answer: _Answer) -> None:
        problem = problem_of(error)
        if isinstance(error, StreamInterrupted):
            log.warning("an answer was cut off: %s", error)
            return
        if problem.code == "internal":
            last = extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            log.error("a bug in Harken (%s in %s): please report it", type(error).__name__, where)
            log.debug("all of it", exc_info=error)
        if not answer.is_begun:
            await answer.say(problem)


class _Answer:
    """What was sent of one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = False

    async def send(self, message: Message) -> None:
        self.is_begun = True
        await self._send(message)

    async def say(self, problem: Problem) -> None:
        body = canonical.to_json_line(ErrorBody(problem))
        headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        headers += [(name.encode(), text.encode()) for name, text in hints(problem).items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status, "headers": headers}
        )
        await self.send({"type": "http.response.body", "body": body})


def hints(problem: Problem) -> dict[str, str]:
    """Return the headers that tell a client what it may do."""
    match problem.code:
        case "unauthorized":
            return {"www-authenticate": 'Bearer realm="harken"'}
        case "busy" | "store_locked":
            return {"retry-after": "1"}
        case _:
            return {}
