"""The viewer of a home on a real port, and a client that knows its token."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from harken.cli.commands.ui.viewer import open_home_viewer
from harken.config.home import Home
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.service.viewer.access import PageAccessCheck
from harken.service.viewer.app import LIMITS

TOKEN = "a-token-for-tests-only-of-some-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Page:
    """A client of the viewer, which sends what its page would send."""

    def __init__(self, address: str, token: str = TOKEN) -> None:
        self.address = address
        self._bearer = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=address, timeout=30, trust_env=False)

    def close(self) -> None:
        """Close its connections."""
        self.client.close()

    def get(
        self, path: str, /, *, headers: dict[str, str] | None = None, **params: Any
    ) -> httpx.Response:
        """Return the response to a request, whatever its status."""
        headers = self._bearer if headers is None else headers
        return self.client.get(path, headers=headers, params=params or None)

    def post(
        self, path: str, body: object, *, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Return the response to a request with a JSON body, whatever its status."""
        headers = self._bearer if headers is None else headers
        return self.client.post(path, headers=headers, json=body)

    def json(self, path: str, /, **params: Any) -> Any:
        """Return the JSON of a request that works."""
        response = self.get(path, **params)
        assert response.status_code == 200, response.text
        return response.json()

    def session(self, name: str, view: str = "", **params: Any) -> Any:
        """Return a session, or a view of it."""
        path = f"/api/sessions/{quote(name, safe='')}"
        return self.json(f"{path}/{view}" if view else path, **params)

    def all_items(self, name: str, agent: str, *, limit: int = 500) -> list[Any]:
        """Return all items of an agent, page by page."""
        items: list[Any] = []
        while True:
            page = self.session(name, "items", **{"agent": agent, "from": len(items)}, limit=limit)
            items += page["items"]
            if len(items) >= page["total"] or not page["items"]:
                return items

    @contextmanager
    def follow(self, name: str, **params: Any) -> Iterator[Iterator[Any]]:
        """Yield the changes of a session as they arrive, without the empty lines."""
        path = f"/api/sessions/{quote(name, safe='')}/follow"
        with self.client.stream("GET", path, headers=self._bearer, params=params) as response:
            assert response.status_code == 200, response.read()
            yield (json.loads(line) for line in response.iter_lines() if line)


@contextmanager
def show_home(
    folder: Path, port: int = 0, *, start: Path | None = None, max_runs: int = 8
) -> Iterator[Page]:
    """Serve a home until the end of the block. `start`: the folder of the command."""
    with (
        open_home_viewer(
            Home(str(folder)),
            PageAccessCheck(TOKEN),
            command=["harken", "--home", str(folder)],
            folder=start or folder,
            environ=os.environ,
            max_runs=max_runs,
        ) as viewer,
        listen_at("127.0.0.1", port) as listener,
        serve_in_thread(
            viewer.app.app, [listener], limits=LIMITS, end_streams=viewer.app.end_streams
        ),
    ):
        page = Page(address_of(listener))
        try:
            yield page
        finally:
            page.close()
