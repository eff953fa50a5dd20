"""A provider on loopback that returns scripted responses and faults, and records the requests.

    with Provider([OPENAI.answer("Hi.")]) as provider:      # responses in order
        ...                                                # send requests to provider.url
    provider.asked[0].body["messages"]

    Provider(lambda asked: OPENAI.answer(...))             # or a function of the request

`tests/provider/wire.py` encodes the responses of both protocols.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, TypeAlias

SECRETS = ("authorization", "x-api-key", "cookie")
STREAM = {"content-type": "text/event-stream"}

Step: TypeAlias = bytes | float | Literal["cut", "hang"]
"""A step of a response: send bytes, wait some seconds, reset the connection, or send
nothing more until the client goes."""


@dataclass(frozen=True)
class Answer:
    """One response. Its body is sent in chunks, step by step."""

    steps: Sequence[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: STREAM)


@dataclass
class ReceivedRequest:
    """One received request."""

    path: str
    headers: dict[str, str]
    """With names in lower case, without secrets."""
    body: Any
    left: threading.Event = field(default_factory=threading.Event)
    """Set if the client disconnected before the end of the response."""


Script: TypeAlias = Sequence[Answer] | Callable[[ReceivedRequest], Answer]


def as_json(value: object, status: int = 200, **headers: str) -> Answer:
    """Return a JSON response in one chunk."""
    by_name = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(
        [json.dumps(value).encode()], status, {"content-type": "application/json", **by_name}
    )


HANG = Answer(["hang"])
"""Headers, then silence."""
END_OF_SCRIPT = as_json({"error": {"message": "the script is at its end"}}, 400)


class Provider:
    """The server, a context manager. It runs in threads of this process."""

    def __init__(self, script: Script) -> None:
        self.asked: list[ReceivedRequest] = []
        self._script = script
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._connections: list[socket.socket] = []
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    @property
    def bodies(self) -> list[Any]:
        """The bodies of all requests."""
        return [request.body for request in self.asked]

    def answer_to(self, asked: ReceivedRequest) -> Answer:
        """Record a request and return its scripted response."""
        with self._lock:
            self.asked.append(asked)
            if not callable(self._script):
                number = len(self.asked)
                return self._script[number - 1] if number <= len(self._script) else END_OF_SCRIPT
        return self._script(asked)

    def is_left(self, connection: socket.socket, seconds: float | None) -> bool:
        """Wait until the client disconnects, the server stops or the time has passed."""
        step_s, waited_s = 0.01, 0.0
        poll = select.poll()  # `select` accepts no descriptor above 1023.
        poll.register(connection, select.POLLIN)
        while not self._stopping.is_set() and (seconds is None or waited_s < seconds):
            if poll.poll(step_s * 1000):
                return not connection.recv(1, socket.MSG_PEEK)
            waited_s += step_s
        return self._stopping.is_set()

    def connected(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.append(connection)

    @property
    def connections(self) -> int:
        """The number of accepted connections."""
        return len(self._connections)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # Otherwise one of many clients waits a second.
    daemon_threads = False  # Threads are joined, so nothing stays open.

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing, because other tests compare their output."""


class _Handler(BaseHTTPRequestHandler):
    """Handle the requests of one connection."""

    owner: Provider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Otherwise later responses wait 40 ms.

    def setup(self) -> None:
        super().setup()
        self.owner.connected(self.connection)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        by_name = {name.lower(): value for name, value in self.headers.items()}
        retained = {name: value for name, value in by_name.items() if name not in SECRETS}
        received = ReceivedRequest(self.path, retained, json.loads(text))
        answer = self.owner.answer_to(received)
        try:
            self._send(answer, received)
        except ConnectionError:
            received.left.set()
            self.close_connection = True

    def _send(self, answer: Answer, asked: ReceivedRequest) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for step in answer.steps:
            if isinstance(step, bytes):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(step), step))
            elif step == "cut":
                reset = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                self.close_connection = True
                return
            elif self.owner.is_left(self.connection, None if step == "hang" else float(step)):
                asked.left.set()
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")
