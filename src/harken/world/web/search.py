"""Web search providers, behind a small protocol.

`Web` combines downloads with a search provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode

import msgspec

from harken.core import canonical
from harken.core.untrusted import escape_hook_markers
from harken.world.result import InvalidArguments, ToolError
from harken.world.shell.output import readable
from harken.world.web.address import FetchTarget
from harken.world.web.download import Downloads, error_summary, open_client, read_limited_body

MAX_RESULTS = 20
"""The maximum number of results of one search."""
_TIME_S = 20.0
_SIZE_BYTES = 2_000_000
BRAVE = "https://api.search.brave.com/res/v1/web/search"


class WebResult(msgspec.Struct, frozen=True):
    """A page in the search results."""

    title: str
    url: str
    excerpt: str = ""


@runtime_checkable
class SearchProvider(Protocol):
    """A web search service."""

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Return at most `count` pages, the best first. Raises ToolError if the search fails."""
        ...


class Searxng(msgspec.Struct, frozen=True):
    """A SearXNG instance that has the format `json` enabled.

    Source: docs.searxng.org, Search API.
    """

    url: str

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Query `/search`."""
        parameters = {"q": query, "format": "json"}
        response = await _fetch_json(f"{self.url.rstrip('/')}/search", parameters, {})
        return _parse_results(response, ("results",), "content", count)


class Brave(msgspec.Struct, frozen=True):
    """The search API of Brave, or a compatible one.

    Source: api-dashboard.search.brave.com, Web Search API.
    """

    key: str
    url: str = BRAVE

    async def search(self, query: str, count: int) -> list[WebResult]:
        """Query web results."""
        headers = {"x-subscription-token": self.key}
        response = await _fetch_json(self.url, {"q": query, "count": str(count)}, headers)
        return _parse_results(response, ("web", "results"), "description", count)


async def _fetch_json(url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Any:
    """Query a service and parse its JSON. Raises ToolError, which contains no key."""
    import httpx  # noqa: PLC0415 - an extra

    host = FetchTarget.of(url).authority
    try:
        async with asyncio.timeout(_TIME_S) as limit, open_client() as client:
            target = f"{url}?{urlencode(parameters)}"
            request_headers = {**headers, "accept": "application/json"}
            async with client.stream("GET", target, headers=request_headers) as response:
                if response.status_code != 200:
                    raise ToolError(f"the search at {host} failed: HTTP {response.status_code}")
                data, is_whole = await read_limited_body(response, _SIZE_BYTES)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(f"the search at {host} did not respond within {_TIME_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolError(f"the search at {host} cannot be reached: {error_summary(error)}") from None
    try:
        return canonical.from_json(data) if is_whole else None
    except (ValueError, RecursionError):
        raise ToolError(f"the search at {host} did not return JSON") from None


def _parse_results(
    response: Any, path: tuple[str, ...], excerpt: str, count: int
) -> list[WebResult]:
    """Parse the results at a path in a response; skip malformed ones."""
    for name in path:
        response = response.get(name) if isinstance(response, dict) else None
    results: dict[str, WebResult] = {}
    for item in response if isinstance(response, list) else ():
        if not isinstance(item, dict):
            continue
        try:
            url = str(FetchTarget.of(str(item.get("url", ""))))
        except InvalidArguments:
            continue
        results.setdefault(
            url, WebResult(_to_line(item.get("title"), 200), url, _to_line(item.get(excerpt), 500))
        )
    return list(results.values())[:count]


def _to_line(text: Any, max_chars: int) -> str:
    """Return a text of a service as one line."""
    line = readable(" ".join(text.split())) if isinstance(text, str) else ""
    return escape_hook_markers(line[:max_chars])


class Web(msgspec.Struct, frozen=True):
    """The web access of a world: downloads and search."""

    downloads: Downloads
    search: SearchProvider
