"""What models behind a network share: a service is asked, and what fails says so in one line.

One idea: a vendor's SDK sends the request, knows its service's headers and asks again where that
may help; the answer is read as it streams, event by event. Whatever goes wrong on the way, in the
SDK, the network or the answer, is a `ModelError` that tells a person what, where and what to do.

The invariant: no text that leaves this module holds a key.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from harken.core import canonical
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

PATIENCE_S = 60
"""Where a service asks to come back later than this, nobody waits: a person would see nothing."""
CONNECT_S = 10.0
"""How long a connection may take."""
_NO_PROXY = {"http://": None, "https://": None, "all://": None}
"""Instead of the proxies that the environment names."""
_DRAIN_S = 0.1
_LATE = "anyio._backends._asyncio"
"""What the SDKs would import in the first request, which a person waits for."""
MAX_ERROR = 64 * 1024
"""How many bytes are read of an answer that is an error, or no stream: its message stands first."""
_ERROR_S = 10.0
"""For how long the body of an error is read."""
_UNWHOLE = frozenset({"error", "cancelled", "interrupted", "abort", "insufficient_system_resource"})
"""How an answer ends that is none: what a log says of failed calls, vLLM and DeepSeek of theirs."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Where a service is, and how patiently it is asked."""

    base_url: str | None = None
    """None: the vendor's own."""
    api_key: str | None = field(default=None, repr=False)
    """None: the service wants none."""
    key_name: str | None = None
    """Where a person would set the key, for the text of errors: `ANTHROPIC_API_KEY`."""
    timeout_s: float = 600
    """How long the service may say nothing, before an answer and within it."""
    max_retries: int = 4
    """How often it is asked again where it is busy or cannot be reached."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, beside what the SDK sends."""
    omit: tuple[str, ...] = ()
    """Parameters that the service refuses: they are never sent."""
    short_ids: bool = False
    """Whether the service takes no ids of calls but such of nine letters and digits."""

    def sent(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a request's parameters that are sent: not what is None, or refused."""
        return {
            name: value
            for name, value in parameters.items()
            if value is not None and name not in self.omit
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """An SDK, and how its service is asked."""

    sdk: str
    """The module, which is also the name of the extra that installs it."""
    client: str
    base_url: str
    path: str


class StreamDecoder(Protocol):
    """Turns the events of one answer into chunks."""

    ended: bool
    """Whether the answer said that it is at its end."""
    unusual: bool
    """Whether it was billed in a way that usage and a table of prices do not tell."""

    def chunks(self, event: Any) -> Iterable[Chunk]:
        """Yield the chunks of an event, a JSON value. Raises ValueError where it makes no sense."""
        ...

    def finish(self) -> Finish | None:
        """Return the end of the answer; None where it was cut off."""
        ...


class HttpModelClient:
    """One service, through the SDK of its vendor. The SDK is imported when it is first used."""

    def __init__(
        self,
        vendor: Vendor,
        endpoint: ModelEndpoint,
        name: str,
        *,
        cost: Cost | None = None,
        import_sdk: Import = importlib.import_module,
    ) -> None:
        """Prepare to ask; `name` is what errors call the model."""
        self.endpoint = endpoint
        self.failures = ModelErrorFactory(
            model=name,
            host=host_of(endpoint.base_url or vendor.base_url),
            key=endpoint.api_key,
            key_name=endpoint.key_name,
            timeout_s=endpoint.timeout_s,
        )
        self._vendor, self._cost, self._import = vendor, cost, import_sdk
        self._clients = _Clients(self._make_client)

    def warm_up(self) -> None:
        """Import the SDK and make a client, ahead of the first request; from any thread.

        Raises ConfigError where the SDK is not installed.
        """
        self._clients.warm_up()

    async def answer(
        self, body: Mapping[str, Any], decoder: StreamDecoder
    ) -> AsyncGenerator[Chunk]:
        """Ask, and yield the chunks of the answer, ending with its `Finish`.

        Closing the generator closes the connection. Raises ModelError, where the answer is none
        after its `Finish`, which says what it used; ConfigError where the SDK is not installed.
        """
        is_silent, says_nothing = True, True
        failures, begun = self.failures, bytearray()
        try:
            client = await self._clients.client()
            stream = await client.post(
                self._vendor.path,
                cast_to=object,
                content=canonical.to_json_line(body),
                stream=True,
                stream_cls=self._sdk().AsyncStream[object],
            )
            failures = failures.about(stream.response.headers)
            async with aclosing(_events(stream.response, decoder, begun)) as events:
                async for event in events:
                    is_silent = False
                    for chunk in _read(event, decoder, failures):
                        says_nothing = says_nothing and isinstance(chunk, ThinkingDelta)
                        yield chunk
            kind = stream.response.headers.get("content-type", "")
            if is_silent and "event-stream" not in kind:
                raise failures.unstreamed(bytes(begun), kind)
        except (ModelError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - the border: whatever an SDK raises is told
            if decoder.finish() is None:  # else all is said, and only the goodbye was lost
                raise failures.of(error) from None
        finish = decoder.finish()
        if finish is None:
            raise failures.cut_off()
        yield finish if decoder.unusual else self._priced(finish, asked=body["model"])
        if says_nothing or finish.stop_reason in _UNWHOLE:
            raise failures.no_answer(finish.stop_reason)

    def _priced(self, finish: Finish, *, asked: str) -> Finish:
        """Return the end of an answer with what it cost.

        What the service itself says of the cost stands; else the price of the model that answered
        is looked up, and then that of the model that was asked for.
        """
        if self._cost is None or finish.usage is None or finish.cost_usd is not None:
            return finish
        for model in dict.fromkeys([finish.model or asked, asked]):
            cost_usd = self._cost(finish.usage, model)
            if cost_usd is not None:
                return replace(finish, cost_usd=cost_usd)
        return finish

    def _sdk(self) -> Any:
        sdk = self._vendor.sdk
        try:
            return self._import(sdk)
        except Exception as error:  # noqa: BLE001 - what is half installed fails in its own ways
            raise ConfigError(
                f"the package {sdk} is needed and cannot be imported ({error}): "
                f"pip install 'harken[{sdk}]'"
            ) from None

    def _make_client(self) -> Any:
        sdk = self._sdk()
        with suppress(ImportError):
            self._import(_LATE)
        try:
            return self._client_of(sdk)
        except (AttributeError, TypeError) as error:
            version = getattr(sdk, "__version__", "of unknown version")
            raise ConfigError(
                f"the package {self._vendor.sdk} {version} does not fit ({error}): "
                f"pip install --upgrade 'harken[{self._vendor.sdk}]'"
            ) from None

    def _client_of(self, sdk: Any) -> Any:
        """Return a client that goes where it is sent and nowhere else.

        A redirect would carry a conversation to somebody whom nobody has chosen. What is on this
        machine is not asked through a proxy, which would look for it on its own. Headers that the
        environment gives to the SDK may hold keys, and are for its vendor: they are not sent.
        """
        endpoint = self.endpoint
        base_url = endpoint.base_url or self._vendor.base_url
        timeout = sdk.Timeout(endpoint.timeout_s, connect=CONNECT_S)
        client = getattr(sdk, self._vendor.client)(
            api_key=endpoint.api_key or "none",  # else the SDK would look for one on its own
            base_url=base_url,
            timeout=timeout,
            max_retries=endpoint.max_retries,
            default_headers=endpoint.headers,
            http_client=sdk.DefaultAsyncHttpxClient(
                timeout=timeout,
                event_hooks={"response": [_not_too_patient, _not_too_long]},
                follow_redirects=False,
                mounts=_NO_PROXY if _is_here(base_url) else {},
            ),
        )
        watch_retries(client, self.failures.model, endpoint.max_retries)
        client._custom_headers = dict(endpoint.headers)  # noqa: SLF001 - there is no other way
        for name in ("organization", "project"):
            if hasattr(client, name):
                setattr(client, name, None)
        return client


class _Clients:
    """The clients of one service: one for each event loop, to which its connections belong."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._spare: Any = None
        self._lock = Lock()
        self._ready: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = (
            WeakKeyDictionary()
        )

    def warm_up(self) -> None:
        """Make a client for the loop that asks for one next."""
        with self._lock:
            if self._spare is None:
                self._spare = self._make()

    async def client(self) -> Any:
        """Return the client of the running loop; it is closed when the loop ends."""
        loop = asyncio.get_running_loop()
        while loop not in self._ready:
            await asyncio.to_thread(self.warm_up)  # it takes a second: the loop goes on meanwhile
            with self._lock:
                spare = None if loop in self._ready else self._spare
                if spare is not None:
                    self._ready[loop], self._spare = spare, None
            if spare is not None:
                # asyncio closes the generators that are still open when a loop ends: nothing else
                # tells of that end, and connections left open would be warned about.
                self._kept[loop] = self._keep(loop, spare)
                await anext(self._kept[loop])
        return self._ready[loop]

    async def _keep(self, loop: asyncio.AbstractEventLoop, client: Any) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._ready.pop(loop, None)
            self._kept.pop(loop, None)
            await client.close()


async def _events(
    response: Any, decoder: StreamDecoder, begun: bytearray
) -> AsyncGenerator[ServerEvent]:
    """Yield the events of an answer, then close it.

    Where it is no stream, its beginning is added to `begun`: it may tell of an error. After the
    last event nothing is waited for, but what comes at once is read: only a connection that was
    read to its end can be used again.
    """
    reader = EventReader()
    is_silent, is_stream = True, "event-stream" in response.headers.get("content-type", "")
    try:
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    is_silent = False
                    yield event
                if is_silent and not is_stream and len(begun) <= MAX_ERROR:
                    begun += piece
                elif is_silent and begun.lstrip().startswith((b"{", b"[", b"<")):
                    return  # JSON or a page, which is not read to an end that may never come
                if decoder.ended:
                    with suppress(Exception):
                        async with asyncio.timeout(_DRAIN_S):
                            await anext(pieces, None)
                    return
        for event in reader.end():
            yield event
    finally:
        await response.aclose()


def _read(
    event: ServerEvent, decoder: StreamDecoder, failures: ModelErrorFactory
) -> Iterable[Chunk]:
    """Return the chunks of an event. Raises ModelError where it tells of a failure."""
    try:
        value = event.data.decode() if event.data == b"[DONE]" else canonical.from_json(event.data)
    except ValueError:
        if event.name == "error":
            raise failures.told(event.data.decode("utf-8", "replace")) from None
        raise failures.malformed(event.data, "an event that is no JSON") from None
    if isinstance(value, dict):
        if value.get("error"):
            raise failures.told(value["error"])
        if event.name == "error" or value.get("object") == "error":
            raise failures.told(value)
    try:
        return [*decoder.chunks(value)]
    except ValueError as error:
        raise failures.malformed(event.data, str(error)) from None


async def _not_too_patient(response: Any) -> None:
    """Keep an SDK from sleeping through what a service asks it to wait."""
    headers = response.headers
    try:
        wait_s = float(headers.get("retry-after-ms") or 0) / 1000
        wait_s = wait_s or float(headers.get("retry-after") or 0)
    except ValueError:
        return
    if wait_s > PATIENCE_S:
        response.headers["x-should-retry"] = "false"


async def _not_too_long(response: Any) -> None:
    """Keep an SDK from reading the body of an error to its end, which may never come.

    What has arrived when the connection breaks, or in ten seconds, is what it says.
    """
    if response.status_code < 300:
        return
    body = bytearray()
    with suppress(Exception):
        async with asyncio.timeout(_ERROR_S), aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > MAX_ERROR:
                    break
    await response.aclose()
    response._content = bytes(body)  # noqa: SLF001 - where `aread` puts it; there is no other way


def _is_here(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def host_of(url: str) -> str:
    """Return the host of a URL, without what stands before it of a user."""
    try:
        host = urlsplit(url).netloc
    except ValueError:
        host = ""
    return (host or url).rpartition("@")[2]
