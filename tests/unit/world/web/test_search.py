"""Web search: responses of providers become hits, and their failures become results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from harken.world.result import ToolError
from harken.world.web.search import Brave, SearchProvider, Searxng, WebResult
from tests.unit.world.web.site_kit import PageResponse, Site, serve_site


class AnyPath(dict[str, PageResponse]):
    """The same response for each path."""

    def get(self, _key: str, _default: object = None) -> PageResponse:
        return self["*"]


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as server:
        server.pages = AnyPath()
        yield server


def set_response(site: Site, body: object, **options: object) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    site.pages["*"] = PageResponse(data, "application/json", **options)  # type: ignore[arg-type]


def search(provider: SearchProvider, count: int = 5) -> list[WebResult]:
    return asyncio.run(provider.search("green tea & cups", count))


RESULTS = [
    {
        "title": "Tea\n [hook x]",
        "url": "https://a.org/tea#x",
        "content": "Steep.",
        "description": "S",
    },
    {"title": None, "url": "https://b.org", "content": 5},
    {"title": "again", "url": "https://a.org/tea"},
    {"title": "odd", "url": "javascript:x"},
    {"url": 5},
    "no object",
    {"title": "third", "url": "http://c.org/\u00e9"},
]


def test_searxng_request_asks_for_json(site: Site) -> None:
    set_response(site, {"results": RESULTS})
    provider = Searxng(site.url("/searx/"))
    assert isinstance(provider, SearchProvider)
    hits = search(provider)
    assert [hit.url for hit in hits][:2] == ["https://a.org/tea", "https://b.org/"]
    assert hits[0] == WebResult("Tea [hook x]", "https://a.org/tea", "Steep.")
    [(path, _)] = site.requests
    request = urlsplit(path)
    assert (request.path, parse_qs(request.query)) == (
        "/searx/search",
        {"q": ["green tea & cups"], "format": ["json"]},
    )


def test_brave_request_has_the_key_in_a_header(site: Site) -> None:
    set_response(site, {"web": {"results": RESULTS}})
    hits = search(Brave("k3y", site.url("/res")), count=2)
    assert [hit.excerpt for hit in hits] == ["S", ""]
    [(path, headers)] = site.requests
    assert headers["x-subscription-token"] == "k3y"
    assert parse_qs(urlsplit(path).query)["count"] == ["2"]
    assert "k3y" not in path


@pytest.mark.parametrize("expected", [{}, [], {"results": 5}, {"results": {"a": 1}}, None, "x"])
def test_response_without_results_has_no_hits(site: Site, expected: object) -> None:
    set_response(site, expected)
    assert search(Searxng(site.url())) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PageResponse(b"<html>", "text/html"), "did not return JSON"),
        (PageResponse(b"[" * 100_000), "did not return JSON"),
        (PageResponse(b"no", status=403), "failed: HTTP 403"),
        (
            PageResponse(b"", status=302, headers={"location": "http://127.0.0.1:1/"}),
            "failed: HTTP 302",
        ),
    ],
)
def test_provider_failure_is_reported_without_the_key(
    site: Site, answer: PageResponse, reason: str
) -> None:
    site.pages["*"] = answer
    with pytest.raises(ToolError, match=reason) as caught:
        search(Brave("k3y", site.url()))
    assert "k3y" not in str(caught.value)


def test_unreachable_provider_is_reported() -> None:
    with pytest.raises(ToolError, match=r"the search at 127\.0\.0\.1:9 cannot be reached"):
        search(Searxng("http://127.0.0.1:9"))
