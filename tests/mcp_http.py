"""ASGI applications that are served on loopback in a thread."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from types import TracebackType
from typing import Any, ClassVar

import uvicorn


class ServedApp:
    """An ASGI application that is served until the end of the block. The target is its address."""

    running: ClassVar[dict[str, ServedApp]] = {}

    def __init__(self, app: Any, listener: socket.socket | None = None) -> None:
        self._socket = listener or socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    @classmethod
    def stop_at(cls, base: str) -> None:
        """Stop the server at an address before the end of its block."""
        cls.running[base].stop()

    def stop(self) -> None:
        """Stop the server, and cancel its running requests."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()

    def __enter__(self) -> str:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.running[self.base] = self
        return self.base

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def make_json_app(answers: dict[str, tuple[int, Any]]) -> Any:
    """Return an application that answers each path with a status and JSON; others with 401."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        status, value = answers.get(scope["path"], (401, None))
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    return app


def make_endless_app(path: str) -> Any:
    """Return an application whose response at a path is an endless stream of single bytes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope["path"] != path:
            await make_json_app({})(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200})
        while True:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.05)

    return app
