"""`MockProvider`: a provider on loopback that records requests and always answers `ok`.

It supports the protocols of all clients and stores no conversation state. It is also configured as
the client's HTTP proxy and rejects such requests, so no data leaves this machine.

The answer of each protocol is one message, as a complete body (`build_body`) or as a stream
(`build_events`).

Source: docs/how-to/resume-in-another-client.md, "Verify".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

OK = "ok"
Record: TypeAlias = dict[str, Any]
Event: TypeAlias = tuple[str, Record | str]
"""The name of an event, which may be empty, and its data."""


class CannedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a protocol."""

    path_suffixes: tuple[str, ...]
    """Suffixes of the request paths."""
    conversation: str
    """The member of a request that holds the messages."""
    build_body: Callable[[str], Record]
    """Returns the complete response."""
    build_events: Callable[[str], Iterable[Event]]
    """Returns the same response as a stream of events."""

    def is_streamed(self, path: str, body: Record) -> bool:
        """Whether a request asks for a stream."""
        return bool(body.get("stream")) or path.endswith(":streamGenerateContent")


def _events_by_type(*records: Record) -> Iterable[Event]:
    return [(record["type"], record) for record in records]


def _anthropic(model: str) -> Record:
    content = [{"type": "text", "text": OK}]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_recorder", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": content, **stop, "usage": usage}


def _anthropic_events(model: str) -> Iterable[Event]:
    response = _anthropic(model)
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return _events_by_type(
        {"type": "message_start", "message": {**response, "content": [], "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": OK},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": response["usage"]},
        {"type": "message_stop"},
    )


def _responses(model: str) -> Record:
    content = [{"type": "output_text", "text": OK, "annotations": []}]
    item = {"type": "message", "id": "msg_recorder", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    head = {"id": "resp_recorder", "object": "response", "status": "completed", "model": model}
    return {**head, "output": [{**item, "content": content}], "usage": usage}


def _responses_events(model: str) -> Iterable[Event]:
    response = _responses(model)
    (item,) = response["output"]
    return _events_by_type(
        {
            "type": "response.created",
            "response": {**response, "status": "in_progress", "output": []},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    )


def _chat(model: str) -> Record:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": OK},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chatcmpl-recorder", "object": "chat.completion", "created": 0, "model": model}
    return {**head, "choices": [choice], "usage": usage}


def _chat_events(model: str) -> Iterable[Event]:
    response = {**_chat(model), "object": "chat.completion.chunk"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": OK}, "finish_reason": "stop"}
    yield "", {**response, "choices": [delta], "usage": None}
    yield "", {**response, "choices": []}
    yield "", "[DONE]"


def _gemini(model: str) -> Record:
    content = {"role": "model", "parts": [{"text": OK}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


CANNED_RESPONSES = (
    CannedResponse(
        path_suffixes=("/messages",),
        conversation="messages",
        build_body=_anthropic,
        build_events=_anthropic_events,
    ),
    CannedResponse(
        path_suffixes=("/responses",),
        conversation="input",
        build_body=_responses,
        build_events=_responses_events,
    ),
    CannedResponse(
        path_suffixes=("/chat/completions",),
        conversation="messages",
        build_body=_chat,
        build_events=_chat_events,
    ),
    CannedResponse(
        path_suffixes=(":generateContent", ":streamGenerateContent"),
        conversation="contents",
        build_body=_gemini,
        build_events=lambda model: [("", _gemini(model))],
    ),
)
"""The protocols: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini."""
MAX_REQUEST_BYTES = 1 << 30
"""A longer request is refused."""
_POLL_S = 0.02
_TOKEN_COUNTS = {"input_tokens": 1, "totalTokens": 1}
"""The response to requests for a token count."""
_MODELS: dict[str, Any] = {"data": [], "models": [], "object": "list", "has_more": False}


class MockRequest(msgspec.Struct, frozen=True):
    """A request for a model response."""

    path: str
    body: dict[str, Any]
    conversation: list[dict[str, Any]]
    """The messages of the body that are objects."""

    @property
    def has_tools(self) -> bool:
        """Whether the request has tools. A request for a title has none."""
        return bool(self.body.get("tools"))


class MockProvider(ThreadingHTTPServer):
    """The server. Its requests may be read while it serves."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[MockRequest] = []
        self.others: list[str] = []
        """The method and the path of other requests."""
        self._changed = Condition()

    def add_request(self, request: MockRequest) -> None:
        """Record a request for a model response."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def add_other_request(self, method: str, path: str) -> None:
        """Record another request."""
        with self._changed:
            self.others.append(f"{method} {path}")

    def wait(
        self, predicate: Callable[[MockRequest], bool], timeout_s: float
    ) -> MockRequest | None:
        """Return the first request that matches. Return None if none arrives in time."""
        with self._changed:
            self._changed.wait_for(lambda: any(map(predicate, self.requests)), timeout_s)
            return next(filter(predicate, self.requests), None)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client may disconnect at any time."""


@contextmanager
def run_mock_provider() -> Iterator[MockProvider]:
    """Serve until the end of the block."""
    with MockProvider() as server:
        thread = Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Handle the requests of one connection."""

    server: MockProvider
    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        """Reject connections to other machines."""
        self.close_connection = True
        self.server.add_other_request("CONNECT", self.path)
        self._send_json(403, {"error": {"message": "the recorder forwards no connections"}})

    def do_GET(self) -> None:
        """Return an empty list of models, or 404 for other paths."""
        path = self._path()
        is_list = path.endswith(("/models", "/v1/models"))
        self.server.add_other_request("GET", path)
        self._send_json(200 if is_list else 404, _MODELS if is_list else _error_body(path))

    def do_HEAD(self) -> None:
        """Return status 200."""
        self.server.add_other_request("HEAD", self._path())
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Record a request for a model response, and answer it."""
        path, length = self._path(), self.headers.get("content-length") or "0"
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._send_json(413, _error_body("a body that is too long, or of unknown length"))
            return
        body = self._body(int(length))
        answer = next(
            (candidate for candidate in CANNED_RESPONSES if path.endswith(candidate.path_suffixes)),
            None,
        )
        if answer is None or not isinstance(body, dict):
            self.server.add_other_request("POST", path)
            is_count = path.endswith(("/count_tokens", ":countTokens", "/input_tokens"))
            self._send_json(
                200 if is_count else 404, _TOKEN_COUNTS if is_count else _error_body(path)
            )
            return
        messages_value = body.get(answer.conversation)
        messages = (
            [candidate for candidate in messages_value if isinstance(candidate, dict)]
            if isinstance(messages_value, list)
            else []
        )
        self.server.add_request(MockRequest(path, body, messages))
        self._answer(answer, body, is_streamed=answer.is_streamed(path, body))

    def _answer(self, answer: CannedResponse, body: dict[str, Any], *, is_streamed: bool) -> None:
        model = str(body.get("model") or "recorder")
        if not is_streamed:
            self._send_json(200, answer.build_body(model))
            return
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in answer.build_events(model):
            head = f"event: {name}\n" if name else ""
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {text}\n\n".encode())

    def _path(self) -> str:
        return urlsplit(self.path).path

    def _body(self, length: int) -> Any:
        """Return the body as JSON, or as text if it is not JSON."""
        data = self.rfile.read(length)
        with suppress(ValueError, RecursionError):
            return json.loads(data)
        return data.decode("utf-8", "replace")

    def _send_json(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _error_body(resource: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": "not_found_error", "message": f"not found: {resource}"},
    }
