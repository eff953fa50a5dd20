"""A session is forked from the page as `harken fork` does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cli.kit import Cli
from tests.cli.test_fork import JACK, find_ids, read_rows
from tests.cli.ui_kit import BEARER, Page, show_home

FORK = "/api/sessions/demo/fork"


@pytest.fixture
def page(demo: Cli) -> Iterator[Page]:
    with show_home(demo.home) as page:
        yield page


def strip(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what every fork has for itself: its id, the sums, and times of its own events."""
    own = ("sum", "session_id", "time")
    return [{name: value for name, value in row.items() if name not in own} for row in rows]


@pytest.mark.parametrize("change", ["none", "edit", "before", "model"])
def test_a_fork_has_what_the_command_makes(demo: Cli, page: Page, change: str) -> None:
    jack, _ = find_ids(demo, JACK)
    arguments: dict[str, tuple[list[str], dict[str, Any]]] = {
        "none": ([], {}),
        "edit": (["--edit", "Go away."], {"edit": "Go away."}),
        "before": (["--before"], {"before": True}),
        "model": (["--model", "scripted:demo"], {"model": "scripted:demo"}),
    }
    words, members = arguments[change]
    demo.ok("fork", "demo", "--at", jack, *words, "--name", "by-command")
    response = page.post(FORK, {"at": jack, **members, "name": "by-page"})
    assert response.status_code == 201, response.text
    row = response.json()
    assert row["session"] == "by-page"
    assert row["origin"].startswith("fork of demo up to ")
    assert strip(read_rows(demo, "by-page")) == strip(read_rows(demo, "by-command"))
    assert page.session("by-page")["session"]["name"] == "by-page"


def test_a_fork_at_a_model_call_ends_there_and_has_a_free_name(demo: Cli, page: Page) -> None:
    step = page.session("demo", "steps/2")
    row = page.post(FORK, {"at": step["step"]["request"]}).json()
    assert row == {
        "session": "demo-fork",
        "origin": f"fork of demo up to {step['step']['request']}",
        "disarmed": [],
    }
    assert read_rows(demo, "demo-fork")[-1]["message_id"] == step["step"]["request"]


def test_a_message_tells_the_command_that_forks_at_it(demo: Cli, page: Page) -> None:
    jack, _ = find_ids(demo, JACK)
    command = page.session("demo", f"messages/{jack}")["fork"]
    assert command == f"harken fork demo --at {jack} --home {demo.home}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"at": "msg_999"}, 404),
        ({"at": 7}, 422),
        ({"before": True}, 422),
        ({"at": "msg_009", "before": True, "edit": "x"}, 422),
        ({"at": "msg_009", "edit": " "}, 422),
        ({"name": "../x"}, 422),
        ({"name": "demo"}, 422),
        ({"model": "nobody/nothing"}, 422),
        ({"nonsense": 1}, 422),
        ([], 422),
        ("x", 422),
        (None, 422),
    ],
)
def test_a_fork_that_is_not_possible_is_refused_in_one_line(
    demo: Cli, page: Page, body: Any, status: int
) -> None:
    before = demo.sessions()
    response = page.post(FORK, body)
    assert response.status_code == status, response.text
    assert "\n" not in response.json()["error"]["message"]
    assert demo.sessions() == before


def test_a_fork_needs_the_token_and_the_own_page(demo: Cli, page: Page) -> None:
    before = demo.sessions()
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({**BEARER, "Origin": "https://example.org"}, 403),
        ({**BEARER, "Host": "example.org"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
    ):
        assert page.post(FORK, {}, headers=headers).status_code == status
    kinds = {**BEARER, "Content-Type": "text/plain"}
    assert httpx.post(f"{page.address}{FORK}", content="{}", headers=kinds).status_code == 415
    large = httpx.post(f"{page.address}{FORK}", content=b" " * (1 << 21), headers=BEARER)
    assert large.status_code == 413
    assert demo.sessions() == before


def test_names_that_are_no_sessions_are_not_found(page: Page) -> None:
    for name in ("none", "latest", "..%2Fdemo", "demo.jsonl"):
        assert page.post(f"/api/sessions/{name}/fork", {}).status_code == 404
