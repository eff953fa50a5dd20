"""Rules about pages: what is allowed fits for certain, what is denied in any disguise."""

from __future__ import annotations

import pytest

from harken.world.permissions.mode import Mode
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.web.download import Downloads
from harken.world.web.fetch import fetch_tool

FETCH = fetch_tool(Downloads())
DOCS = "fetch(https://docs.python.org/*)"


def decided(url: str, mode: Mode = "ask", **rules: list[str]) -> str:
    wish = PermissionRequest(FETCH, {"url": url}, ["main"])
    return Permissions(mode, PermissionRules.parse(**rules)).decide(wish).kind


@pytest.mark.parametrize(
    ("mode", "kind"), [("ask", "ask"), ("edits", "ask"), ("plan", "ask"), ("all", "free")]
)
def test_a_page_is_asked_for_though_nothing_changes(mode: Mode, kind: str) -> None:
    assert decided("https://example.org/?q=secret", mode) == kind


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.python.org/3/",
        "https://docs.python.org",
        "HTTPS://DOCS.python.org:443/x?a#b",
        "https://docs.python.org./3/",
    ],
)
def test_what_fits_is_allowed(url: str) -> None:
    assert decided(url, allow=[DOCS]) == "free"
    assert decided(url, allow=["fetch(*.python.org)"]) == "free"


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
def test_what_only_looks_so_is_asked(url: str) -> None:
    assert decided(url, allow=[DOCS]) == "ask"


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
def test_what_is_denied_is_denied_in_any_form(url: str, rule: str) -> None:
    assert decided(url, "all", deny=[rule]) == "denied"
    assert decided("https://example.org/", "all", deny=[rule]) == "free"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a", "denied"), ("%61", "denied"), ("/a", "denied"), ("b/../a", "ask"), ("b", "free")],
)
def test_a_part_of_a_host_is_denied_however_it_is_written(path: str, kind: str) -> None:
    assert decided(f"https://evil.org/{path}", "all", deny=["fetch(https://evil.org/a)"]) == kind


def test_what_cannot_be_read_is_asked_where_a_rule_denies() -> None:
    assert decided("https://u@evil.org/", "all", deny=["fetch(evil.org)"]) == "ask"


def test_this_page_and_its_host_are_offered() -> None:
    wish = PermissionRequest(FETCH, {"url": "https://a.org/b*?c"}, ["main"])
    assert [str(rule) for rule in Permissions().suggest_patterns(wish)] == [
        r"fetch(https://a.org/b\*?c)",
        "fetch(https://a.org/*)",
    ]
