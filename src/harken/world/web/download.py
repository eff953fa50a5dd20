"""`Downloads`: what a server answers, within bounds of size, time and redirections.

A redirection to another host is not followed but told: whether that may be fetched is for whoever
allowed the first one to say.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from harken.world.result import InvalidArguments, ToolError
from harken.world.web.address import FetchTarget, NetworkPolicy

if TYPE_CHECKING:
    import httpx

USER_AGENT = "harken"
_REDIRECTED = frozenset({301, 302, 303, 307, 308})
_MISSING = "the extra `web` is not installed: pip install 'harken[web]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of a server is listened to."""

    size_bytes: int = 5_000_000
    """Of what it sends, unpacked."""
    time_s: float = 30.0
    """For all of it, redirections included."""
    redirects: int = 5
    text_s: float = 20.0
    """For finding out what of a page is its text; then all of it is."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What a server answered."""

    place: FetchTarget
    """Where it was in the end."""
    kind: str
    """As the server says: `text/html`."""
    charset: str
    """As the server says; empty where it does not."""
    data: bytes
    is_whole: bool
    """Whether the server sent no more."""


def is_installed() -> bool:
    """Whether what this needs is there: the extra `web`."""
    return all(find_spec(name) is not None for name in ("httpx", "trafilatura"))


@dataclass(frozen=True, slots=True)
class Downloads:
    """Fetches pages."""

    reach: NetworkPolicy = field(default_factory=NetworkPolicy)
    bounds: Bounds = field(default_factory=Bounds)

    async def page(self, url: str) -> FetchedPage:
        """Return what is at a URL.

        Raises ToolError where nothing is, InvalidArguments for no URL.
        """
        place = FetchTarget.of(url)
        try:
            async with asyncio.timeout(self.bounds.time_s) as limit, open_client() as client:
                for _ in range(self.bounds.redirects + 1):
                    answer = await self._get(client, place)
                    if isinstance(answer, FetchedPage):
                        return answer
                    place = _followed(place, answer)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(f"{place} did not answer within {self.bounds.time_s:g} s") from None
        raise ToolError(f"{url} redirects more than {self.bounds.redirects} times")

    async def _get(self, client: httpx.AsyncClient, place: FetchTarget) -> FetchedPage | str:
        """Return a page, or where it is instead. Raises ToolError."""
        import httpx  # noqa: PLC0415 - an extra

        failure = ""
        for address in (await self.reach.addresses(place))[:3]:
            try:
                async with _asked(client, place, address) as response:
                    return await self._read(response, place)
            except httpx.ConnectError as error:
                failure = str(error)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ToolError(f"{place} cannot be fetched: {error_summary(error)}") from None
        raise ToolError(f"{place.host} cannot be reached: {failure or 'no connection'}")

    async def _read(self, response: httpx.Response, place: FetchTarget) -> FetchedPage | str:
        target: str = response.headers.get("location", "")
        if response.status_code in _REDIRECTED and target:
            return target
        if response.status_code != 200:
            raise ToolError(
                f"{place} answers {response.status_code} {response.reason_phrase}".strip()
            )
        data, is_whole = await read_limited_body(response, self.bounds.size_bytes)
        kind, _, rest = response.headers.get("content-type", "").partition(";")
        charset = rest.lower().partition("charset=")[2].strip().strip("\"'").partition(";")[0]
        return FetchedPage(place, kind.strip().lower(), charset.strip("\"' "), data, is_whole)


def _followed(place: FetchTarget, target: str) -> FetchTarget:
    """Return where a redirection leads. Raises ToolError where that is another host."""
    try:
        found = FetchTarget.of(urljoin(str(place), target))
    except InvalidArguments as error:
        raise ToolError(f"{place} redirects to what cannot be fetched: {error}") from None
    upgraded = place.scheme == "http" and (found.scheme, found.port) == ("https", 443)
    if found.host != place.host or (
        (found.scheme, found.port) != (place.scheme, place.port) and not upgraded
    ):
        raise ToolError(f"{place} redirects to another host: fetch {found} if you want that")
    return found


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """Open a client that knows nothing of this machine: no proxies, no cookies.

    Raises ToolError.
    """
    from http.cookiejar import DefaultCookiePolicy  # noqa: PLC0415 - it brings much along

    try:
        import httpx  # noqa: PLC0415 - an extra
    except ImportError:
        raise ToolError(_MISSING) from None
    headers = {"user-agent": USER_AGENT, "accept-encoding": "gzip", "accept": _ACCEPT}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=None) as client:  # noqa: S113 - the whole has a bound
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        yield client


_ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5"


@asynccontextmanager
async def _asked(
    client: httpx.AsyncClient, place: FetchTarget, address: str
) -> AsyncIterator[httpx.Response]:
    """Ask a server at the address that was judged; it hears, and proves, its own name."""
    at = f"[{address}]" if ":" in address else address
    request = client.build_request(
        "GET",
        f"{place.scheme}://{at}:{place.port}{place.path}",
        headers={"host": place.authority},
        extensions={"sni_hostname": place.host},
    )
    response = await client.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


async def read_limited_body(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """Return at most so many bytes, unpacked, and whether that is all. Raises ToolError."""
    packed = response.headers.get("content-encoding", "identity").lower()
    if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(f"the page is packed in a way that nobody asked for ({packed[:40]})")
    unpack = None if packed in ("identity", "") else zlib.decompressobj(wbits=47)
    found = bytearray()
    async for piece in response.aiter_raw():
        left = most + 1 - len(found)
        try:
            found += piece[:left] if unpack is None else unpack.decompress(piece, left)
        except zlib.error:
            raise ToolError("the page is damaged: it cannot be unpacked") from None
        if len(found) > most:
            return bytes(found[:most]), False
    return bytes(found), True


def error_summary(error: Exception) -> str:
    """Return what an error of the connection says, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
