"""Proxies that cut, hold and spoil connections: to PostgreSQL by its messages, to S3 by requests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_START_BYTES = 4
_HEAD_BYTES = 5


class PostgresProxy:
    """Passes the messages of PostgreSQL's protocol on, in both directions, and counts them.

    `cut_after(n)`: the message after the next n is not passed on, and all connections end.
    `hold_after(n)`: it is passed on when `release` is called.
    """

    def __init__(self, folder: Path, target: Path) -> None:
        self.folder, self._target = folder, target
        self._lock = threading.Lock()
        self._left: int | None = None
        self._is_hold = False
        self._released = threading.Event()
        self.reached = threading.Event()
        """Set when a connection was cut or is held."""
        self.count = 0
        """The messages since the last call of `cut_after` or `hold_after`."""
        self.client_turns = 0
        """How often the client has sent something after the server had."""
        self._last_side = ""
        self._sockets: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, count: int) -> None:
        """Cut all connections after so many messages."""
        self._arm(count, is_hold=False)

    def hold_after(self, count: int) -> None:
        """Hold the connection that has the message after so many."""
        self._arm(count, is_hold=True)

    def pass_all(self) -> None:
        """Pass all messages on, and begin to count anew."""
        self._arm(None, is_hold=False)

    def release(self) -> None:
        """Let the connection that is held go on."""
        self._released.set()

    def close(self) -> None:
        """End all connections."""
        self._listener.close()
        self.release()
        self._cut()

    def _arm(self, count: int | None, *, is_hold: bool) -> None:
        with self._lock:
            self._left, self._is_hold, self.count = count, is_hold, 0
            self.client_turns, self._last_side = 0, ""
            self._released.clear()
            self.reached.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._target))
            except OSError:
                client.close()
                server.close()
                continue
            self._sockets |= {client, server}
            for pair, is_client in (((client, server), True), ((server, client), False)):
                threading.Thread(target=self._pass, args=(*pair, is_client), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        is_start = is_client
        try:
            while message := _read_message(source, is_start=is_start):
                is_start = False
                if not self._may_pass("client" if is_client else "server"):
                    return
                target.sendall(message)
        except OSError:
            pass
        finally:
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _may_pass(self, side: str) -> bool:
        with self._lock:
            self.count += 1
            self.client_turns += side == "client" != self._last_side
            self._last_side = side
            if self._left is None:
                return True
            self._left -= 1
            if self._left >= 0:
                return True
            self._left = None
            self.reached.set()
            is_hold = self._is_hold
        if is_hold:
            self._released.wait(60)
            return True
        self._cut()
        return False

    def _cut(self) -> None:
        sockets, self._sockets = self._sockets, set()
        for end in sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _read_message(source: socket.socket, *, is_start: bool) -> bytes:
    """Read one message: a type and a length, or only a length at the start of a connection."""
    head = _read(source, _START_BYTES if is_start else _HEAD_BYTES)
    if not head:
        return b""
    size = int.from_bytes(head[-4:])
    return head + _read(source, size - 4)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


@contextmanager
def proxy_postgres(folder: Path, target: Path) -> Iterator[PostgresProxy]:
    """Run a proxy to a socket of PostgreSQL, with a socket in a folder."""
    proxy = PostgresProxy(folder, target)
    try:
        yield proxy
    finally:
        proxy.close()


class S3Proxy:
    """Passes requests to an S3 server on, and can spoil them."""

    def __init__(self, port: int) -> None:
        self.errors_left = 0
        """The next so many requests are answered with 500."""
        self.delay_s = 0.0
        self.requests: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append(f"{self.command} {self.path}")
                time.sleep(proxy.delay_s)
                if proxy.errors_left > 0:
                    proxy.errors_left -= 1
                    self._answer(500, {}, b"<Error><Code>InternalError</Code></Error>")
                    return
                connection = HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                data = answer.read()
                self._answer(answer.status, dict(answer.getheaders()), data)
                connection.close()

            def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = _handle  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Refuse all requests from now on."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def proxy_s3(port: int) -> Iterator[S3Proxy]:
    """Run a proxy to an S3 server."""
    proxy = S3Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
