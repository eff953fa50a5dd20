"""The recorder: a provider on loopback that keeps what it was sent, and always answers the same.

One idea: it speaks the protocols of all clients, and remembers no conversation. It also stands in
as the client's way to other hosts, and refuses that: nothing that it is told leaves this machine.

Source: docs/how-to/continue-anywhere.md, "Verify".

What the recorder answers, in the words of each protocol: `ok`, and nothing else.

One idea: an answer is one message: `whole` says it at once, `events` as a stream of its pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit

OK = "ok"


Record: TypeAlias = dict[str, Any]


Event: TypeAlias = tuple[str, Record | str]
"""The name of an event, which may be empty, and its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannedResponse:
    """How a protocol answers."""

    ends: tuple[str, ...]
    """How paths of requests for an answer end."""
    conversation: str
    """The member of a request that holds the messages."""
    whole: Callable[[str], Record]
    """The answer of a model."""
    events: Callable[[str], Iterable[Event]]
    """The same as a stream."""

    def is_streamed(self, path: str, body: Record) -> bool:
        """Whether a request wants a stream."""
        return bool(body.get("stream")) or path.endswith(":streamGenerateContent")


def _named(*records: Record) -> Iterable[Event]:
    return [(record["type"], record) for record in records]


def _anthropic(model: str) -> Record:
    said = [{"type": "text", "text": OK}]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_recorder", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": said, **stop, "usage": usage}


def _anthropic_events(model: str) -> Iterable[Event]:
    whole = _anthropic(model)
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return _named(
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
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
        {"type": "message_delta", "delta": stop, "usage": whole["usage"]},
        {"type": "message_stop"},
    )


def _responses(model: str) -> Record:
    said = [{"type": "output_text", "text": OK, "annotations": []}]
    item = {"type": "message", "id": "msg_recorder", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    head = {"id": "resp_recorder", "object": "response", "status": "completed", "model": model}
    return {**head, "output": [{**item, "content": said}], "usage": usage}


def _responses_events(model: str) -> Iterable[Event]:
    whole = _responses(model)
    (item,) = whole["output"]
    return _named(
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
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
    whole = {**_chat(model), "object": "chat.completion.chunk"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": OK}, "finish_reason": "stop"}
    yield "", {**whole, "choices": [delta], "usage": None}
    yield "", {**whole, "choices": []}
    yield "", "[DONE]"


def _gemini(model: str) -> Record:
    content = {"role": "model", "parts": [{"text": OK}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


ANSWERS = (
    CannedResponse(
        ends=("/messages",),
        conversation="messages",
        whole=_anthropic,
        events=_anthropic_events,
    ),
    CannedResponse(
        ends=("/responses",),
        conversation="input",
        whole=_responses,
        events=_responses_events,
    ),
    CannedResponse(
        ends=("/chat/completions",),
        conversation="messages",
        whole=_chat,
        events=_chat_events,
    ),
    CannedResponse(
        ends=(":generateContent", ":streamGenerateContent"),
        conversation="contents",
        whole=_gemini,
        events=lambda model: [("", _gemini(model))],
    ),
)
"""The protocols: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini."""


MOST_BYTES = 1 << 30
"""A longer request is refused."""
_POLL_S = 0.02
_COUNTED = {"input_tokens": 1, "totalTokens": 1}
"""The answer to who wants to know how many tokens something has."""
_MODELS: dict[str, Any] = {"data": [], "models": [], "object": "list", "has_more": False}


@dataclass(frozen=True, slots=True)
class MockRequest:
    """A request for an answer of the model."""

    path: str
    body: dict[str, Any]
    conversation: list[dict[str, Any]]
    """The messages of the body, as far as they are objects."""

    @property
    def has_tools(self) -> bool:
        """Whether the model was offered tools: a request for a title has none."""
        return bool(self.body.get("tools"))


class MockProvider(ThreadingHTTPServer):
    """The server. What it was asked may be read while it serves."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[MockRequest] = []
        self.others: list[str] = []
        """Requests for something else: method and path."""
        self._changed = Condition()

    def keep(self, asked: MockRequest) -> None:
        """Keep a request."""
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()

    def keep_other(self, method: str, path: str) -> None:
        """Keep that something else was asked for."""
        with self._changed:
            self.others.append(f"{method} {path}")

    def wait(self, wanted: Callable[[MockRequest], bool], timeout_s: float) -> MockRequest | None:
        """Return the first request that is wanted; None: none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: any(map(wanted, self.asked)), timeout_s)
            return next(filter(wanted, self.asked), None)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that goes away in the middle is no failure of the recorder."""


@contextmanager
def recorder() -> Iterator[MockProvider]:
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
    """Answers the requests of one connection."""

    server: MockProvider
    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        """Refuse to connect to another machine."""
        self.close_connection = True
        self.server.keep_other("CONNECT", self.path)
        self._say(403, {"error": {"message": "the recorder connects nobody"}})

    def do_GET(self) -> None:
        """Name no models; there is nothing else here."""
        path = self._path()
        is_list = path.endswith(("/models", "/v1/models"))
        self.server.keep_other("GET", path)
        self._say(200 if is_list else 404, _MODELS if is_list else _error(path))

    def do_HEAD(self) -> None:
        """Say that somebody is there."""
        self.server.keep_other("HEAD", self._path())
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Keep a request for an answer, and give it."""
        path, length = self._path(), self.headers.get("content-length") or "0"
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._say(413, _error("a body that is too long, or of unknown length"))
            return
        body = self._body(int(length))
        answer = next((one for one in ANSWERS if path.endswith(one.ends)), None)
        if answer is None or not isinstance(body, dict):
            self.server.keep_other("POST", path)
            is_count = path.endswith(("/count_tokens", ":countTokens", "/input_tokens"))
            self._say(200 if is_count else 404, _COUNTED if is_count else _error(path))
            return
        listed = body.get(answer.conversation)
        messages = (
            [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        )
        self.server.keep(MockRequest(path, body, messages))
        self._answer(answer, body, is_streamed=answer.is_streamed(path, body))

    def _answer(self, answer: CannedResponse, body: dict[str, Any], *, is_streamed: bool) -> None:
        model = str(body.get("model") or "recorder")
        if not is_streamed:
            self._say(200, answer.whole(model))
            return
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in answer.events(model):
            head = f"event: {name}\n" if name else ""
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {text}\n\n".encode())

    def _path(self) -> str:
        return urlsplit(self.path).path

    def _body(self, length: int) -> Any:
        """Return the body: its JSON, or a text where it is none."""
        data = self.rfile.read(length)
        with suppress(ValueError, RecursionError):
            return json.loads(data)
        return data.decode("utf-8", "replace")

    def _say(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _error(what: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "not_found_error", "message": f"not here: {what}"}}
