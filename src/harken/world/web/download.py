"""`Downloads`: fetch pages, with limits on size, time and redirections.

A redirection to another host is reported and not followed, because the approval covers the first
host only.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from harken.world.result import InvalidArguments, ToolError
from harken.world.web.address import FetchTarget, NetworkPolicy

if TYPE_CHECKING:
    import httpx

USER_AGENT = "harken"
_REDIRECT_CODES = frozenset({301, 302, 303, 307, 308})
_MISSING_TEXT = "the extra `web` is not installed: pip install 'harken[web]'"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on a download."""

    size_bytes: int = 5_000_000
    """The maximum decompressed size."""
    time_s: float = 30.0
    """The time limit in total, including redirections."""
    redirects: int = 5
    text_s: float = 20.0
    """The time limit for extracting the main text; after it the full text is used."""


class FetchedPage(msgspec.Struct, frozen=True):
    """The response of a server."""

    place: FetchTarget
    """The final target after redirections."""
    kind: str
    """The media type in the response: `text/html`."""
    charset: str
    """The charset in the response; empty if absent."""
    data: bytes
    is_whole: bool
    """Whether the data is complete."""


def is_installed() -> bool:
    """Whether the extra `web` is installed."""
    return all(find_spec(name) is not None for name in ("httpx", "trafilatura"))


class Downloads(msgspec.Struct, frozen=True):
    """Fetches pages."""

    network_policy: NetworkPolicy = msgspec.field(default_factory=NetworkPolicy)
    bounds: Bounds = msgspec.field(default_factory=Bounds)

    async def page(self, url: str) -> FetchedPage:
        """Fetch a URL.

        Raises ToolError if that fails, InvalidArguments for an invalid URL.
        """
        place = FetchTarget.of(url)
        try:
            async with asyncio.timeout(self.bounds.time_s) as limit, open_client() as client:
                for _ in range(self.bounds.redirects + 1):
                    result = await self._get(client, place)
                    if isinstance(result, FetchedPage):
                        return result
                    place = _resolve_redirect(place, result)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(f"{place} did not respond within {self.bounds.time_s:g} s") from None
        raise ToolError(f"{url} redirects more than {self.bounds.redirects} times")

    async def _get(self, client: httpx.AsyncClient, place: FetchTarget) -> FetchedPage | str:
        """Return a page, or the target of a redirection. Raises ToolError."""
        import httpx  # noqa: PLC0415 - an extra

        failure = ""
        for address in (await self.network_policy.addresses(place))[:3]:
            try:
                async with _open_response(client, place, address) as response:
                    return await self._read(response, place)
            except httpx.ConnectError as error:
                failure = str(error)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ToolError(f"{place} cannot be fetched: {error_summary(error)}") from None
        raise ToolError(f"{place.host} cannot be reached: {failure or 'no connection'}")

    async def _read(self, response: httpx.Response, place: FetchTarget) -> FetchedPage | str:
        target: str = response.headers.get("location", "")
        if response.status_code in _REDIRECT_CODES and target:
            return target
        if response.status_code != 200:
            raise ToolError(
                f"{place} answers {response.status_code} {response.reason_phrase}".strip()
            )
        data, is_whole = await read_limited_body(response, self.bounds.size_bytes)
        kind, _, parameters = response.headers.get("content-type", "").partition(";")
        charset = parameters.lower().partition("charset=")[2].strip().strip("\"'").partition(";")[0]
        return FetchedPage(place, kind.strip().lower(), charset.strip("\"' "), data, is_whole)


def _resolve_redirect(place: FetchTarget, target: str) -> FetchTarget:
    """Return the target of a redirection. Raises ToolError if it is another host."""
    try:
        target_url = FetchTarget.of(urljoin(str(place), target))
    except InvalidArguments as error:
        raise ToolError(f"{place} redirects to a URL that cannot be fetched: {error}") from None
    is_upgrade = place.scheme == "http" and (target_url.scheme, target_url.port) == ("https", 443)
    if target_url.host != place.host or (
        (target_url.scheme, target_url.port) != (place.scheme, place.port) and not is_upgrade
    ):
        raise ToolError(f"{place} redirects to another host: fetch {target_url} to follow it")
    return target_url


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """Open an HTTP client without proxies or cookies of this machine.

    Raises ToolError.
    """
    from http.cookiejar import DefaultCookiePolicy  # noqa: PLC0415 - it brings much along

    try:
        import httpx  # noqa: PLC0415 - an extra
    except ImportError:
        raise ToolError(_MISSING_TEXT) from None
    headers = {"user-agent": USER_AGENT, "accept-encoding": "gzip", "accept": _ACCEPT_TYPES}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=None) as client:  # noqa: S113 - the whole has a bound
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        yield client


_ACCEPT_TYPES = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5"


@asynccontextmanager
async def _open_response(
    client: httpx.AsyncClient, place: FetchTarget, address: str
) -> AsyncIterator[httpx.Response]:
    """Send a request to the checked address, with the host name for TLS and the Host header."""
    host_text = f"[{address}]" if ":" in address else address
    request = client.build_request(
        "GET",
        f"{place.scheme}://{host_text}:{place.port}{place.path}",
        headers={"host": place.authority},
        extensions={"sni_hostname": place.host},
    )
    response = await client.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


async def read_limited_body(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """Return the decompressed body up to a limit, and whether it is complete. Raises ToolError."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(f"the page has an unsupported encoding ({encoding[:40]})")
    decompressor = None if encoding in ("identity", "") else zlib.decompressobj(wbits=47)
    body = bytearray()
    async for piece in response.aiter_raw():
        remaining = most + 1 - len(body)
        try:
            body += (
                piece[:remaining]
                if decompressor is None
                else decompressor.decompress(piece, remaining)
            )
        except zlib.error:
            raise ToolError("the page is damaged: decompression failed") from None
        if len(body) > most:
            return bytes(body[:most]), False
    return bytes(body), True


def error_summary(error: Exception) -> str:
    """Return the message of a connection error on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
