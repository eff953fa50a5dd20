"""Servers built with the official SDK: in this process, as programs, and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from mcp.client._memory import InMemoryTransport

from harken.core.messages import ImagePart
from harken.world.mcp.prompts import PromptArgument
from harken.world.mcp.server_config import McpServerConfig
from harken.world.result import ToolError
from tests import mcp_sdk_server
from tests.mcp_http import ServedApp
from tests.mcp_kit import McpStage, open_mcp_stage, run, wait_until
from tests.unit.world.permissions.user_kit import ScriptedUser

Place: TypeAlias = Callable[..., AbstractAsyncContextManager[McpStage]]
SERVER = McpServerConfig(name="lib", command="in this process")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServedApp(mcp_sdk_server.make_server().streamable_http_app()) as base:
        yield f"{base}/mcp"


@pytest.fixture
def make_world(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a factory of a world with the server, for each kind of transport."""
    kind = request.param
    if kind == "a program":
        arguments = ("-m", "tests.mcp_sdk_server")
        root = str(Path(__file__).parents[4])
        server = McpServerConfig(name="lib", command=sys.executable, args=arguments, cwd=root)
    elif kind == "http":
        server = McpServerConfig(name="lib", url=request.getfixturevalue("url"))
    else:
        server = SERVER

    @asynccontextmanager
    async def made(**options: object) -> AsyncIterator[McpStage]:
        def connect(_: McpServerConfig) -> InMemoryTransport:
            return InMemoryTransport(mcp_sdk_server.make_server())

        how = connect if kind == "in this process" else None
        async with open_mcp_stage(tmp_path, server, connect=how, **options) as harness:  # type: ignore[arg-type]
            assert harness.notices == []
            yield harness

    return made


@pytest.mark.parametrize("make_world", ["in this process", "a program", "http"], indirect=True)
def test_all_features_of_a_server_work_over_each_transport(make_world: Place) -> None:
    async def scene() -> None:
        async with make_world(user=ScriptedUser(["Rome", "3"])) as harness:
            assert '"total": 5' in await harness.text("mcp__lib__add", a=2, b=3)
            assert await harness.text("mcp__lib__count", to=3) == "counted to 3"
            await wait_until(lambda: len(harness.progress) == 3)
            assert "city='Rome', days=3" in await harness.text("mcp__lib__book")
            assert "not today" in await harness.failure("mcp__lib__grumble")
            listed_result = await harness.text("mcp_resources")
            assert "lib/notes://welcome [text/markdown]" in listed_result
            assert "lib/notes://shelf/{name}" in listed_result
            assert await harness.text("mcp_read", resource="lib/notes://shelf/x") == "books on x"
            assert await harness.mcp.resource_text("lib/notes://welcome") == "You are a librarian."
            picture = (await harness.call_tool("mcp_read", resource="lib/notes://picture")).content
            assert isinstance(picture, list)
            assert isinstance(picture[0], ImagePart)
            review, greet = await harness.mcp.prompts()
            assert review.command == "mcp__lib__review"
            assert review.description == "Review a book."
            assert review.arguments[0] == PromptArgument("title", "", required=True)
            text = await harness.mcp.get_prompt("lib", "review", {"title": "Emma"})
            assert text == "Review Emma, calm."
            assert await harness.mcp.get_prompt(greet.server, greet.name) == (
                "[user]: Hello\n\n[assistant]: Good day"
            )

    run(scene())


@pytest.mark.parametrize("make_world", ["in this process", "http"], indirect=True)
def test_missing_items_are_reported(make_world: Place) -> None:
    async def scene() -> None:
        async with make_world() as harness:
            assert "not SERVER/URI" in await harness.failure("mcp_read", resource="notes://welcome")
            assert "failed" in await harness.failure("mcp_read", resource="lib/notes://none")
            assert "server 'x' with resources not found" in await harness.failure(
                "mcp_resources", server="x"
            )
            with pytest.raises(ToolError, match="MCP server 'x'"):
                await harness.mcp.get_prompt("x", "review")
            with pytest.raises(ToolError, match="the prompt 'none' of the MCP server lib failed"):
                await harness.mcp.get_prompt("lib", "none")
            with pytest.raises(ToolError, match="is not text"):
                await harness.mcp.resource_text("lib/notes://picture")

    run(scene())


@pytest.mark.parametrize("make_world", ["in this process", "http"], indirect=True)
def test_other_calls_and_new_tools_work_after_a_cancelled_call(make_world: Place) -> None:
    async def scene() -> None:
        async with make_world() as harness:
            task = asyncio.create_task(harness.call_tool("mcp__lib__wait"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await harness.text("mcp__lib__learn", name="sing") == "learnt"
            await wait_until(lambda: "mcp__lib__sing" in harness.world.tools)
            assert await harness.text("mcp__lib__sing") == "I am sing"

    run(scene())


def test_headers_are_sent_with_expanded_variables_and_never_shown(tmp_path: Path, url: str) -> None:
    async def scene() -> None:
        server = McpServerConfig(name="lib", url=url, headers={"authorization": "Bearer ${TOKEN}"})
        async with open_mcp_stage(tmp_path, server, environ={"TOKEN": "s3cret"}) as harness:
            assert "'authorization': 'Bearer s3cret'" in await harness.text("mcp__lib__headers")
            assert "s3cret" not in repr(harness.mcp.describe()) + repr(server)
            assert "Bearer" not in repr(server)

    run(scene())


def test_disconnected_http_server_is_a_result_and_is_reconnected(tmp_path: Path) -> None:
    async def scene() -> None:
        app = mcp_sdk_server.make_server().streamable_http_app()
        repeated = mcp_sdk_server.make_server().streamable_http_app()
        with ServedApp(app) as base:
            server = McpServerConfig(name="lib", url=f"{base}/mcp", timeout_s=3)
            async with open_mcp_stage(tmp_path, server) as harness:
                port = int(base.rpartition(":")[2])
                assert "total" in await harness.text("mcp__lib__add", a=1, b=1)
                ServedApp.stop_at(base)
                assert "lib" in await harness.failure("mcp__lib__add", a=1, b=1)
                with ServedApp(repeated, socket.create_server(("127.0.0.1", port))):
                    for _ in range(3):
                        result = await harness.call_tool("mcp__lib__add", a=1, b=1)
                        if not result.is_error:
                            break
                    assert "total" in str(result.content)

    run(scene())
