"""Search: who finds pages on the web, behind a small protocol.

`Web`: what a world knows of the web.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode

from harken.core import canonical
from harken.core.untrusted import from_outside
from harken.world.result import InvalidArguments, ToolError
from harken.world.shell.output import readable
from harken.world.web.address import FetchTarget
from harken.world.web.download import Downloads, error_summary, open_client, read_limited_body

MOST = 20
"""Hits of one search."""
_TIME_S = 20.0
_SIZE_BYTES = 2_000_000
BRAVE = "https://api.search.brave.com/res/v1/web/search"


@dataclass(frozen=True, slots=True)
class WebResult:
    """A page that was found."""

    title: str
    url: str
    excerpt: str = ""


@runtime_checkable
class SearchProvider(Protocol):
    """Somebody who finds pages."""

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Return at most `count` pages, the best first. Raises ToolError where that cannot be."""
        ...


@dataclass(frozen=True, slots=True)
class Searxng:
    """An instance of SearXNG whose configuration has the format `json`.

    Source: docs.searxng.org, Search API.
    """

    url: str

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Ask `/search`."""
        parameters = {"q": query, "format": "json"}
        said = await _asked(f"{self.url.rstrip('/')}/search", parameters, {})
        return _hits(said, ("results",), "content", count)


@dataclass(frozen=True, slots=True)
class Brave:
    """The search API of Brave, or one like it.

    Source: api-dashboard.search.brave.com, Web Search API.
    """

    key: str
    url: str = BRAVE

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Ask for web results."""
        headers = {"x-subscription-token": self.key}
        said = await _asked(self.url, {"q": query, "count": str(count)}, headers)
        return _hits(said, ("web", "results"), "description", count)


async def _asked(url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Any:
    """Return what a service answers, from JSON. Raises ToolError, which names no key."""
    import httpx  # noqa: PLC0415 - an extra

    host = FetchTarget.of(url).authority
    try:
        async with asyncio.timeout(_TIME_S) as limit, open_client() as client:
            target = f"{url}?{urlencode(parameters)}"
            asked = {**headers, "accept": "application/json"}
            async with client.stream("GET", target, headers=asked) as response:
                if response.status_code != 200:
                    raise ToolError(f"the search at {host} answers {response.status_code}")
                data, is_whole = await read_limited_body(response, _SIZE_BYTES)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(f"the search at {host} did not answer within {_TIME_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolError(f"the search at {host} cannot be reached: {error_summary(error)}") from None
    try:
        return canonical.from_json(data) if is_whole else None
    except (ValueError, RecursionError):
        raise ToolError(f"the search at {host} answers what is no JSON") from None


def _hits(said: Any, path: tuple[str, ...], excerpt: str, count: int) -> list[WebResult]:
    """Return what stands at a place of an answer, as far as it is what it should be."""
    for name in path:
        said = said.get(name) if isinstance(said, dict) else None
    found: dict[str, WebResult] = {}
    for one in said if isinstance(said, list) else ():
        if not isinstance(one, dict):
            continue
        try:
            url = str(FetchTarget.of(str(one.get("url", ""))))
        except InvalidArguments:
            continue
        found.setdefault(
            url, WebResult(_line(one.get("title"), 200), url, _line(one.get(excerpt), 500))
        )
    return list(found.values())[:count]


def _line(text: Any, most: int) -> str:
    """Return what a service says as one line."""
    plain = readable(" ".join(text.split())) if isinstance(text, str) else ""
    return from_outside(plain[:most])


@dataclass(frozen=True, slots=True)
class Web:
    """Who fetches pages, and who finds them."""

    downloads: Downloads
    search: SearchProvider
