"""MCP: a call of a server's tool, and the same call in the SDK's own client.

What every tool costs on its way through a world (parsed, permitted, one change at a time) is shown
beside it.

Of each, the fastest tenth counts: on a shared machine the others wait for the scheduler.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver import MCPServer

from benchmarks.loop import InstantModel
from benchmarks.measure import RUNS, Row, median, spread
from harken import Runtime, SessionOptions, load_session
from harken.core.messages import FunctionCall
from harken.world.mcp.connections import Connections
from harken.world.mcp.servers import Server
from harken.world.mcp.surroundings import Surroundings
from harken.world.tool import Caller
from harken.world.world import World

TOY = Path(__file__).parents[1] / "tests" / "mcp_toy.py"
PROGRAM = Server(name="toy", command=sys.executable, args=("-I", str(TOY)))
CALLS = 100
ROUNDS = 4 * RUNS
TEXT = "x" * 200


def echo(text: str) -> str:
    """Say it again."""
    return text


def here(_: Server | None = None) -> InMemoryTransport:
    """Return a server in this process, made with the SDK."""
    server = MCPServer("toy")
    server.add_tool(echo, structured_output=False)
    return InMemoryTransport(server)


async def nothing(*_: Any) -> Any:
    """Do nothing."""


def able(server: Any) -> Client:
    """Return the SDK's client, with the abilities that a world has: servers are told of them."""
    return Client(
        server,
        elicitation_callback=nothing,
        list_roots_callback=nothing,
        message_handler=nothing,
        cache=None,
    )


async def in_turn(*calls: Callable[[], Awaitable[object]]) -> list[float]:
    """Make some calls in turn, many times; return the seconds of the fastest tenth of each."""
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(CALLS):
        for call, seconds in zip(calls, took, strict=True):
            start = perf_counter()
            await call()
            seconds.append(perf_counter() - start)
    return [statistics.quantiles(seconds, n=10)[0] for seconds in took]


async def all_three(folder: Path, connect: Any, bare_server: Any) -> list[list[float]]:
    """Return the seconds of a call, of one through a world, and in the bare client, in turn."""
    around = Surroundings(folder=folder, outputs=folder, environ={"PATH": os.environ["PATH"]})
    world = World(folder=folder, mcp=Connections([PROGRAM], around=around, connect=connect))
    runtime = Runtime(model=InstantModel(0, []), world=world)
    options = SessionOptions(durability="none")  # what the log takes is measured elsewhere
    agent, session = load_session(folder / "log.jsonl", runtime=runtime, options=options)
    entry = {"role": "user", "content": "?"}
    caller = Caller(agent, session.log_transcript_entry(agent.agent_id, entry))
    action = FunctionCall("mcp__toy__echo", f'{{"text": "{TEXT}"}}')
    found: list[list[float]] = []
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(able(bare_server))
        await client.list_tools()
        await world.ready()
        stack.push_async_callback(world.close)
        stack.callback(session.close)

        tool = world.tools["mcp__toy__echo"]

        async def ours() -> None:
            assert await tool.run({"text": TEXT}, caller) == TEXT

        async def through_a_world() -> None:
            result = await world.do_action(action, caller)
            assert result.content == TEXT, result

        async def by_itself() -> None:
            result = await client.call_tool("echo", {"text": TEXT}, progress_callback=nothing)
            assert not result.is_error

        for number in range(ROUNDS + 1):
            seconds = await in_turn(ours, through_a_world, by_itself)
            if number:  # the first warms up
                found.append(seconds)
    return [list(column) for column in zip(*found, strict=True)]


def rows_of(where: str, connect: Any, bare_server: Any) -> list[Row]:
    """Measure a server at a place."""
    with tempfile.TemporaryDirectory() as name:
        ours, through, bare = asyncio.run(all_three(Path(name), connect, bare_server))
    beyond = [(a / b - 1) for a, b in zip(ours, bare, strict=True)]
    note = f"{(median(ours) - median(bare)) * 1e6:.0f} µs"
    return [
        Row(f"a call of an MCP server's tool, {where}: ms", spread(ours, 1e3, 2)),
        Row(f"the same through a world, {where}: ms", spread(through, 1e3, 2)),
        Row(f"the same in the bare SDK, {where}: ms", spread(bare, 1e3, 2)),
        Row(f"that beyond the bare SDK, {where}: %", spread(beyond, 100, 1), "< 10", note),
    ]


def rows() -> list[Row]:
    """Measure it."""
    program = StdioServerParameters(command=sys.executable, args=[*PROGRAM.args])
    return [
        *rows_of("in this process", here, here()),
        *rows_of("a program", None, program),
    ]
