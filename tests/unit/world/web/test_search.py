"""Searching: what providers answer becomes hits, and what they do wrong becomes a result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from harken.world.result import ToolError
from harken.world.web.search import Brave, SearchProvider, Searxng, WebResult
from tests.unit.world.web.site import Answer, Site, served


class Anything(dict[str, Answer]):
    """The same answer, whatever is asked."""

    def get(self, _key: str, _default: object = None) -> Answer:
        return self["*"]


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as one:
        one.pages = Anything()
        yield one


def answers(site: Site, body: object, **more: object) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    site.pages["*"] = Answer(data, "application/json", **more)  # type: ignore[arg-type]


def found(provider: SearchProvider, count: int = 5) -> list[WebResult]:
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


def test_searxng_is_asked_for_json(site: Site) -> None:
    answers(site, {"results": RESULTS})
    provider = Searxng(site.url("/searx/"))
    assert isinstance(provider, SearchProvider)
    hits = found(provider)
    assert [hit.url for hit in hits][:2] == ["https://a.org/tea", "https://b.org/"]
    assert hits[0] == WebResult("Tea [hook x]", "https://a.org/tea", "Steep.")
    [(path, _)] = site.asked
    asked = urlsplit(path)
    assert (asked.path, parse_qs(asked.query)) == (
        "/searx/search",
        {"q": ["green tea & cups"], "format": ["json"]},
    )


def test_brave_is_asked_with_the_key_in_a_header(site: Site) -> None:
    answers(site, {"web": {"results": RESULTS}})
    hits = found(Brave("k3y", site.url("/res")), count=2)
    assert [hit.excerpt for hit in hits] == ["S", ""]
    [(path, headers)] = site.asked
    assert headers["x-subscription-token"] == "k3y"
    assert parse_qs(urlsplit(path).query)["count"] == ["2"]
    assert "k3y" not in path


@pytest.mark.parametrize("said", [{}, [], {"results": 5}, {"results": {"a": 1}}, None, "x"])
def test_an_answer_without_results_is_no_hit(site: Site, said: object) -> None:
    answers(site, said)
    assert found(Searxng(site.url())) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"<html>", "text/html"), "did not return JSON"),
        (Answer(b"[" * 100_000), "did not return JSON"),
        (Answer(b"no", status=403), "failed: HTTP 403"),
        (Answer(b"", status=302, headers={"location": "http://127.0.0.1:1/"}), "failed: HTTP 302"),
    ],
)
def test_what_a_provider_does_wrong_is_told_without_the_key(
    site: Site, answer: Answer, reason: str
) -> None:
    site.pages["*"] = answer
    with pytest.raises(ToolError, match=reason) as caught:
        found(Brave("k3y", site.url()))
    assert "k3y" not in str(caught.value)


def test_a_provider_that_is_not_there_is_told() -> None:
    with pytest.raises(ToolError, match=r"the search at 127\.0\.0\.1:9 cannot be reached"):
        found(Searxng("http://127.0.0.1:9"))
