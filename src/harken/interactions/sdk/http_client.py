"""Wrap an httpx client so that its model calls are recorded.

All requests of an httpx client pass through `send`, and the clients of providers use an httpx
client. The wrapper delegates all work to the original client, including its transports, proxies,
hooks, redirects and retries, and only reads the response stream along. Nothing is patched, and
httpx is not imported: the base class is that of the original client, whether from httpx, httpx2, or
a subclass.
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
_INNER, _BACKGROUND = "_harken_inner", "_harken_background"


def is_http_client(value: object) -> bool:
    """Whether a value is a client of httpx."""
    return any(
        kind.__name__ in ("Client", "AsyncClient") and kind.__module__.split(".")[0] in _LIBRARIES
        for kind in type(value).__mro__
    )


def is_recorded(client: object, background: BackgroundRecorder) -> bool:
    """Whether an httpx client already records to this recorder."""
    return getattr(client, _BACKGROUND, None) is background


def record_http_client(client: Any, background: BackgroundRecorder) -> Any:
    """Return an httpx client that delegates to this one and records its calls.

    Closing one of the clients closes both.
    """
    is_async = inspect.iscoroutinefunction(client.send)
    client_class: Any = type(client)
    wrapper_class = _combine_classes(client_class, _AsyncClient if is_async else _Client)
    wrapper = wrapper_class.__new__(wrapper_class)
    wrapper.__dict__.update(client.__dict__)  # it looks the same, too
    wrapper.__dict__.update({_INNER: client, _BACKGROUND: background})
    return wrapper


@cache
def _combine_classes(kind: Any, mixin: Any) -> Any:
    """Return a cached class that inherits from both."""
    return type(f"Recorded{kind.__name__}", (mixin, kind), {})


class _Client:
    """The methods that a recorded client overrides; all others are inherited."""

    _harken_inner: Any
    _harken_background: BackgroundRecorder

    def build_request(self, *args: Any, **kwargs: Any) -> Any:
        return self._harken_inner.build_request(*args, **kwargs)

    def send(self, request: Any, *, stream: bool = False, **kwargs: Any) -> Any:
        tap = _create_tap(self._harken_background, request)
        if tap is None:
            return self._harken_inner.send(request, stream=stream, **kwargs)
        try:
            response = self._harken_inner.send(request, stream=True, **kwargs)
        except BaseException as error:
            tap.end(_format_reason(error))
            raise
        _attach_tap(response, tap, _SyncStream)
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
    """The asynchronous variant of `_Client`."""

    _harken_inner: Any
    _harken_background: BackgroundRecorder

    def build_request(self, *args: Any, **kwargs: Any) -> Any:
        return self._harken_inner.build_request(*args, **kwargs)

    async def send(self, request: Any, *, stream: bool = False, **kwargs: Any) -> Any:
        tap = _create_tap(self._harken_background, request)
        if tap is None:
            return await self._harken_inner.send(request, stream=stream, **kwargs)
        try:
            response = await self._harken_inner.send(request, stream=True, **kwargs)
        except BaseException as error:
            tap.end(_format_reason(error))
            raise
        _attach_tap(response, tap, _AsyncStream)
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
    """The stream of a response. Its bytes are copied to the tap."""

    def __init__(self, inner: Any, tap: HttpTap) -> None:
        self._inner, self._create_tap = inner, tap

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                self._create_tap.on_chunk(chunk)
                yield chunk
        except BaseException as error:
            self._create_tap.end(_format_reason(error))
            raise
        self._create_tap.end()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._create_tap.end(HUNG_UP)


class _AsyncStream:
    """The asynchronous variant of `_SyncStream`."""

    def __init__(self, inner: Any, tap: HttpTap) -> None:
        self._inner, self._create_tap = inner, tap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._create_tap.on_chunk(chunk)
                yield chunk
        except BaseException as error:
            self._create_tap.end(_format_reason(error))
            raise
        self._create_tap.end()

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._create_tap.end(HUNG_UP)


def _create_tap(background: BackgroundRecorder, request: Any) -> HttpTap | None:
    """Start recording a request. Return None if it is not a model call."""
    with suppress(Exception):  # Recording must never raise into the client's request.
        target = request.url.raw_path.decode("ascii")
        protocol = wires.find_protocol(target.partition("?")[0])
        if request.method == "POST" and protocol is not None:
            headers = _normalize_headers(request.headers)
            return HttpTap(background, protocol, target, headers=headers, body=request.content)
    return None


def _attach_tap(response: Any, tap: HttpTap, mixin: type) -> None:
    """Attach the tap to the stream of a response, or feed a response that is already read."""
    tap.on_head(int(response.status_code), _normalize_headers(response.headers))
    if response.is_stream_consumed:  # The transport does not stream.
        tap.on_chunk(response.content)
        tap.end(is_plain=True)
        return
    for base in type(response.stream).__mro__:
        if base.__name__ in ("SyncByteStream", "AsyncByteStream"):
            response.stream = _combine_classes(base, mixin)(response.stream, tap)
            return
    tap.end("its stream has an unknown type")


def _normalize_headers(headers: Any) -> Mapping[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _format_reason(error: BaseException) -> str:
    """Format on one line why a response ended early."""
    if isinstance(error, GeneratorExit | asyncio.CancelledError | KeyboardInterrupt):
        return HUNG_UP
    name = type(error).__name__
    if "Timeout" in name:
        return f"the client waited no longer ({name})"
    if "Connect" in name and "Remote" not in name:
        return f"the provider was not reached ({name})"
    return f"the provider cut the connection ({name})"
