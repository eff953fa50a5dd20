"""What a server asks because of a call: the call does not live on it, and nobody reads without end."""

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
from tests.unit.world.permissions.people import Person


def inbound(folder: Path, told: list[str]) -> ServerRequestHandler:
    around = McpHost(folder=folder, outputs=folder, environ={}, on_notice=told.append)
    return ServerRequestHandler(toy_server(), around, lambda: None)


def test_who_was_refused_and_asks_on_gets_no_more_time_for_it(tmp_path: Path) -> None:
    params = ElicitRequestFormParams(message="Tea?", requested_schema={"type": "object"})
    context: Any = None

    async def scene() -> None:
        heard, patience = inbound(tmp_path, []), RequestTimeout(0.3)
        answers = []
        asking = ToolCallContext("main", Person(["decline"]), patience)
        with pytest.raises(TimeoutError), heard.allow_forms(asking), patience:
            while True:
                answers.append(await heard.elicit(context, params))
                await asyncio.sleep(0.02)
        assert answers[0] == ElicitResult(action="decline")
        assert answers[1:] == (len(answers) - 1) * [ElicitResult(action="cancel")]

    run(scene())


def test_of_what_is_to_be_told_of_a_server_a_person_reads_so_much(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        told: list[str] = []
        heard = inbound(tmp_path, told)
        for number in range(1000):
            heard.notify(f"its tool {number} is another one now")
        return told

    told = run(scene())
    assert len(told) == MAX_NOTES + 1
    assert told[-1] == "MCP server toy: further notices are omitted: there are too many"
