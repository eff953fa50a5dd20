"""URL rules: allow rules match strictly, and deny rules match each disguise."""

from __future__ import annotations

import pytest

from harken.world.permissions.mode import Mode
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.web.download import Downloads
from harken.world.web.fetch import fetch_tool

FETCH = fetch_tool(Downloads())
DOCS = "fetch(https://docs.python.org/*)"


def decide(url: str, mode: Mode = "ask", **rules: list[str]) -> str:
    wish = PermissionRequest(FETCH, {"url": url}, ["main"])
    return Permissions(mode, PermissionRules.parse(**rules)).decide(wish).kind


@pytest.mark.parametrize(
    ("mode", "kind"), [("ask", "ask"), ("edits", "ask"), ("plan", "ask"), ("all", "free")]
)
def test_fetch_is_asked_although_it_changes_nothing(mode: Mode, kind: str) -> None:
    assert decide("https://example.org/?q=secret", mode) == kind


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.python.org/3/",
        "https://docs.python.org",
        "HTTPS://DOCS.python.org:443/x?a#b",
        "https://docs.python.org./3/",
    ],
)
def test_matching_url_is_allowed(url: str) -> None:
    assert decide(url, allow=[DOCS]) == "free"
    assert decide(url, allow=["fetch(*.python.org)"]) == "free"


@pytest.mark.parametrize(
    "url",
    [
        "http://docs.python.org/",
        "https://docs.python.org@evil.org/",
        "https://docs.python.org.evil.org/",
        "https://docs.python.org:8443/",
        "https://evil.org/https://docs.python.org/",
        "https://evil.org\\@docs.python.org/",
        "https://evil.org/?https://docs.python.org/x",
        "https://docs.python.org/../x",
        "https://docs.python.org/3/%2e%2E/x",
        "https://docs.python.org/3/..%2fx",
        "no url",
    ],
)
def test_similar_url_is_asked(url: str) -> None:
    assert decide(url, allow=[DOCS]) == "ask"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.org/x",
        "http://evil.org",
        "https://EVIL.org:443/",
        "https://evil.org./x",
        "https://evil.org/%78",
    ],
)
@pytest.mark.parametrize(
    "rule", ["fetch(evil.org)", "fetch(https://evil.org/*)", "fetch(https://evil.org)"]
)
def test_denied_url_is_denied_in_each_form(url: str, rule: str) -> None:
    assert decide(url, "all", deny=[rule]) == "denied"
    assert decide("https://example.org/", "all", deny=[rule]) == "free"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a", "denied"), ("%61", "denied"), ("/a", "denied"), ("b/../a", "ask"), ("b", "free")],
)
def test_subdomain_of_a_denied_host_is_denied_in_each_form(path: str, kind: str) -> None:
    assert decide(f"https://evil.org/{path}", "all", deny=["fetch(https://evil.org/a)"]) == kind


def test_malformed_url_is_asked_if_a_rule_denies() -> None:
    assert decide("https://u@evil.org/", "all", deny=["fetch(evil.org)"]) == "ask"


def test_page_and_host_are_suggested_as_rules() -> None:
    wish = PermissionRequest(FETCH, {"url": "https://a.org/b*?c"}, ["main"])
    assert [str(rule) for rule in Permissions().suggest_patterns(wish)] == [
        r"fetch(https://a.org/b\*?c)",
        "fetch(https://a.org/*)",
    ]
