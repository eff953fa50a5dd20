"""The viewer answers its own page, with its token, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harken.service.viewer.responses.headers import CONTENT_POLICY
from tests.cli.kit import Cli
from tests.cli.ui_kit import BEARER, TOKEN, Page, show_home

PATHS = ["/", "/api/about", "/api/sessions", "/api/sessions/demo/items", "/api/none", "/none"]
BIDI = "demo\u202e"


@pytest.fixture
def page(demo: Cli) -> Iterator[Page]:
    with show_home(demo.home) as page:
        yield page


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer x" + TOKEN[1:]},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_data_needs_the_token(page: Page, headers: dict[str, str]) -> None:
    for path in ("/api/about", "/api/sessions/demo/items", "/api/none"):
        response = page.get(path, headers=headers)
        assert response.status_code == 401
        assert "demo" not in response.text
    assert page.get("/api/about", headers=headers, token=TOKEN).status_code == 401


def test_the_files_of_the_page_need_no_token(page: Page) -> None:
    assert page.get("/", headers={}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "example.org"},
        {"Host": "example.org:8421"},
        {"Host": "127.0.0.1.example.org"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_a_page_of_another_server_is_refused_even_with_the_token(
    page: Page, headers: dict[str, str]
) -> None:
    assert page.get("/api/about", headers={**BEARER, **headers}).status_code == 403
    if "Sec-Fetch-Mode" not in headers:
        assert page.get("/", headers=headers).status_code == 403


def test_its_own_page_and_a_link_to_it_are_answered(page: Page) -> None:
    own = {"Origin": page.address, "Sec-Fetch-Site": "same-origin"}
    assert page.get("/api/about", headers={**BEARER, **own}).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert page.get("/", headers=link).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_every_response_has_the_security_headers(page: Page, path: str, is_allowed: bool) -> None:
    headers = BEARER if is_allowed else {"Host": "example.org"}
    response = page.get(path, headers=headers)
    assert response.headers["content-security-policy"] == CONTENT_POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cross-origin-opener-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in CONTENT_POLICY
    assert "unsafe" not in CONTENT_POLICY
    if path.startswith("/api/"):
        assert response.headers["cache-control"] == "no-store"


def test_only_reading_is_supported(page: Page) -> None:
    for method in ("POST", "PUT", "DELETE"):
        response = httpx.request(method, f"{page.address}/api/about", headers=BEARER)
        assert response.status_code == 405
        assert response.headers["content-security-policy"] == CONTENT_POLICY


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../demo",
        "..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "demo.jsonl",
        "de",
        "latest",
        "demo%00",
        "%00",
        "ctx-0",
        "x" * 3000,
        "%ff%fe",
        "%F0%9F",
        BIDI,
        "demo%E2%80%AE",
        "%0d%0aset-cookie:%20a=b",
        "~",
        "CON",
    ],
)
def test_a_hostile_name_is_not_found(page: Page, name: str) -> None:
    for view in ("", "/items", "/follow", "/messages/msg_001", "/timeline", "/steps/1"):
        response = page.get(f"/api/sessions/{name}{view}")
        assert response.status_code == 404, (view, response.text)
        assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/..%2f..%2fsetup.py", "/assets/..%2f..%2f__init__.py", "/%00"],
)
def test_a_path_leads_to_no_file_outside_of_the_page(page: Page, path: str) -> None:
    assert page.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/api/sessions", {"limit": 501}),
        ("/api/sessions", {"limit": 0}),
        ("/api/sessions", {"cursor": "x"}),
        ("/api/sessions", {"since": "x"}),
        ("/api/sessions", {"nonsense": "x"}),
        ("/api/sessions/demo/items", {"from": -1}),
        ("/api/sessions/demo/items", {"limit": 10**9}),
        ("/api/sessions/demo/media", {"hash": "../x"}),
        ("/api/search", {"q": "x" * 1001}),
        ("/api/search", {}),
    ],
)
def test_an_invalid_parameter_is_an_error_in_one_line(
    page: Page, path: str, params: dict[str, Any]
) -> None:
    response = page.get(path, **params)
    assert response.status_code == 422
    assert "\n" not in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("view", "params"),
    [
        ("items", {"agent": "agent_999"}),
        ("items", {"agent": "Jack"}),
        ("dialog", {"agents": "agent_001,../x"}),
        ("messages/msg_999", {}),
        ("messages/%00", {}),
        ("steps/999", {}),
        ("text", {"message": "msg_999"}),
        ("text", {"message": "msg_002", "part": "77"}),
        ("media", {"hash": "0" * 64}),
        ("find", {"message": "msg_999"}),
    ],
)
def test_an_unknown_name_in_a_session_is_not_found(
    page: Page, view: str, params: dict[str, Any]
) -> None:
    assert page.get(f"/api/sessions/demo/{view}", **params).status_code == 404


def test_a_damaged_log_shows_the_events_before_the_damage(demo: Cli, page: Page) -> None:
    log = demo.home / "sessions" / "demo.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    broken = demo.home / "sessions" / "broken.jsonl"
    broken.write_bytes(b"".join([*lines[:9], lines[9].replace(b"a", b"b"), *lines[10:]]))
    answer = page.session("broken")
    assert "line 10" in answer["damage"]
    assert 0 < answer["events"] < 10
    empty = Path(demo.home / "sessions" / "empty.jsonl")
    empty.write_bytes(b"no log\n")
    assert page.get("/api/sessions/empty/items").status_code in (404, 503)
    assert {row["name"] for row in page.json("/api/sessions")["sessions"]} >= {"broken", "empty"}
