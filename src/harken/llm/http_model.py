"""`HttpModelClient`: calls of models behind HTTP, through the SDK of a vendor.

The SDK sends the request, knows its service's headers and retries where that may help; the response
is decoded as it streams, event by event. Any failure of the SDK, the network or the response
becomes a `ModelError` that names the model, the cause and a remedy.

The invariant: no text that leaves this module holds a key.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from harken.core import canonical, structs
from harken.core.arguments import check_arguments
from harken.core.loopback import is_loopback
from harken.core.stream import Chunk, Finish, ThinkingDelta
from harken.errors import ConfigError, ModelError
from harken.formats.providers.sse import EventReader, ServerEvent
from harken.llm.http_errors import ModelErrorFactory
from harken.llm.prices import Cost
from harken.llm.retries import watch_retries

Import: TypeAlias = Callable[[str], Any]
"""Imports a module by its name."""

MAX_RETRY_DELAY_S = 60
"""If a service asks for a longer delay before a retry, the call fails at once, because a user would
see no progress."""
CONNECT_TIMEOUT_S = 10.0
"""The timeout of connecting."""
_NO_PROXY = {"http://": None, "https://": None, "all://": None}
"""Replaces the proxies of the environment."""
_DRAIN_TIMEOUT_S = 0.1
_LATE_IMPORT = "anyio._backends._asyncio"
"""A module that the SDKs would otherwise import during the first request, which a user waits for.
"""
MAX_ERROR_BYTES = 64 * 1024
"""The number of bytes read of a response that is an error or no stream. Its message is at the
beginning."""
_ERROR_TIMEOUT_S = 10.0
"""The timeout of reading the body of an error."""
_FAILURE_REASONS = frozenset(
    {"error", "cancelled", "interrupted", "abort", "insufficient_system_resource"}
)
"""Stop reasons of failed answers, in Harken's logs and of vLLM and DeepSeek."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """The address of a service and the settings of its client."""

    base_url: str | None = None
    """None for the vendor's own."""
    api_key: str | None = field(default=None, repr=False)
    """None if the service requires no key."""
    key_name: str | None = None
    """The name of the variable of the key, for error texts: `ANTHROPIC_API_KEY`."""
    timeout_s: float = 600
    """The maximum time without data, before and during a response."""
    max_retries: int = 4
    """The maximum number of retries if the service is busy or cannot be reached."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, in addition to those of the SDK."""
    omit: tuple[str, ...] = ()
    """Parameters that the service refuses and that are never sent."""
    short_ids: bool = False
    """Whether the service accepts only call ids of nine letters and digits."""

    def filter_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters to send, without those that are None or refused."""
        return {
            name: value
            for name, value in parameters.items()
            if value is not None and name not in self.omit
        }


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """An SDK and the address of its service."""

    sdk: str
    """The module, and the name of the extra that installs it."""
    client: str
    base_url: str
    path: str


class StreamDecoder(Protocol):
    """Decodes the events of one response into chunks."""

    is_ended: bool
    """Whether the end event was received."""
    is_unusual: bool
    """Whether the response was billed in a way that usage and a table of prices do not show."""

    def iter_chunks(self, event: Any) -> Iterable[Chunk]:
        """Yield the chunks of an event, a JSON value. Raises ValueError if it is malformed."""
        ...

    def finish(self) -> Finish | None:
        """Return the end of the response. Return None if it was cut off."""
        ...


class HttpModelClient:
    """A client of one service through the SDK of its vendor, which is imported on first use."""

    def __init__(
        self,
        vendor: Vendor,
        endpoint: ModelEndpoint,
        name: str,
        *,
        cost: Cost | None = None,
        import_sdk: Import = importlib.import_module,
    ) -> None:
        """Create a client. `name` is the name of the model in errors."""
        self.endpoint = endpoint
        self.failures = ModelErrorFactory(
            model=name,
            host=parse_host(endpoint.base_url or vendor.base_url),
            key=endpoint.api_key,
            key_name=endpoint.key_name,
            timeout_s=endpoint.timeout_s,
        )
        self._vendor, self._cost, self._import = vendor, cost, import_sdk
        self._clients = _Clients(self._make_client)

    def warm_up(self) -> None:
        """Import the SDK and create a client, ahead of the first request; from any thread.

        Raises ConfigError if the SDK is not installed.
        """
        self._clients.warm_up()

    async def answer(
        self, body: Mapping[str, Any], decoder: StreamDecoder
    ) -> AsyncGenerator[Chunk]:
        """Send a request, and yield the chunks of the answer, ending with its `Finish`.

        Closing the generator closes the connection. Raises ModelError, for an unusable answer after
        its `Finish`, which holds the usage, and ConfigError if the SDK is not installed.
        """
        is_silent, is_empty = True, True
        failures, beginning = self.failures, bytearray()
        try:
            client = await self._clients.client()
            stream = await client.post(
                self._vendor.path,
                cast_to=object,
                content=canonical.to_json_line(body),
                stream=True,
                stream_cls=self._sdk().AsyncStream[object],
            )
            failures = failures.for_response(stream.response.headers)
            async with aclosing(_iter_events(stream.response, decoder, beginning)) as events:
                async for event in events:
                    is_silent = False
                    for chunk in _decode_event(event, decoder, failures):
                        is_empty = is_empty and isinstance(chunk, ThinkingDelta)
                        yield chunk
            kind = stream.response.headers.get("content-type", "")
            if is_silent and "event-stream" not in kind:
                raise failures.unstreamed(bytes(beginning), kind)
        except (ModelError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - an SDK may raise anything
            if decoder.finish() is None:  # Otherwise the answer is complete.
                raise failures.from_exception(error) from None
        finish = decoder.finish()
        if finish is None:
            raise failures.for_truncated_stream()
        yield (
            finish if decoder.is_unusual else self._with_cost(finish, requested_model=body["model"])
        )
        if is_empty or finish.stop_reason in _FAILURE_REASONS:
            raise failures.no_answer(finish.stop_reason)

    def _with_cost(self, finish: Finish, *, requested_model: str) -> Finish:
        """Return the end of an answer with its cost.

        A cost reported by the service takes precedence; else the price of the answering model is
        used, and then that of the requested model.
        """
        if self._cost is None or finish.usage is None or finish.cost_usd is not None:
            return finish
        for model in dict.fromkeys([finish.model or requested_model, requested_model]):
            cost_usd = self._cost(finish.usage, model)
            if cost_usd is not None:
                return structs.replace(finish, cost_usd=cost_usd)
        return finish

    def _sdk(self) -> Any:
        sdk = self._vendor.sdk
        try:
            return self._import(sdk)
        except Exception as error:  # noqa: BLE001 - a partial install may raise anything
            raise ConfigError(
                f"the package {sdk} is needed and cannot be imported ({error}): "
                f"pip install 'harken[{sdk}]'"
            ) from None

    def _make_client(self) -> Any:
        sdk = self._sdk()
        with suppress(ImportError):
            self._import(_LATE_IMPORT)
        try:
            return self._build_client(sdk)
        except (AttributeError, TypeError) as error:
            version = getattr(sdk, "__version__", "of unknown version")
            raise ConfigError(
                f"the package {self._vendor.sdk} {version} does not fit ({error}): "
                f"pip install --upgrade 'harken[{self._vendor.sdk}]'"
            ) from None

    def _build_client(self, sdk: Any) -> Any:
        """Return a client that contacts only its base URL.

        A redirect would send a conversation to a host that the user has not chosen. A local service
        is not contacted through a proxy, which would resolve the address on its own host. Headers
        of the SDK's environment variables may hold keys for its vendor, so they are not sent.
        """
        endpoint = self.endpoint
        base_url = endpoint.base_url or self._vendor.base_url
        timeout = sdk.Timeout(endpoint.timeout_s, connect=CONNECT_TIMEOUT_S)
        client = getattr(sdk, self._vendor.client)(
            api_key=endpoint.api_key or "none",  # Without a key, the SDK reads the environment.
            base_url=base_url,
            timeout=timeout,
            max_retries=endpoint.max_retries,
            default_headers=endpoint.headers,
            http_client=sdk.DefaultAsyncHttpxClient(
                timeout=timeout,
                event_hooks={"response": [_limit_retry_delay, _limit_error_body]},
                follow_redirects=False,
                mounts=_NO_PROXY if _is_local(base_url) else {},
            ),
        )
        watch_retries(client, self.failures.model, endpoint.max_retries)
        client._custom_headers = dict(endpoint.headers)  # noqa: SLF001 - no public API
        for name in ("organization", "project"):
            if hasattr(client, name):
                setattr(client, name, None)
        return client


class _Clients:
    """The clients of one service by event loop, because connections belong to a loop."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._create_client = make
        self._spare: Any = None
        self._lock = Lock()
        self._ready: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._closers: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = (
            WeakKeyDictionary()
        )

    def warm_up(self) -> None:
        """Create a client for the next loop that requests one."""
        with self._lock:
            if self._spare is None:
                self._spare = self._create_client()

    async def client(self) -> Any:
        """Return the client of the running loop. It is closed when the loop ends."""
        loop = asyncio.get_running_loop()
        while loop not in self._ready:
            await asyncio.to_thread(self.warm_up)  # Importing an SDK takes about a second.
            with self._lock:
                spare = None if loop in self._ready else self._spare
                if spare is not None:
                    self._ready[loop], self._spare = spare, None
            if spare is not None:
                # asyncio closes open generators when a loop ends. There is no other hook for
                # the end of a loop, and open connections would cause warnings.
                self._closers[loop] = self._close_with_loop(loop, spare)
                await anext(self._closers[loop])
        return self._ready[loop]

    async def _close_with_loop(
        self, loop: asyncio.AbstractEventLoop, client: Any
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._ready.pop(loop, None)
            self._closers.pop(loop, None)
            await client.close()


async def _iter_events(
    response: Any, decoder: StreamDecoder, beginning: bytearray
) -> AsyncGenerator[ServerEvent]:
    """Yield the events of a response, then close it.

    The beginning of a response that is no stream is added to `beginning`, because it may be an
    error. After the last event, only data that is available at once is read: a connection can be
    reused only if it was read to its end.
    """
    reader = EventReader()
    is_silent, is_stream = True, "event-stream" in response.headers.get("content-type", "")
    try:
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    is_silent = False
                    yield event
                if is_silent and not is_stream and len(beginning) <= MAX_ERROR_BYTES:
                    beginning += piece
                elif is_silent and beginning.lstrip().startswith((b"{", b"[", b"<")):
                    return  # The end of a JSON body or an HTML page may never arrive.
                if decoder.is_ended:
                    with suppress(Exception):
                        async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                            await anext(pieces, None)
                    return
        for event in reader.end():
            yield event
    finally:
        await response.aclose()


def _decode_event(
    event: ServerEvent, decoder: StreamDecoder, failures: ModelErrorFactory
) -> Iterable[Chunk]:
    """Decode the chunks of an event. Raises ModelError if the event reports a failure."""
    try:
        value = event.data.decode() if event.data == b"[DONE]" else canonical.from_json(event.data)
    except ValueError:
        if event.name == "error":
            raise failures.from_body(event.data.decode("utf-8", "replace")) from None
        raise failures.malformed(event.data, "an event that is not JSON") from None
    if isinstance(value, dict):
        if value.get("error"):
            raise failures.from_body(value["error"])
        if event.name == "error" or value.get("object") == "error":
            raise failures.from_body(value)
    try:
        return [*decoder.iter_chunks(value)]
    except ValueError as error:
        raise failures.malformed(event.data, str(error)) from None


async def _limit_retry_delay(response: Any) -> None:
    """Prevent the SDK from waiting for a retry delay above the limit."""
    headers = response.headers
    try:
        wait_s = float(headers.get("retry-after-ms") or 0) / 1000
        wait_s = wait_s or float(headers.get("retry-after") or 0)
    except ValueError:
        return
    if wait_s > MAX_RETRY_DELAY_S:
        response.headers["x-should-retry"] = "false"


async def _limit_error_body(response: Any) -> None:
    """Prevent the SDK from reading the body of an error to its end, which may never arrive.

    The bytes that arrived until the connection breaks, or within ten seconds, are the body.
    """
    if response.status_code < 300:
        return
    body = bytearray()
    with suppress(Exception):
        async with asyncio.timeout(_ERROR_TIMEOUT_S), aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > MAX_ERROR_BYTES:
                    break
    await response.aclose()
    response._content = bytes(body)  # noqa: SLF001 - `aread` sets it; no public API


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def parse_host(url: str) -> str:
    """Return the host of a URL, without user information."""
    try:
        host = urlsplit(url).netloc
    except ValueError:
        host = ""
    return (host or url).rpartition("@")[2]
