"""Every route of the viewer, also a new one, is for its own page with the token only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from harken.cli.commands.ui.viewer import open_home_viewer
from harken.config.home import Home
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.service.viewer import routes
from harken.service.viewer.access import PROOF_PATH, PageAccessCheck
from harken.service.viewer.app import LIMITS
from harken.service.viewer.responses.headers import API_PREFIX, CONTENT_POLICY
from tests.cli.kit import Cli
from tests.cli.ui_kit import BEARER, TOKEN

REFUSED: list[tuple[dict[str, str], int]] = [
    ({}, 401),
    ({"Authorization": f"Bearer {TOKEN}x"}, 401),
    ({"Cookie": f"token={TOKEN}"}, 401),
    ({**BEARER, "Origin": "https://example.org"}, 403),
    ({**BEARER, "Origin": "null"}, 403),
    ({**BEARER, "Host": "example.org"}, 403),
    ({**BEARER, "Sec-Fetch-Site": "same-site"}, 403),
    ({**BEARER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
]


class Served(NamedTuple):
    """A running viewer, and the methods and paths of its routes."""

    address: str
    routes: list[tuple[str, str]]


@pytest.fixture
def served(demo: Cli, tmp_path: Path) -> Iterator[Served]:
    with (
        open_home_viewer(
            Home(str(demo.home)),
            PageAccessCheck(TOKEN),
            command=["harken"],
            folder=tmp_path,
            user_folder=tmp_path,
            environ={},
        ) as viewer,
        listen_at("127.0.0.1", 0) as listener,
        serve_in_thread(
            viewer.app.app, [listener], limits=LIMITS, end_streams=viewer.app.end_streams
        ),
    ):
        yield Served(address_of(listener), sorted(iter_routes()))


def iter_routes() -> Iterator[tuple[str, str]]:
    """Yield the methods and paths of the routes in all modules."""
    for info in iter_modules(routes.__path__):
        module = import_module(f"{routes.__name__}.{info.name}")
        for router in vars(module).values():
            for route in router.routes if isinstance(router, APIRouter) else ():
                assert isinstance(route, APIRoute), route
                path = route.path.replace("{name:path}", "demo")
                path = path.replace("{commit}", "ctx-" + "0" * 64)
                for method in route.methods or ():
                    yield method, re.sub(r"\{[^}]*\}", "1", path)


def test_every_route_with_data_refuses_other_pages(served: Served) -> None:
    data_routes = [route for route in served.routes if route[1].startswith(API_PREFIX)]
    assert {route for route in served.routes if route not in data_routes} == {("GET", "/1")}
    assert len(data_routes) > 50
    with httpx.Client(base_url=served.address, trust_env=False) as client:
        for method, path in data_routes:
            for headers, status in REFUSED:
                if path == PROOF_PATH and status == 401:
                    continue  # The page has no token to send before the server has proven its own.
                response = client.request(method, path, headers=headers, json={})
                assert response.status_code == status, (method, path, headers)
                assert response.headers["content-security-policy"] == CONTENT_POLICY
                assert response.headers["cache-control"] == "no-store"
                assert "set-cookie" not in response.headers
                assert "demo" not in response.text


def test_no_route_with_data_is_answered_to_the_method_of_another(served: Served) -> None:
    posts = {path for method, path in served.routes if method == "POST"}
    reads = {path for method, path in served.routes if method == "GET"}
    with httpx.Client(base_url=served.address, headers=BEARER, trust_env=False) as client:
        for path in sorted(reads - posts):
            for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                assert client.request(method, path).status_code == 405, (method, path)
        for path in sorted(posts - reads):
            assert client.get(path).status_code in (404, 405), path
