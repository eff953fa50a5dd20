"""A backend for spans on this machine that decodes them by protobuf alone, and answers as told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service


@dataclass(frozen=True)
class BackendResponse:
    """What is answered to one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Backend:
    """What came, and what is answered, the last answer for ever."""

    responses: list[BackendResponse] = field(default_factory=lambda: [BackendResponse()])
    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Path, headers with small names, and the body unpacked."""

    @property
    def spans(self) -> list[Any]:
        """All spans that came in protobuf, in order."""
        found: list[Any] = []
        for _, _, body in self.requests:
            request = service.ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    found += scope.spans
        return found

    @property
    def json_bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]


def span_attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a decoded span."""
    found: dict[str, Any] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        if kind == "array_value":
            value = [one.string_value for one in value.values]
        found[pair.key] = value
    return found


def partial_success(rejected: int, message: str) -> bytes:
    """Return the answer of who took some spans only."""
    answer = service.ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message
    return bytes(answer.SerializeToString())


@contextmanager
def serve_backend(*answers: BackendResponse) -> Iterator[Backend]:
    """Serve until the end of the block."""
    told = Backend(list(answers) or [BackendResponse()])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            told.requests.append((self.path, headers, body))
            answer = told.responses.pop(0) if len(told.responses) > 1 else told.responses[0]
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
