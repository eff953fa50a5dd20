"""The server: uvicorn around the application, which waits for nobody for ever and ends well.

On SIGTERM or Ctrl-C it takes no new requests, answers those that are running, and returns.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from harken.service.dependencies import ServiceLimits
from harken.service.middleware import ErrorMiddleware

_KEPT_S = 30
"""How long a connection that does nothing is kept: clients let go of theirs before."""
_LOOKS = 20
"""How often a connection is looked at within the time of silence that is allowed."""
_LAST_S = 45
"""How long those that are running may take in the end: a locked store is waited for 30 s."""


def serve(
    app: ErrorMiddleware,
    listeners: Sequence[socket.socket],
    *,
    limits: ServiceLimits | None = None,
    idle_s: float | None = None,
) -> None:
    """Serve until a signal comes, or until nobody has asked for anything for `idle_s`."""
    _Server(
        app, limits or ServiceLimits(), ends=lambda: idle_s is not None and app.idle_s >= idle_s
    ).run(sockets=list(listeners))


@contextmanager
def serving(
    app: ASGIApp, listeners: Sequence[socket.socket], *, limits: ServiceLimits | None = None
) -> Iterator[None]:
    """Serve in a thread, to the end of the block."""
    server = _Server(app, limits or ServiceLimits())
    thread = threading.Thread(target=server.run, args=(list(listeners),), name="harken-service")
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        thread.join()


class _Server(uvicorn.Server):
    """A server that ends by itself, and whose signals end with it."""

    def __init__(
        self, app: ASGIApp, limits: ServiceLimits, ends: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(_config(app, limits))
        self._ends = ends

    async def on_tick(self, counter: int) -> bool:
        return self._ends() or await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end the server; unlike uvicorn's, raise none of them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        ends = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in ends}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _config(app: ASGIApp, limits: ServiceLimits) -> uvicorn.Config:
    class Patience(_Patience):
        most = limits.connections
        silence_s = limits.silence_s

    return uvicorn.Config(
        app,
        http=Patience,
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        workers=1,  # said here, neither is looked for in the environment
        forwarded_allow_ips=[],
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=_LAST_S,
    )


class _Patience(H11Protocol):
    """A connection that is cut off when nothing has come of it for too long.

    uvicorn waits for ever for the rest of a request's head, and for a reader to take its answer.
    """

    most: int
    silence_s: float
    _seen: tuple[object, ...] = ()
    _changed_s = 0.0
    """When the connection last made progress, by the clock of the event loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
            return
        self._seen, self._changed_s = self._state(), self.loop.time()
        self._look()

    def _look(self) -> None:
        """Abort the connection if it made no progress for `silence_s`, else look again soon.

        Bytes of a head that is not complete are no progress, however slowly they come.
        """
        if self not in self.connections:
            return
        seen = self._state()
        if seen != self._seen or self._works():
            self._seen, self._changed_s = seen, self.loop.time()
        elif self.loop.time() - self._changed_s >= self.silence_s:
            self.transport.abort()
            return
        self.loop.call_later(self.silence_s / _LOOKS, self._look)

    def _state(self) -> tuple[object, ...]:
        """Return what changes when the connection makes progress."""
        cycle: Any = self.cycle
        is_complete = cycle is not None and cycle.response_complete
        unsent_bytes = self.transport.get_write_buffer_size()
        return cycle, is_complete, self.transport.is_closing(), unsent_bytes

    def _works(self) -> bool:
        """Whether the service is at work for it: then silence is not the client's."""
        cycle: Any = self.cycle
        is_writing = self.transport.get_write_buffer_size() > 0
        return cycle is not None and not cycle.response_complete and not is_writing
