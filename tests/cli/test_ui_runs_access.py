"""The routes of runs answer only the own page with its token, and take only what they know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.ui_kit import BEARER, show_home
from tests.cli.ui_run_kit import Runs, write_script

PATHS = [
    "/api/runs",
    "/api/runs/tea/messages",
    "/api/runs/tea/interrupt",
    "/api/runs/tea/permissions/q",
    "/api/runs/tea/end",
]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with show_home(tmp_path / "home") as page:
        runs = Runs(page)
        runs.start(model=write_script(tmp_path), folder=str(tmp_path), name="tea")
        yield runs


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({**BEARER, "Origin": "https://example.org"}, 403),
        ({**BEARER, "Origin": "null"}, 403),
        ({**BEARER, "Host": "example.org"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_nothing_is_run_for_another_page_or_without_the_token(
    runs: Runs, headers: dict[str, str], status: int
) -> None:
    for path in PATHS:
        body = {"id": "x", "text": "hello"} if "messages" in path else {}
        assert runs.page.post(path, body, headers=headers).status_code == status
    assert [run["name"] for run in runs.page.json("/api/runs")["runs"]] == ["tea"]
    assert runs.said("tea") == []


@pytest.mark.parametrize("path", PATHS)
def test_a_body_is_json_of_a_known_form_and_size(runs: Runs, path: str) -> None:
    url = f"{runs.page.address}{path}"
    large = b'{"id": "x", "text": "' + b"x" * (1 << 20) + b'"}'
    for content, headers, status in (
        (large, {}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {"Content-Encoding": "gzip"}, 415),
        (b"{", {}, 422),
        (b"\xff", {}, 422),
        (b"[" * 100_000, {}, 422),
        (b'{"id": 7}', {}, 422),
        (b'{"nonsense": true}', {}, 422),
        (b"null", {}, 422),
    ):
        response = httpx.post(url, content=content, headers={**BEARER, **headers})
        assert response.status_code == status, (content[:20], response.text)
        assert "\n" not in response.json()["error"]["message"]
    assert [run["state"] for run in runs.page.json("/api/runs")["runs"]] == ["running"]
    assert runs.said("tea") == []


def test_names_that_are_no_runs_are_not_found(runs: Runs) -> None:
    for name in ("none", "..%2Ftea", "tea%00", "latest", "%F0%9F"):
        for action, body in (
            ("messages", {"id": "x", "text": "x"}),
            ("interrupt", {}),
            ("permissions/q", {"decision": "allow"}),
            ("end", {}),
        ):
            assert runs.page.post(f"/api/runs/{name}/{action}", body).status_code == 404


def test_a_get_runs_nothing(runs: Runs) -> None:
    for path in PATHS[1:]:
        assert runs.page.get(path).status_code in (404, 405)
    assert runs.page.get("/api/runs/choices", folder="relative").status_code == 422
