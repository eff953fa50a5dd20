"""`harken mcp-server --http`: a real server on loopback, which stops by itself or on a signal."""

from __future__ import annotations

import http.client
import json
import signal
import stat
from contextlib import AbstractContextManager, closing
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.commits import CommitId
from harken.core.ids import AgentId
from tests.cli import kit
from tests.cli.kit import Cli, start
from tests.mcp_kit import run
from tests.mcp_server_kit import McpPeer

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def serving(home: Path, **environment: str) -> AbstractContextManager[tuple[Popen[str], str]]:
    """Run the server as a process, of a person with no session; yield it, and its address."""
    options = ["--http", "--port", "0", "--idle-timeout", "60s", "--as", "ann"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home.parent), **environment}
    return kit.serving("mcp-server", "--home", home, *options, **environment)


def post(address: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Send one request; return the status and the text of the response."""
    url = urlsplit(address)
    assert url.hostname is not None
    with closing(http.client.HTTPConnection(url.hostname, url.port, timeout=30)) as connection:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        common = {"content-type": "application/json", "accept": "application/json"}
        connection.request(method, url.path, json.dumps(body), {**common, **named})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_clients_share_a_server_and_sigterm_ends_it(cli: Cli, tmp_path: Path) -> None:
    key = (tmp_path / "log", AgentId("agent_001"))
    with (
        closing(ContextSocketServer(tmp_path)) as sockets,
        serving(cli.home, **{VARIABLE: str(sockets.path(key))}) as (process, address),
    ):
        sockets.settle(key, CommitId("ctx-" + "0" * 64))  # of the agent that started the server
        file = cli.home / "mcp.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        headers = {"authorization": f"Bearer {file.read_text().strip()}"}

        async def talk(mode: str) -> str:
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as web,
                Client(streamable_http_client(address, http_client=web), mode=mode) as client,
            ):
                peer = McpPeer(client)
                assert "title" in await peer.refused("ticket_create")
                return (await peer.ok("ticket_create", title=f"Tea, {mode}")).split()[0]

        ids = [run(talk("auto")), run(talk("legacy"))]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    rows = {row["id"][:16]: row for row in cli.ok("ticket", "list", "--json").json}
    assert [(rows[id_]["created_by"], rows[id_]["created_context_id"]) for id_ in ids] == [
        ("ann", ""),
        ("ann", ""),
    ]


def test_only_clients_with_the_token_that_are_no_web_pages_are_answered(cli: Cli) -> None:
    with serving(cli.home) as (_, address):
        token = {"authorization": f"Bearer {(cli.home / 'mcp.token').read_text().strip()}"}
        status, text = post(address, LIST, **token)
        assert (status, "ticket_create" in text) == (200, True)
        for host in ("localhost", f"LOCALHOST:{urlsplit(address).port}", "127.0.0.1"):
            assert post(address, LIST, **token, host=host)[0] == 200, host
        for problem, expected, headers in (
            ("no token", 401, {}),
            ("another token", 401, {"authorization": f"Bearer {'x' * 43}"}),
            ("DNS rebinding", 403, {**token, "host": "evil.example"}),
            ("a page", 403, {**token, "origin": "https://evil.example"}),
            ("a page of this machine", 403, {**token, "origin": "http://127.0.0.1:1"}),
            ("an image", 403, {**token, "sec_fetch_site": "cross-site"}),
        ):
            status, text = post(address, LIST, **headers)
            assert (status, "ticket_create" in text) == (expected, False), problem
        assert post(address, LIST, "GET", **token)[0] == 405
        assert post(address, LIST, "DELETE", **token)[0] == 405
        assert post(address, {"x": "y" * (5 << 20)}, **token)[0] == 413
        assert post(address, ["no", "message"], **token)[0] == 400
        assert post(address.removesuffix("/mcp"), LIST, **token)[0] in (404, 405)
        assert post(address, LIST, **token)[0] == 200


def test_it_stops_without_requests_and_prints_no_token(tmp_path: Path) -> None:
    ran = start(tmp_path / "home", "mcp-server", "--http", "--port", "0", "--idle-timeout", "0.3s")
    assert (ran.returncode, ran.stderr) == (0, b"")
    text = ran.stdout.decode()
    assert text.startswith("Serving at http://127.0.0.1:")
    assert f"/mcp; the token is in {tmp_path}/home/mcp.token; Ctrl-C ends it." in text
    assert (tmp_path / "home" / "mcp.token").read_text().strip() not in text


def test_what_cannot_be_served_is_one_line(cli: Cli) -> None:
    assert "--port needs --http" in cli.refused("mcp-server", "--port", "1")
    assert "--json needs --http" in cli.refused("mcp-server", "--json")
    assert "--as needs a name" in cli.refused("mcp-server", "--as", " ")
    assert "65536" in cli.refused("mcp-server", "--http", "--port", "65536")
    cli.home.mkdir(mode=0o700, exist_ok=True)
    (cli.home / "mcp.token").write_text("short")
    assert "mcp.token" in cli.refused("mcp-server", "--http", "--port", "0")
