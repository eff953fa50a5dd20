"""A client of a provider's SDK whose calls are those of a cassette.

One idea: an SDK sends all through the httpx client below it, so that one alone is another. What is
recorded is read as messages, to be found again and looked at; the answer is kept as it was on the
wire, too, and given back so.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any, TypeVar, cast
from typing import Protocol as Shape

from harken.core import canonical
from harken.core.messages import ChatMessage, extend_context_hash
from harken.core.secrets.redaction import redact
from harken.errors import FormatError, ReplayMiss
from harken.experiments.cassette.log import CassetteLog, clean, redacted
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from harken.interactions.sdk.http_client import is_http_client
from harken.llm.base import ModelRequest, tools_hash
from harken.llm.replay import ReplayModel

HINT = "record it with --harken-record=new, all anew with =all"
"""What to do about a request that is not there."""
AGENT = "client"
"""What the agent of a cassette is called that a client is: an SDK knows of no agents."""
HTTP = "http"
"""The member of an answer in which it stands as it was on the wire."""
_LEFT_OUT = "[redacted stream]"
Client = TypeVar("Client")


class CassetteProtocol(Shape):
    """What is needed of a `harken.experiments.cassette.cassette.Cassette`."""

    file: Path
    replay: ReplayModel

    @property
    def tape(self) -> CassetteLog:
        """Where new calls are written down."""
        ...

    def asks_record(self, request: ModelRequest) -> bool:
        """Whether the answer to a request that was redacted comes from the record."""
        ...


def wrapped(client: Client, cassette: CassetteProtocol) -> Client:
    """Return a client like this one, whose calls are those of a cassette."""
    if is_http_client(client):
        return cast(Client, _other(client, cassette))
    inner: Any = getattr(client, "_client", None)  # there is no public name for it
    copy = getattr(client, "with_options", None)
    if not callable(copy) or not is_http_client(inner):
        raise TypeError(
            f"{type(client).__name__} cannot be wrapped: give one of openai, anthropic or httpx"
        )
    return cast(Client, copy(http_client=_other(inner, cassette)))


def _other(inner: Any, cassette: CassetteProtocol) -> Any:
    made_of: Any = type(inner)
    is_async = inspect.iscoroutinefunction(inner.send)
    ours: Any = _Async if is_async else _Sync
    kind = _kind_of(made_of, ours)
    made = kind.__new__(kind)
    made.__dict__.update(inner.__dict__)
    made.__dict__.update(_harken_inner=inner, _harken_cassette=cassette)
    return made


@cache
def _kind_of(kind: Any, ours: Any) -> Any:
    return type(f"Cassette{kind.__name__}", (ours, kind), {})


class _Sync:
    """What such a client does itself."""

    _harken_inner: Any
    _harken_cassette: CassetteProtocol

    def send(self, request: Any, *, stream: bool = False, **named: Any) -> Any:
        asked = _asked(request)
        if asked is None:
            return self._harken_inner.send(request, stream=stream, **named)
        given = asked.from_record(self._harken_cassette)
        if given is None:
            given = self._harken_inner.send(request, **named)
            given = asked.to_record(self._harken_cassette, given)
        return given

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


class _Async:
    """The same, for `async`."""

    _harken_inner: Any
    _harken_cassette: CassetteProtocol

    async def send(self, request: Any, *, stream: bool = False, **named: Any) -> Any:
        asked = _asked(request)
        if asked is None:
            return await self._harken_inner.send(request, stream=stream, **named)
        given = asked.from_record(self._harken_cassette)
        if given is None:
            given = await self._harken_inner.send(request, **named)
            given = asked.to_record(self._harken_cassette, given)
        return given

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request for an answer of a model, redacted."""

    request: Any
    protocol: Protocol
    model: str
    said: ModelRequest

    def from_record(self, cassette: CassetteProtocol) -> Any:
        """Return the recorded answer; None: a real one is wanted."""
        if not cassette.asks_record(self.said):
            return None
        try:
            http = (cassette.replay.take(self.said).response.unknown or {}).get(HTTP)
            if not isinstance(http, dict) or http.get("body") == _LEFT_OUT:
                raise ReplayMiss(f"{cassette.file.name}: the answer is not there as on the wire")
        except ReplayMiss as error:
            return self._refused(f"{error}; {HINT}")
        return self._answer(int(http["status"]), str(http["type"]), str(http["body"]).encode())

    def to_record(self, cassette: CassetteProtocol, response: Any) -> Any:
        """Record a real answer, if it is whole; return it such that it can be read as a stream."""
        status, kind = int(response.status_code), str(response.headers.get("content-type", ""))
        body: bytes = response.content
        listener = self.protocol.listener(status)
        listener.feed(body)
        heard = listener.end()
        if heard.pieces and heard.finish is not None and not heard.error:
            messages = [one for piece in heard.pieces for one in self.protocol.read(piece)[0]]
            http = {"status": status, "type": kind, "body": _kept(body, messages)}
            call = cassette.tape.begin(self.said, self.model)
            call.say(messages, heard.finish, {HTTP: http})
        return self._answer(status, kind, body, _headers(response.headers))

    def _refused(self, why: str) -> Any:
        """Return an answer that no client tries again."""
        error = {"type": "invalid_request_error", "message": why}
        body = canonical.to_json_line({"type": "error", "error": error})
        return self._answer(400, "application/json", body)

    def _answer(
        self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Any:
        library = importlib.import_module(type(self.request).__module__.split(".")[0])
        given = headers or {"content-type": kind}
        return library.Response(status, headers=given, content=body, request=self.request)


def _asked(request: Any) -> _Asked | None:
    """Read a request; None: it asks no model, or is not understood."""
    target = request.url.raw_path.decode("ascii")
    protocol = wires.of(target.partition("?")[0])
    if request.method != "POST" or protocol is None:
        return None
    try:
        asked = protocol.take_apart(target, request.read())
    except FormatError:
        return None
    messages = [message for piece in asked.pieces for message in protocol.read(piece)[0]]
    said = ModelRequest(
        agent=AGENT,
        messages=messages,
        tools=asked.tools,
        parameters={**asked.parameters, "model": asked.model},
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash(asked.tools) if asked.tools else None,
    )
    return _Asked(request, protocol, asked.model, redacted(said))


def _kept(body: bytes, messages: Iterable[ChatMessage]) -> str:
    """Return the bytes of an answer as text, without credentials.

    What a stream cuts in pieces has no shape in any of them: such a stream is not kept.
    """
    text = redact(body.decode("utf-8", "replace")).text
    is_stream = not text.lstrip().startswith("{")
    if is_stream and any(clean(message) != message for message in messages):
        return _LEFT_OUT
    return text


def _headers(headers: Any) -> dict[str, str]:
    """Return the headers of an answer that is decompressed and whole."""
    gone = ("content-encoding", "content-length", "transfer-encoding")
    return {name: value for name, value in headers.items() if name.lower() not in gone}
