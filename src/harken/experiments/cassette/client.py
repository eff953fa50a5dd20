"""Wrap a client of a provider's SDK so that its calls use a cassette.

An SDK sends all requests through an httpx client, so only that client is replaced. A recorded
exchange is stored as messages, so that it can be found and viewed, and also with the response body
as it was on the wire, which is replayed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any, TypeVar, cast
from typing import Protocol as Shape

import msgspec

from harken.core import canonical
from harken.core.messages import ChatMessage, extend_context_hash
from harken.core.secrets.redaction import redact
from harken.errors import FormatError, ReplayMiss
from harken.experiments.cassette.log import CassetteLog, redact_message, redact_request
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from harken.interactions.sdk.http_client import is_http_client
from harken.llm.base import ModelRequest, tools_hash
from harken.llm.replay import ReplayModel

RECORD_HINT = "record it with --harken-record=new, all anew with =all"
"""Advice for a request that is not recorded."""
AGENT = "client"
"""Agent name of calls of an SDK client, which has no agents."""
HTTP = "http"
"""Member of a response event that has the HTTP response."""
_REDACTED_STREAM = "[redacted stream]"
Client = TypeVar("Client")


class CassetteProtocol(Shape):
    """The methods of `harken.experiments.cassette.cassette.Cassette` that are used here."""

    file: Path
    replay: ReplayModel

    @property
    def log(self) -> CassetteLog:
        """The log of new calls."""
        ...

    def asks_record(self, request: ModelRequest) -> bool:
        """Whether a redacted request is answered from the cassette."""
        ...


def wrap_client(client: Client, cassette: CassetteProtocol) -> Client:
    """Return a client like this one that uses a cassette."""
    if is_http_client(client):
        return cast(Client, _wrap_http_client(client, cassette))
    inner: Any = getattr(client, "_client", None)  # There is no public attribute for it.
    with_options = getattr(client, "with_options", None)
    if not callable(with_options) or not is_http_client(inner):
        raise TypeError(
            f"{type(client).__name__} cannot be wrapped: give one of openai, anthropic or httpx"
        )
    return cast(Client, with_options(http_client=_wrap_http_client(inner, cassette)))


def _wrap_http_client(inner: Any, cassette: CassetteProtocol) -> Any:
    client_class: Any = type(inner)
    is_async = inspect.iscoroutinefunction(inner.send)
    mixin: Any = _AsyncClient if is_async else _SyncClient
    wrapper_class = _combine_classes(client_class, mixin)
    wrapper = wrapper_class.__new__(wrapper_class)
    wrapper.__dict__.update(inner.__dict__)
    wrapper.__dict__.update(_harken_inner=inner, _harken_cassette=cassette)
    return wrapper


@cache
def _combine_classes(kind: Any, mixin: Any) -> Any:
    return type(f"Cassette{kind.__name__}", (mixin, kind), {})


class _SyncClient:
    """The method that a wrapped client overrides."""

    _harken_inner: Any
    _harken_cassette: CassetteProtocol

    def send(self, request: Any, *, stream: bool = False, **kwargs: Any) -> Any:
        parsed = _parse_request(request)
        if parsed is None:
            return self._harken_inner.send(request, stream=stream, **kwargs)
        response = parsed.from_record(self._harken_cassette)
        if response is None:
            response = self._harken_inner.send(request, **kwargs)
            response = parsed.to_record(self._harken_cassette, response)
        return response

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


class _AsyncClient:
    """The asynchronous variant of `_SyncClient`."""

    _harken_inner: Any
    _harken_cassette: CassetteProtocol

    async def send(self, request: Any, *, stream: bool = False, **kwargs: Any) -> Any:
        parsed = _parse_request(request)
        if parsed is None:
            return await self._harken_inner.send(request, stream=stream, **kwargs)
        response = parsed.from_record(self._harken_cassette)
        if response is None:
            response = await self._harken_inner.send(request, **kwargs)
            response = parsed.to_record(self._harken_cassette, response)
        return response

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


class _ParsedRequest(msgspec.Struct, frozen=True):
    """A redacted model request."""

    request: Any
    protocol: Protocol
    model: str
    said: ModelRequest

    def from_record(self, cassette: CassetteProtocol) -> Any:
        """Return the recorded response, or None if a real request is allowed."""
        if not cassette.asks_record(self.said):
            return None
        try:
            http = (cassette.replay.next_answer(self.said).response.unknown or {}).get(HTTP)
            if not isinstance(http, dict) or http.get("body") == _REDACTED_STREAM:
                raise ReplayMiss(
                    f"{cassette.file.name}: the answer is not recorded in its wire format"
                )
        except ReplayMiss as error:
            return self._create_refusal(f"{error}; {RECORD_HINT}")
        return self._create_response(
            int(http["status"]), str(http["type"]), str(http["body"]).encode()
        )

    def to_record(self, cassette: CassetteProtocol, response: Any) -> Any:
        """Record a complete response. Return one whose body can be read as a stream."""
        status, kind = int(response.status_code), str(response.headers.get("content-type", ""))
        body: bytes = response.content
        listener = self.protocol.listener(status)
        listener.feed(body)
        received = listener.end()
        if received.pieces and received.finish is not None and not received.error:
            messages = [
                message for piece in received.pieces for message in self.protocol.read(piece)[0]
            ]
            http = {"status": status, "type": kind, "body": _redact_body(body, messages)}
            call = cassette.log.begin(self.said, self.model)
            call.write_response(messages, received.finish, {HTTP: http})
        return self._create_response(status, kind, body, _decoded_headers(response.headers))

    def _create_refusal(self, why: str) -> Any:
        """Return a response with status 400, which clients do not retry."""
        error = {"type": "invalid_request_error", "message": why}
        body = canonical.to_json_line({"type": "error", "error": error})
        return self._create_response(400, "application/json", body)

    def _create_response(
        self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Any:
        library = importlib.import_module(type(self.request).__module__.split(".")[0])
        response_headers = headers or {"content-type": kind}
        return library.Response(
            status, headers=response_headers, content=body, request=self.request
        )


def _parse_request(request: Any) -> _ParsedRequest | None:
    """Parse a request. Return None if it is not a valid model request."""
    target = request.url.raw_path.decode("ascii")
    protocol = wires.find_protocol(target.partition("?")[0])
    if request.method != "POST" or protocol is None:
        return None
    try:
        parsed = protocol.parse_request(target, request.read())
    except FormatError:
        return None
    messages = [message for piece in parsed.pieces for message in protocol.read(piece)[0]]
    model_request = ModelRequest(
        agent=AGENT,
        messages=messages,
        tools=parsed.tools,
        parameters={**parsed.parameters, "model": parsed.model},
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash(parsed.tools) if parsed.tools else None,
    )
    return _ParsedRequest(request, protocol, parsed.model, redact_request(model_request))


def _redact_body(body: bytes, messages: Iterable[ChatMessage]) -> str:
    """Return the redacted body of a response as text.

    A credential in a stream may be split over several events, where it is not recognized. Such a
    stream is not stored.
    """
    text = redact(body.decode("utf-8", "replace")).text
    is_stream = not text.lstrip().startswith("{")
    if is_stream and any(redact_message(message) != message for message in messages):
        return _REDACTED_STREAM
    return text


def _decoded_headers(headers: Any) -> dict[str, str]:
    """Return the headers of a response after decompression."""
    removed = ("content-encoding", "content-length", "transfer-encoding")
    return {name: value for name, value in headers.items() if name.lower() not in removed}
