"""Calls of `harken mcp-server` with hostile arguments, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from typing import Any

import click
import pytest
from mcp_types import TextContent

from harken.cli.commands.mcp_server.ask import BranchTurn
from harken.cli.commands.mcp_server.command import build_server, command
from harken.config.home import Home
from harken.service.mcp.server import ToolServer
from tests.cli.kit import Cli

STRINGS = ("", "a\0b", "x" * 5000, "../" * 50, "\ud800", "ctx-", "tkt-", "latest")


@pytest.fixture
def server(cli: Cli, script: str) -> ToolServer:
    """A server over a home with a session and a ticket."""
    cli.ok("chat", "--model", script, "-p", "hello", "--name", "tea", "--sandbox", "off")
    cli.ok("ticket", "create", "Tea", "--as", "ann")
    return build_server(click.Context(command), Home(str(cli.home)), {}, "ann")


def call(server: ToolServer, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    result = asyncio.run(server.call(name, arguments))
    (content,) = result.content
    assert isinstance(content, TextContent)
    json.loads(result.model_dump_json())
    return result.is_error, content.text


def test_no_text_as_an_argument_is_a_bug(server: ToolServer) -> None:
    for tool in server.tools:
        names = [
            name
            for name, schema in tool.parameters["properties"].items()
            if "string" in str(schema.get("type", schema.get("anyOf")))
        ]
        required = dict.fromkeys(tool.parameters.get("required", ()), "tea")
        for name in names:
            for text in STRINGS:
                is_error, answer = call(server, tool.name, {**required, name: text})
                assert "bug in Harken" not in answer, (tool.name, name, text)
                assert not is_error or len(answer) < 3000
                assert not is_error or "\n" not in answer


def test_a_turn_is_cancelled_before_and_while_it_runs() -> None:
    begun = Event()

    async def work() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "late"

    async def main() -> None:
        turn = BranchTurn()

        def run() -> str:
            with asyncio.Runner() as runner:
                return turn.run(runner, work())

        thread = asyncio.create_task(asyncio.to_thread(run))
        await asyncio.to_thread(begun.wait, 30)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await thread

    asyncio.run(main())
    begun.clear()
    turn = BranchTurn()
    turn.cancel()
    with asyncio.Runner() as runner, pytest.raises(asyncio.CancelledError):
        turn.run(runner, work())
    assert not begun.is_set()
