"""The server of the proxy, in a thread of its own, on a socket that it is given."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from aiohttp import web

from harken.capture.proxy.forward import MOST_HEADER_BYTES, Forwarder, new_session, strip
from harken.capture.proxy.tap import ProxyTap
from harken.capture.proxy.upstreams import Upstreams

_BACKLOG = 512


@dataclass(slots=True)
class ProxyServer:
    """A server that runs."""

    _passing: list[Forwarder] = field(default_factory=list)

    @property
    def open(self) -> int:
        """How many requests are under way."""
        return sum(one.open for one in self._passing)

    @property
    def idle_s(self) -> float:
        """How long nobody has asked for anything, or is being answered."""
        if self.open or not self._passing:
            return 0.0
        return time.monotonic() - self._passing[0].touched_s


@contextmanager
def serving(
    listener: socket.socket, upstreams: Upstreams, notes: ProxyTap
) -> Iterator[ProxyServer]:
    """Serve until the end of the block. Requests that are under way then are cut off."""
    server, ready = ProxyServer(), Event()
    failure: list[BaseException] = []
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with new_session() as session:
            passing = Forwarder(upstreams, session, notes)
            runner = web.AppRunner(
                _app(passing),
                access_log=None,
                auto_decompress=False,
                handle_signals=False,
                handler_cancellation=True,
                max_field_size=MOST_HEADER_BYTES,
                max_line_size=MOST_HEADER_BYTES,
                shutdown_timeout=0.05,
            )
            await runner.setup()
            await web.SockSite(runner, listener, backlog=_BACKLOG).start()
            server._passing.append(passing)  # noqa: SLF001 - it is ours
            stop.append(lambda: loop.call_soon_threadsafe(ended.set))
            ready.set()
            await ended.wait()
            passing.is_ending = True
            await runner.cleanup()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was started
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
        for one in stop:
            one()
        thread.join()


def _app(passing: Forwarder) -> web.Application:
    app = web.Application()
    app.on_response_prepare.append(strip)
    app.router.add_route("*", "/{path:.*}", passing.handle)
    return app
