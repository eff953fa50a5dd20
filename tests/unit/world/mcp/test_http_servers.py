"""HTTP servers that are unavailable or malformed are reported in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harken.world.mcp.server_config import McpServerConfig
from tests.loopback_kit import Loopback, serve_loopback
from tests.mcp_http import ServedApp
from tests.mcp_kit import open_mcp_stage, run

LARGE = b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "' + b"y" * (33 << 20) + b'"}}'


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Loopback(b"<html>", content_type="text/html"), "Unexpected content type: text/html"),
        (Loopback(status=401), "HTTP 401: set an authorization header"),
        (Loopback(status=500), "HTTP 500"),
        (Loopback(b"{}"), ""),
        (Loopback(b"\xff{"), ""),
        (Loopback(LARGE), ""),
        (Loopback(gzip.compress(b"{}"), headers={"content-encoding": "gzip"}), "compressed"),
        (Loopback(b"data: {nonsense\n\n", content_type="text/event-stream"), ""),
        (Loopback(status=202), "202"),
        (Loopback(status=307, headers={"location": "http://127.0.0.1:9/"}), "not followed"),
    ],
)
def test_response_of_a_non_mcp_server_is_reported(
    tmp_path: Path, answer: Loopback, why: str
) -> None:
    async def scene(url: str) -> None:
        server = McpServerConfig(name="web", url=url, start_timeout_s=5)
        async with open_mcp_stage(tmp_path, server) as harness:
            *_, line = harness.notices
            assert line.startswith("MCP server web is unavailable: ")
            assert why in " ".join(harness.notices)
            assert "\n" not in "".join(harness.notices)
            assert len(line) < 600

    with serve_loopback(answer) as description:
        run(scene(description.url))


def test_unreachable_server_is_reported(tmp_path: Path) -> None:
    async def scene() -> None:
        server = McpServerConfig(name="web", url="http://127.0.0.1:9/mcp", start_timeout_s=5)
        async with open_mcp_stage(tmp_path, server) as harness:
            [line] = harness.notices
            assert "it cannot be reached (" in line

    run(scene())


def test_key_with_a_trailing_line_break_appears_in_no_message(tmp_path: Path) -> None:
    async def scene(url: str) -> None:
        server = McpServerConfig(name="web", url=url, headers={"authorization": "Bearer ${KEY}"})
        async with open_mcp_stage(tmp_path, server, environ={"KEY": "s3cret\n"}) as harness:
            assert "its header authorization cannot be sent" in " ".join(harness.notices)
            assert "s3cret" not in " ".join(
                [*harness.notices, *(item.reason for item in harness.mcp.describe())]
            )

    with serve_loopback(Loopback(b"{}")) as description:
        run(scene(description.url))
    assert description.requests == []


def answering_server(results: dict[str, Any]) -> Any:
    """Return a server that answers a method with these results, and a tool call with these bytes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        request = json.loads(body or b"{}")
        result = results.get(request.get("method", ""))
        if isinstance(result, bytes):
            status, answer = 200, result
        elif result is None:
            status, answer = (202, b"") if "id" not in request else (400, b"")
        else:
            message = {"jsonrpc": "2.0", "id": request.get("id"), "result": result}
            status, answer = 200, json.dumps(message).encode()
        kind = b"text/event-stream" if answer.startswith(b"data: ") else b"application/json"
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app


HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "by hand", "version": "1"},
}
MANY = b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [%b0]}}' % (300_000 * b"0,")
TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LARGE, "longer than 32 MB"),
        (b"data: " + LARGE + b"\n\n", "SSE stream failed"),
        (MANY, "more than 200,000 pieces"),
        (b"data: \r\n\r\ndata: " + MANY + b"\n\n", "without a response"),
        (b"<html>", "Failed to parse JSON response"),
        (None, "error response"),
        ({"content": [{"type": "text", "text": "hi"}]}, ""),
    ],
)
def test_unusable_http_response_is_a_result(tmp_path: Path, answer: Any, why: str) -> None:
    async def scene(url: str) -> None:
        async with open_mcp_stage(
            tmp_path, McpServerConfig(name="web", url=url, timeout_s=10)
        ) as harness:
            assert harness.notices == []
            if why:
                assert why in await harness.failure("mcp__web__t")
            else:
                assert await harness.text("mcp__web__t") == "hi"

    results = {"initialize": HELLO, "tools/list": TOOLS, "tools/call": answer}
    with ServedApp(answering_server(results)) as base:
        run(scene(f"{base}/mcp"))
