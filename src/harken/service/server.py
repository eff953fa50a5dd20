"""The server: uvicorn with timeouts for idle connections and a graceful shutdown.

On SIGTERM or Ctrl-C it stops accepting requests, finishes the running ones, and returns.
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
from harken.service.sockets import TlsFiles

_KEEP_ALIVE_S = 30
"""Keep-alive timeout in seconds. Clients close idle connections earlier."""
_CHECKS_PER_TIMEOUT = 20
"""Number of checks of a connection within the idle timeout."""
_SHUTDOWN_TIMEOUT_S = 45
"""Maximum time for running requests at shutdown; waiting for a locked store takes up to 30 s."""


def serve(
    app: ErrorMiddleware,
    listeners: Sequence[socket.socket],
    *,
    limits: ServiceLimits | None = None,
    idle_s: float | None = None,
    tls: TlsFiles | None = None,
) -> None:
    """Serve until a signal arrives, or until there was no request for `idle_s` seconds."""
    _Server(
        app,
        limits or ServiceLimits(),
        ends=lambda: idle_s is not None and app.idle_s >= idle_s,
        tls=tls,
    ).run(sockets=list(listeners))


def serve_streams(
    app: ASGIApp,
    listeners: Sequence[socket.socket],
    *,
    limits: ServiceLimits,
    end_streams: Callable[[], None],
) -> None:
    """Serve until a signal arrives. `end_streams` then ends the responses that have no end."""
    _Server(app, limits, on_shutdown=end_streams).run(sockets=list(listeners))


@contextmanager
def serve_in_thread(
    app: ASGIApp,
    listeners: Sequence[socket.socket],
    *,
    limits: ServiceLimits | None = None,
    end_streams: Callable[[], None] = lambda: None,
    tls: TlsFiles | None = None,
) -> Iterator[None]:
    """Serve in a background thread until the end of the block."""
    server = _Server(app, limits or ServiceLimits(), on_shutdown=end_streams, tls=tls)
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
    """A uvicorn server with a condition to stop, and its own signal handling."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ServiceLimits,
        ends: Callable[[], bool] = lambda: False,
        on_shutdown: Callable[[], None] = lambda: None,
        *,
        tls: TlsFiles | None = None,
    ) -> None:
        super().__init__(_build_config(app, limits, tls))
        self._should_end, self._on_shutdown = ends, on_shutdown

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        return self._should_end() or await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop the server; unlike uvicorn, do not raise them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        stop_signals = (signal.SIGINT, signal.SIGTERM)
        previous = {
            stop_signal: signal.signal(stop_signal, self.handle_exit)
            for stop_signal in stop_signals
        }
        try:
            yield
        finally:
            for stop_signal, handler in previous.items():
                signal.signal(stop_signal, handler)


def _build_config(app: ASGIApp, limits: ServiceLimits, tls: TlsFiles | None) -> uvicorn.Config:
    class _Protocol(_TimeoutProtocol):
        max_connections = limits.connections
        silence_s = limits.silence_s

    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        workers=1,  # Both are set here, so that uvicorn does not read them from the environment.
        forwarded_allow_ips=[],
        proxy_headers=False,
        server_header=False,
        ssl_certfile=None if tls is None else str(tls.certificate),
        ssl_keyfile=None if tls is None else str(tls.key),
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )


class _TimeoutProtocol(H11Protocol):
    """An HTTP/1.1 connection that is aborted if it makes no progress for too long.

    uvicorn has no timeout for an incomplete request head, nor for a client that does not read.
    """

    max_connections: int
    silence_s: float
    _last_state: tuple[object, ...] = ()
    _changed_s = 0.0
    """Time of the last progress, by the clock of the event loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
            return
        self._last_state, self._changed_s = self._state(), self.loop.time()
        self._check_progress()

    def _check_progress(self) -> None:
        """Abort the connection if it made no progress for `silence_s`, otherwise check again later.

        Bytes of an incomplete request head do not count as progress.
        """
        if self not in self.connections:
            return
        state = self._state()
        if state != self._last_state or self._is_processing():
            self._last_state, self._changed_s = state, self.loop.time()
        elif self.loop.time() - self._changed_s >= self.silence_s:
            self.transport.abort()
            return
        self.loop.call_later(self.silence_s / _CHECKS_PER_TIMEOUT, self._check_progress)

    def _state(self) -> tuple[object, ...]:
        """Return values that change when the connection makes progress."""
        cycle: Any = self.cycle
        is_complete = cycle is not None and cycle.response_complete
        unsent_bytes = self.transport.get_write_buffer_size()
        return cycle, is_complete, self.transport.is_closing(), unsent_bytes

    def _is_processing(self) -> bool:
        """Whether the service is processing a request, so that the client is not idle."""
        cycle: Any = self.cycle
        is_writing = self.transport.get_write_buffer_size() > 0
        return cycle is not None and not cycle.response_complete and not is_writing
