"""`OtlpServer`: receive OTLP over HTTP on this machine.

It uses the server of the standard library, with a thread for each connection: exporters send few
requests with many spans each, and no streams, so an asynchronous server has no advantage.

Requests are accepted when they are decoded, and processed one at a time under a lock. Clients must
send the token if there is one, and must not be a web page in a browser.

Source: OTLP specification 1.x, "OTLP/HTTP": paths, types, compression, answers.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_WR
from threading import BoundedSemaphore, Event, Lock, Thread
from time import monotonic
from typing import Any

from harken.capture.otlp.decode import (
    JSON,
    PROTOBUF,
    DecodedRequest,
    decode_logs,
    decode_traces,
    encode_response,
)
from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.core import canonical
from harken.core.loopback import browser_refusal
from harken.errors import FormatError
from harken.recording.body import decompress_body

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""The maximum size of a request, compressed and decompressed."""
CONNECTION_TIMEOUT_S = 20.0
"""The timeout of a silent connection."""
MAX_CONCURRENT_REQUESTS = 32
"""The maximum number of concurrent requests. Further ones get status 503."""
_TICK_S, _LINGER_S = 0.25, 2.0
_KINDS = {"/v1/traces": "trace", "/v1/logs": "logs", "/v1/metrics": "metrics"}
"""Path -> signal type. Metrics are accepted and ignored."""


class OtlpServer(ThreadingHTTPServer):
    """Listen, and pass requests to a receiver. As a context manager it is closed at the end."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        receiver: Receiver,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        spool: OtlpSpool | None = None,
        most_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        """Listen on a port. 0 means any free port. Raises OSError.

        token: if None, no token is required. spool: if None, unrecorded requests are only in
        memory.
        """
        super().__init__((host, port), _Handler)
        self.url = f"http://{host}:{self.server_address[1]}"
        self.token, self.most_bytes = token, most_bytes
        self.last_request_s = monotonic()
        self.request_slots = BoundedSemaphore(MAX_CONCURRENT_REQUESTS)
        self._receiver, self._spool, self._lock = receiver, spool, Lock()
        self._stopping = Event()
        self._ticking = Thread(target=self._tick, name="harken-otlp", daemon=True)

    def serve(self, *, idle_s: float | None = None) -> None:
        """Serve until `shutdown`, or until there was no request for `idle_s`."""
        for request in self._spool.iter_unfinished() if self._spool is not None else ():
            self._recover(request)
        self._ticking.start()
        if idle_s is not None:
            Thread(target=self._end_when_idle, args=(idle_s,), daemon=True).start()
        try:
            self.serve_forever(_TICK_S / 5)
        finally:
            self._stopping.set()
            self._ticking.join()
            with self._lock:
                self._tell(all_of_them=True)

    def store_request(self, request: SpooledRequest) -> int:
        """Process a request, and store it on disk first. Return the number of rejected spans.

        Raises FormatError. Raises OSError if it cannot be stored.
        """
        decoded = _decode_request(request)
        with self._lock:
            if not decoded.spans and not decoded.logged:
                return decoded.refused
            if self._spool is not None:
                self._spool.write(request)
            self._process(decoded)
        return decoded.refused

    def _recover(self, request: SpooledRequest) -> None:
        """Process a request that an earlier receiver left in the spool."""
        with self._lock, suppress(FormatError):
            self._process(_decode_request(request))

    def _process(self, decoded: DecodedRequest) -> None:
        if self._spool is not None:
            ids = [*(span.id for span in decoded.spans), *(id_ for id_, _ in decoded.logged)]
            self._spool.set_last_ids(ids)
        self._receiver.add(decoded.spans, decoded.logged)
        self._tell()

    def _tell(self, *, all_of_them: bool = False) -> None:
        self._receiver.emit_due(all_of_them=all_of_them)
        if self._spool is not None:
            self._spool.remove_finished(self._receiver.is_waiting)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the client has disconnected."""

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_S):
            with self._lock:
                self._tell()

    def _end_when_idle(self, idle_s: float) -> None:
        while monotonic() - self.last_request_s < idle_s:
            if self._stopping.wait(min(_TICK_S, idle_s)):
                return
        self.shutdown()


