"""MCP: a call of a server's tool, and the same call in the SDK's own client.

What every tool costs on its way through a world (parsed, permitted, one change at a time) is shown
beside it.

The three are called one after the other, in each order as often, and compared with the bare call
beside them: so what a shared machine does to one it does to all. The median of many counts.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver import MCPServer

from benchmarks.loop import InstantModel
from benchmarks.measure import RUNS, Row, median, spread
from harken import AgentRuntime, SessionOptions, load_session
from harken.core.messages import FunctionCall
from harken.world.local_world import LocalWorld
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServers
from harken.world.tool import ToolContext

TOY = Path(__file__).parents[1] / "tests" / "mcp_toy.py"
PROGRAM = McpServerConfig(name="toy", command=sys.executable, args=("-I", str(TOY)))
CALLS = 420
"""Of each, in a round: as often in each order."""
LEFT = 5
"""So many rounds of the event loop count with a call: what the SDK does behind it is not the next
one's."""
TEXT = "x" * 200


def echo(text: str) -> str:
    """Say it again."""
    return text


def here(_: McpServerConfig | None = None) -> InMemoryTransport:
    """Return a server in this process, made with the SDK."""
    server = MCPServer("toy")
    server.add_tool(echo, structured_output=False)
    return InMemoryTransport(server)


async def nothing(*_: Any, **__: Any) -> Any:
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


async def in_turn(*calls: Callable[[], Awaitable[object]]) -> list[list[float]]:
    """Make some calls in turn, many times; return the CPU seconds of each, in the order of calls.

    On the wall a call of a program also waits until the scheduler lets that one run.
    """
    took: list[list[float]] = [[] for _ in calls]
    orders = itertools.cycle(itertools.permutations(range(len(calls))))
    for order in itertools.islice(orders, CALLS):
        for which in order:
            start = process_time()
            await calls[which]()
            for _ in range(LEFT):
                await asyncio.sleep(0)
            took[which].append(process_time() - start)
    return took


@dataclass(frozen=True, slots=True)
class Round:
    """What a call took in one round, in CPU seconds of this process."""

    tool_s: float
    world_s: float
    bare_s: float
    tool_more: float
    """How much more of a tool's call, as a part of the bare one."""
    world_more: float


def round_of(tool: list[float], world: list[float], bare: list[float]) -> Round:
    """Return the medians of one round; calls are compared with the bare one beside them."""
    usual = median(bare)
    more = [median([a - b for a, b in zip(one, bare, strict=True)]) for one in (tool, world)]
    return Round(median(tool), median(world), usual, more[0] / usual, more[1] / usual)


async def all_three(folder: Path, connect: Any, bare_server: Any) -> list[Round]:
    """Compare a call, one through a world, and one in the bare client."""
    around = McpHost(folder=folder, outputs=folder, environ={"PATH": os.environ["PATH"]})
    world = LocalWorld(folder=folder, mcp=McpServers([PROGRAM], host=around, connect=connect))
    runtime = AgentRuntime(model=InstantModel(0, []), world=world)
    options = SessionOptions(durability="none")  # what the log takes is measured elsewhere
    agent, session = load_session(folder / "log.jsonl", runtime=runtime, options=options)
    entry = {"role": "user", "content": "?"}
    caller = ToolContext(agent, session.log_transcript_entry(agent.agent_id, entry))
    action = FunctionCall("mcp__toy__echo", f'{{"text": "{TEXT}"}}')
    found: list[Round] = []
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(able(bare_server))
        await client.list_tools()
        await world.wait_ready()
        stack.push_async_callback(world.close)
        stack.callback(session.close)

        tool = world.tools["mcp__toy__echo"]

        async def ours() -> None:
            assert await tool.run({"text": TEXT}, caller) == TEXT

        async def through_a_world() -> None:
            result = await world.call_tool(action, caller)
            assert result.content == TEXT, result

        async def by_itself() -> None:
            result = await client.call_tool("echo", {"text": TEXT}, progress_callback=nothing)
            assert not result.is_error

        for number in range(RUNS + 1):
            took = await in_turn(ours, through_a_world, by_itself)
            if number:  # the first warms up
                found.append(round_of(*took))
    return found


def rows_of(where: str, connect: Any, bare_server: Any) -> list[Row]:
    """Measure a server at a place."""
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(all_three(Path(name), connect, bare_server))
    more_us = median([one.tool_more * one.bare_s for one in found]) * 1e6
    world_us = median([one.world_more * one.bare_s for one in found]) * 1e6
    return [
        Row(
            f"a call of an MCP server's tool, {where}: CPU ms",
            spread([r.tool_s for r in found], 1e3),
        ),
        Row(f"the same in the bare SDK, {where}: CPU ms", spread([r.bare_s for r in found], 1e3)),
        Row(
            f"that beyond the bare SDK, {where}: %",
            spread([one.tool_more for one in found], 100, 1),
            "< 10",
            f"{more_us:.0f} µs",
        ),
        Row(
            f"the same through a world, beyond the bare SDK, {where}: %",
            spread([one.world_more for one in found], 100, 1),
            "",
            f"{world_us:.0f} µs",
        ),
    ]


def rows() -> list[Row]:
    """Measure it."""
    program = StdioServerParameters(command=sys.executable, args=[*PROGRAM.args])
    return [
        *rows_of("in this process", here, here()),
        *rows_of("a program", None, program),
    ]
