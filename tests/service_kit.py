"""A real service on loopback or at a Unix socket, with any number of stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.dependencies import ServiceLimits
from harken.service.middleware import ErrorMiddleware
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at, listen_in
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore

TOKEN = "a-token-for-tests-only-of-some-length"


class Services:
    """One server for many services: each has a store, and an address under `/N`."""

    def __init__(self) -> None:
        self._apps: dict[str, ErrorMiddleware] = {}
        self._numbers = count()
        self.url = ""
        self.socket: Path | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            _, number, path = scope["path"].split("/", 2)
            await self._apps[number]({**scope, "path": f"/{path}"}, receive, send)

    def serve(self, store: Store, **how: Any) -> str:
        """Serve a store and return its address."""
        number = str(next(self._numbers))
        token = None if self.socket is not None else TOKEN
        self._apps[number] = make_app(store, AccessCheck(token), **how)
        return f"{self.url}/{number}"

    def client(self, url: str, token: str = TOKEN) -> RemoteStore:
        """Return a remote store for the service at this address."""
        if self.socket is not None:
            return RemoteStore(url, socket=self.socket)
        return RemoteStore(url, token=token)


@contextmanager
def services_on_port() -> Iterator[Services]:
    """Serve on a loopback port."""
    services = Services()
    with listen_at("127.0.0.1", 0) as listener:
        services.url = address_of(listener)
        with serve_in_thread(services, [listener]):
            yield services


@contextmanager
def services_on_socket(path: Path) -> Iterator[Services]:
    """Serve at a Unix socket."""
    services = Services()
    services.url, services.socket = "http://localhost", path
    with listen_in(path) as listener, serve_in_thread(services, [listener]):
        yield services


@contextmanager
def serve_store(store: Store | None = None, **how: Any) -> Iterator[str]:
    """Serve one store and yield its address."""
    limits = how.get("limits", ServiceLimits())
    app = make_app(store or MemoryStore(), AccessCheck(TOKEN), **how)
    with listen_at("127.0.0.1", 0) as listener, serve_in_thread(app, [listener], limits=limits):
        yield address_of(listener)