def _decode_request(request: SpooledRequest) -> DecodedRequest:
    decode = decode_traces if request.kind == "trace" else decode_logs
    return decode(request.data, JSON if request.is_json else PROTOBUF)


class _RequestRefused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Handle the requests of one connection."""

    server: OtlpServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "harken", ""
    timeout = CONNECTION_TIMEOUT_S

    def do_POST(self) -> None:
        self.server.last_request_s = monotonic()
        try:
            if not self.server.request_slots.acquire(blocking=False):
                raise _RequestRefused(503, "busy")
            try:
                body, kind = self._process_request()
            finally:
                self.server.request_slots.release()
            self._answer(200, body, kind)
        except _RequestRefused as refusal:
            self.close_connection = True  # The body of the request may not have been read.
            self._answer(refusal.status, canonical.to_json_line({"message": str(refusal)}), JSON)
            self._linger()

    def _process_request(self) -> tuple[bytes, str]:
        """Process a request. Return the response body and its type. Raises _Refused."""
        self._check()
        kind = _KINDS.get(self.path.partition("?")[0].rstrip("/"))
        if kind is None:
            raise _RequestRefused(404, f"path not found; supported paths: {', '.join(_KINDS)}")
        type_ = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if type_ not in (PROTOBUF, JSON):
            raise _RequestRefused(415, f"send {PROTOBUF} or {JSON}")
        data, refused = self._body(), 0
        if kind != "metrics":
            try:
                encoding = self.headers.get("content-encoding", "")
                data = decompress_body(data, encoding, most_bytes=self.server.most_bytes)
                refused = self.server.store_request(SpooledRequest(kind, type_ == JSON, data))
            except FormatError as error:
                raise _RequestRefused(400, str(error)) from None
            except OSError as error:
                raise _RequestRefused(503, f"it cannot be stored ({error.strerror})") from None
        return encode_response(kind, type_, refused), type_

    def _check(self) -> None:
        origin, host = self.headers.get("origin"), self.headers.get("host")
        if refusal := browser_refusal(origin, host, self.headers.get("sec-fetch-site")):
            raise _RequestRefused(403, refusal)
        token = self.server.token
        if token is None:
            return
        kind, _, credentials = self.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(
            credentials.strip().encode(), token.encode()
        ):
            raise _RequestRefused(401, "send the token: authorization=Bearer TOKEN")

    def _body(self) -> bytes:
        """Return the body, with any framing. Raises _Refused."""
        if self.headers.get("transfer-encoding", "").strip().lower() == "chunked":
            return self._chunks()
        text = self.headers.get("content-length", "")
        if not (text.isascii() and text.isdecimal()) or len(text) > 20:
            raise _RequestRefused(411, "send Content-Length")
        length = int(text)
        if length > self.server.most_bytes:
            raise _RequestRefused(413, f"send at most {self.server.most_bytes} bytes")
        data = self.rfile.read(length)
        if len(data) < length:
            raise _RequestRefused(400, "the body was cut off")
        return data

    def _chunks(self) -> bytes:
        data = bytearray()
        while True:
            size = self._line().partition(b";")[0].strip()
            try:
                length = int(size, 16) if len(size) <= 8 else -1
            except ValueError:
                length = -1
            if length < 0:
                raise _RequestRefused(400, "invalid chunked encoding")
            if len(data) + length > self.server.most_bytes:
                raise _RequestRefused(413, f"send at most {self.server.most_bytes} bytes")
            if length == 0:
                while self._line().strip():
                    pass
                return bytes(data)
            data += self.rfile.read(length)
            if self._line().strip():
                raise _RequestRefused(400, "invalid chunked encoding")

    def _line(self) -> bytes:
        line = self.rfile.readline(1024)
        if not line.endswith(b"\n"):
            raise _RequestRefused(400, "the body was cut off")
        return line

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if status == 503:
                self.send_header("retry-after", "1")
            if self.close_connection:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

    def _linger(self) -> None:
        """Read on for a moment.

        A client that is still sending would not see the response otherwise.
        """
        with suppress(OSError):
            self.connection.shutdown(SHUT_WR)
            self.connection.settimeout(_LINGER_S)
            until = monotonic() + _LINGER_S
            while monotonic() < until and self.connection.recv(1 << 16):
                pass

    def handle(self) -> None:
        with suppress(OSError):  # The client has disconnected or timed out.
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
