"""Servers made with the official SDK: in this process, as programs, and over HTTP."""

from __future__ import annotations

import asyncio
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
from tests.unit.world.permissions.people import Person

Place: TypeAlias = Callable[..., AbstractAsyncContextManager[McpStage]]
SERVER = McpServerConfig(name="lib", command="in this process")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServedApp(mcp_sdk_server.make_server().streamable_http_app()) as base:
        yield f"{base}/mcp"


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return what makes a world with the server, wherever that is."""
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
    async def made(**more: object) -> AsyncIterator[McpStage]:
        def connect(_: McpServerConfig) -> InMemoryTransport:
            return InMemoryTransport(mcp_sdk_server.make_server())

        how = connect if kind == "in this process" else None
        async with open_mcp_stage(tmp_path, server, connect=how, **more) as here:  # type: ignore[arg-type]
            assert here.notices == []
            yield here

    return made


@pytest.mark.parametrize("place", ["in this process", "a program", "http"], indirect=True)
def test_all_that_a_server_has_can_be_used_wherever_it_is(place: Place) -> None:
    async def scene() -> None:
        async with place(user=Person(["Rome", "3"])) as here:
            assert '"total": 5' in await here.text("mcp__lib__add", a=2, b=3)
            assert await here.text("mcp__lib__count", to=3) == "counted to 3"
            await wait_until(lambda: len(here.progress) == 3)
            assert "city='Rome', days=3" in await here.text("mcp__lib__book")
            assert "not today" in await here.failure("mcp__lib__grumble")
            listed = await here.text("mcp_resources")
            assert "lib/notes://welcome [text/markdown]" in listed
            assert "lib/notes://shelf/{name}" in listed
            assert await here.text("mcp_read", resource="lib/notes://shelf/x") == "books on x"
            assert await here.mcp.resource_text("lib/notes://welcome") == "You are a librarian."
            picture = (await here.call_tool("mcp_read", resource="lib/notes://picture")).content
            assert isinstance(picture, list)
            assert isinstance(picture[0], ImagePart)
            review, greet = await here.mcp.prompts()
            assert review.command == "mcp__lib__review"
            assert review.description == "Review a book."
            assert review.arguments[0] == PromptArgument("title", "", required=True)
            said = await here.mcp.get_prompt("lib", "review", {"title": "Emma"})
            assert said == "Review Emma, calm."
            assert await here.mcp.get_prompt(greet.server, greet.name) == (
                "[user]: Hello\n\n[assistant]: Good day"
            )

    run(scene())


@pytest.mark.parametrize("place", ["in this process", "http"], indirect=True)
def test_what_is_not_there_is_said(place: Place) -> None:
    async def scene() -> None:
        async with place() as here:
            assert "not SERVER/URI" in await here.failure("mcp_read", resource="notes://welcome")
            assert "failed" in await here.failure("mcp_read", resource="lib/notes://none")
            assert "server 'x' with resources not found" in await here.failure(
                "mcp_resources", server="x"
            )
            with pytest.raises(ToolError, match="MCP server 'x'"):
                await here.mcp.get_prompt("x", "review")
            with pytest.raises(ToolError, match="the prompt 'none' of the MCP server lib failed"):
                await here.mcp.get_prompt("lib", "none")
            with pytest.raises(ToolError, match="is not text"):
                await here.mcp.resource_text("lib/notes://picture")

    run(scene())


@pytest.mark.parametrize("place", ["in this process", "http"], indirect=True)
def test_after_a_cancelled_call_others_go_on_and_new_tools_come(place: Place) -> None:
    async def scene() -> None:
        async with place() as here:
            task = asyncio.create_task(here.call_tool("mcp__lib__wait"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await here.text("mcp__lib__learn", name="sing") == "learnt"
            await wait_until(lambda: "mcp__lib__sing" in here.world.tools)
            assert await here.text("mcp__lib__sing") == "I am sing"

    run(scene())


def test_headers_are_sent_with_their_variables_and_shown_to_nobody(
    tmp_path: Path, url: str
) -> None:
    async def scene() -> None:
        server = McpServerConfig(name="lib", url=url, headers={"authorization": "Bearer ${TOKEN}"})
        async with open_mcp_stage(tmp_path, server, environ={"TOKEN": "s3cret"}) as here:
            assert "'authorization': 'Bearer s3cret'" in await here.text("mcp__lib__headers")
            assert "s3cret" not in repr(here.mcp.describe()) + repr(server)
            assert "Bearer" not in repr(server)

    run(scene())


def test_a_server_over_http_that_goes_away_is_a_result_and_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        app = mcp_sdk_server.make_server().streamable_http_app()
        again = mcp_sdk_server.make_server().streamable_http_app()
        with ServedApp(app) as base:
            server = McpServerConfig(name="lib", url=f"{base}/mcp", timeout_s=3)
            async with open_mcp_stage(tmp_path, server) as here:
                port = int(base.rpartition(":")[2])
                assert "total" in await here.text("mcp__lib__add", a=1, b=1)
                ServedApp.stop_at(base)
                assert "lib" in await here.failure("mcp__lib__add", a=1, b=1)
                with ServedApp(again, port):
                    for _ in range(3):
                        result = await here.call_tool("mcp__lib__add", a=1, b=1)
                        if not result.is_error:
                            break
                    assert "total" in str(result.content)

    run(scene())
