"""An OTLP backend on loopback that decodes spans with protobuf and gives fixed responses."""

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
    """The response to one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Backend:
    """The received requests, and the responses. The last response is repeated."""

    responses: list[BackendResponse] = field(default_factory=lambda: [BackendResponse()])
    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Path, headers with lowercase names, and the decompressed body."""

    @property
    def spans(self) -> list[Any]:
        """All spans received in protobuf, in order."""
        spans: list[Any] = []
        for _, _, body in self.requests:
            request = service.ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    spans += scope.spans
        return spans

    @property
    def json_bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]


def span_attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a decoded span."""
    attributes: dict[str, Any] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        if kind == "array_value":
            value = [item.string_value for item in value.values]
        attributes[pair.key] = value
    return attributes


def partial_success(rejected: int, message: str) -> bytes:
    """Return the response of a backend that rejected some spans."""
    answer = service.ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message
    return bytes(answer.SerializeToString())


@contextmanager
def serve_backend(*answers: BackendResponse) -> Iterator[Backend]:
    """Serve until the end of the block."""
    state = Backend(list(answers) or [BackendResponse()])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((self.path, headers, body))
            answer = state.responses.pop(0) if len(state.responses) > 1 else state.responses[0]
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
