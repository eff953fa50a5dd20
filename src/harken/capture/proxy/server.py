"""Run the HTTP server of the proxy in a separate thread, on a given socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import msgspec
from aiohttp import web

from harken.capture.proxy.forward import (
    MAX_HEADER_BYTES,
    Forwarder,
    new_session,
    strip_added_headers,
)
from harken.capture.proxy.tap import ProxyTap
from harken.capture.proxy.upstreams import Upstreams

_BACKLOG = 512


class ProxyServer(msgspec.Struct):
    """A running server."""

    _forwarders: list[Forwarder] = msgspec.field(default_factory=list)

    @property
    def open(self) -> int:
        """The number of active requests."""
        return sum(forwarder.open for forwarder in self._forwarders)

    @property
    def idle_s(self) -> float:
        """The time since the last request ended. 0 while a request is active."""
        if self.open or not self._forwarders:
            return 0.0
        return time.monotonic() - self._forwarders[0].last_active_s


@contextmanager
def serve_proxy(
    listener: socket.socket, upstreams: Upstreams, notes: ProxyTap
) -> Iterator[ProxyServer]:
    """Serve until the end of the block. Active requests are then aborted."""
    server, ready = ProxyServer(), Event()
    failure: list[BaseException] = []
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with new_session() as session:
            forwarder = Forwarder(upstreams, session, notes)
            runner = web.AppRunner(
                _make_app(forwarder),
                access_log=None,
                auto_decompress=False,
                handle_signals=False,
                handler_cancellation=True,
                max_field_size=MAX_HEADER_BYTES,
                max_line_size=MAX_HEADER_BYTES,
                shutdown_timeout=0.05,
            )
            await runner.setup()
            await web.SockSite(runner, listener, backlog=_BACKLOG).start()
            server._forwarders.append(forwarder)  # noqa: SLF001 - it is set up here
            stop.append(lambda: loop.call_soon_threadsafe(stopped.set))
            ready.set()
            await stopped.wait()
            forwarder.is_ending = True
            await runner.cleanup()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - it is raised in the starting thread
            failure.append(error)
        finally:
            ready.set()

    thread = Thread(target=run, name="proxy", daemon=True)
    thread.start()
    ready.wait()
    try:
        if failure:
            raise failure[0]
        yield server
    finally:
        for stop_server in stop:
            stop_server()
        thread.join()


def _make_app(forwarder: Forwarder) -> web.Application:
    app = web.Application()
    app.on_response_prepare.append(strip_added_headers)
    app.router.add_route("*", "/{path:.*}", forwarder.handle)
    return app
