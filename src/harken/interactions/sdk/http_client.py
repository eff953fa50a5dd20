"""An httpx client like another one, whose model calls are recorded as they pass.

One idea: `send` is the one place through which all requests of an httpx client go, and the clients
of providers are built on one. So the other client does all the work, its transports, proxies,
hooks, redirects and retries included; here only the stream of the answer is looked at. Nothing is
patched, and httpx is not imported: the classes are those of the client that is given, be it of
httpx, of httpx2, or a subclass.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from harken.formats.wire import registry as wires
from harken.interactions.sdk.background import BackgroundRecorder
from harken.interactions.sdk.tap import HUNG_UP, HttpTap

_LIBRARIES = ("httpx", "httpx2")
_INNER, _HEARD_BY = "_harken_inner", "_harken_background"


def is_http_client(value: object) -> bool:
    """Whether something is a client of httpx."""
    return any(
        kind.__name__ in ("Client", "AsyncClient") and kind.__module__.split(".")[0] in _LIBRARIES
        for kind in type(value).__mro__
    )


def is_recorded(client: object, background: BackgroundRecorder) -> bool:
    """Whether the calls of an httpx client are recorded there already."""
    return getattr(client, _HEARD_BY, None) is background


def recorded(client: Any, background: BackgroundRecorder) -> Any:
    """Return an httpx client that does all through this one, and has its calls recorded.

    Closing either closes both.
    """
    is_async = inspect.iscoroutinefunction(client.send)
    made_of: Any = type(client)
    kind = _kind_of(made_of, _AsyncClient if is_async else _Client)
    made = kind.__new__(kind)
    made.__dict__.update(client.__dict__)  # it looks the same, too
    made.__dict__.update({_INNER: client, _HEARD_BY: background})
    return made


@cache
def _kind_of(kind: Any, ours: Any) -> Any:
    """Return a class that is both, made once."""
    return type(f"Recorded{kind.__name__}", (ours, kind), {})


class _Client:
    """What a recorded client does itself; the rest it leaves to the one that it is made from."""

    _harken_inner: Any
    _harken_background: BackgroundRecorder

    def build_request(self, *given: Any, **named: Any) -> Any:
        return self._harken_inner.build_request(*given, **named)

    def send(self, request: Any, *, stream: bool = False, **named: Any) -> Any:
        tap = _tap(self._harken_background, request)
        if tap is None:
            return self._harken_inner.send(request, stream=stream, **named)
        try:
            response = self._harken_inner.send(request, stream=True, **named)
        except BaseException as error:
            tap.end(_why(error))
            raise
        _listen(response, tap, _SyncStream)
        if stream:
            return response
        try:
            response.read()
        except BaseException:
            response.close()
            raise
        return response

    @property
    def is_closed(self) -> bool:
        return bool(self._harken_inner.is_closed)

    def close(self) -> None:
        self._harken_inner.close()

    def __enter__(self) -> Any:
        self._harken_inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._harken_inner.__exit__(*error)

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


class _AsyncClient:
    """The same, for `async`."""

    _harken_inner: Any
    _harken_background: BackgroundRecorder

    def build_request(self, *given: Any, **named: Any) -> Any:
        return self._harken_inner.build_request(*given, **named)

    async def send(self, request: Any, *, stream: bool = False, **named: Any) -> Any:
        tap = _tap(self._harken_background, request)
        if tap is None:
            return await self._harken_inner.send(request, stream=stream, **named)
        try:
            response = await self._harken_inner.send(request, stream=True, **named)
        except BaseException as error:
            tap.end(_why(error))
            raise
        _listen(response, tap, _AsyncStream)
        if stream:
            return response
        try:
            await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response

    @property
    def is_closed(self) -> bool:
        return bool(self._harken_inner.is_closed)

    async def aclose(self) -> None:
        await self._harken_inner.aclose()

    async def __aenter__(self) -> Any:
        await self._harken_inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._harken_inner.__aexit__(*error)

    def __del__(self) -> None:
        """Leave the connections to the client that opened them."""


class _SyncStream:
    """The bytes of an answer, which pass on as they come."""

    def __init__(self, inner: Any, tap: HttpTap) -> None:
        self._inner, self._tap = inner, tap

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                self._tap.heard(chunk)
                yield chunk
        except BaseException as error:
            self._tap.end(_why(error))
            raise
        self._tap.end()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._tap.end(HUNG_UP)


class _AsyncStream:
    """The same, for `async`."""

    def __init__(self, inner: Any, tap: HttpTap) -> None:
        self._inner, self._tap = inner, tap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._tap.heard(chunk)
                yield chunk
        except BaseException as error:
            self._tap.end(_why(error))
            raise
        self._tap.end()

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._tap.end(HUNG_UP)


def _tap(background: BackgroundRecorder, request: Any) -> HttpTap | None:
    """Begin to record a request; None: it asks no model, or what it sends is not known yet."""
    with suppress(Exception):  # of a request of whatever make: its client must not notice
        target = request.url.raw_path.decode("ascii")
        protocol = wires.of(target.partition("?")[0])
        if request.method == "POST" and protocol is not None:
            headers = _headers(request.headers)
            return HttpTap(background, protocol, target, headers=headers, body=request.content)
    return None


def _listen(response: Any, tap: HttpTap, ours: type) -> None:
    """Put the tap on the stream of an answer, or take the answer where it is there already."""
    tap.answered(int(response.status_code), _headers(response.headers))
    if response.is_stream_consumed:  # a transport that does not stream
        tap.heard(response.content)
        tap.end(is_plain=True)
        return
    for base in type(response.stream).__mro__:
        if base.__name__ in ("SyncByteStream", "AsyncByteStream"):
            response.stream = _kind_of(base, ours)(response.stream, tap)
            return
    tap.end("its stream is of a kind that is not known here")


def _headers(headers: Any) -> Mapping[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _why(error: BaseException) -> str:
    """Return on one line why there is no more of an answer."""
    if isinstance(error, GeneratorExit | asyncio.CancelledError | KeyboardInterrupt):
        return HUNG_UP
    name = type(error).__name__
    if "Timeout" in name:
        return f"the client waited no longer ({name})"
    if "Connect" in name and "Remote" not in name:
        return f"the provider was not reached ({name})"
    return f"the provider cut the connection ({name})"
