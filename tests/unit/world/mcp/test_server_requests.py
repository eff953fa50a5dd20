"""Requests of a server during a call: they do not extend a call endlessly and are limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitResult

from harken.world.mcp.host import McpHost
from harken.world.mcp.server_requests import MAX_NOTES, ServerRequestHandler, ToolCallContext
from harken.world.mcp.timeout import RequestTimeout
from tests.mcp_kit import run, toy_server
from tests.unit.world.permissions.user_kit import ScriptedUser


def inbound(folder: Path, notices: list[str]) -> ServerRequestHandler:
    around = McpHost(folder=folder, outputs=folder, environ={}, on_notice=notices.append)
    return ServerRequestHandler(toy_server(), around, lambda: None)


def test_repeated_requests_after_a_rejection_do_not_extend_the_call(tmp_path: Path) -> None:
    params = ElicitRequestFormParams(message="Tea?", requested_schema={"type": "object"})
    context: Any = None

    async def scene() -> None:
        handler, patience = inbound(tmp_path, []), RequestTimeout(0.3)
        answers = []
        asking = ToolCallContext("main", ScriptedUser(["decline"]), patience)
        with pytest.raises(TimeoutError), handler.allow_forms(asking), patience:
            while True:
                answers.append(await handler.elicit(context, params))
                await asyncio.sleep(0.02)
        assert answers[0] == ElicitResult(action="decline")
        assert answers[1:] == (len(answers) - 1) * [ElicitResult(action="cancel")]

    run(scene())


def test_server_text_for_the_user_is_limited(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        notices: list[str] = []
        handler = inbound(tmp_path, notices)
        for number in range(1000):
            handler.notify(f"its tool {number} is another one now")
        return notices

    notices = run(scene())
    assert len(notices) == MAX_NOTES + 1
    assert notices[-1] == "MCP server toy: further notices are omitted: there are too many"
