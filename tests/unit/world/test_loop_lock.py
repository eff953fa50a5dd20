"""Locks serialize calls that change the same target. Other calls do not wait."""

import asyncio
from pathlib import Path

from harken.world.local_world import LocalWorld
from harken.world.tool import tool
from tests.mcp_kit import open_mcp_stage, run, toy_server


@tool
def note() -> str:
    """Change the world."""
    return "noted"


def test_hanging_server_blocks_only_its_own_calls(tmp_path: Path) -> None:
    async def scene() -> None:
        async with open_mcp_stage(
            tmp_path, toy_server(), toy_server("other"), tools=[note]
        ) as harness:
            hangs = asyncio.create_task(harness.call_tool("mcp__toy__hang"))
            await asyncio.sleep(0)
            waits = asyncio.create_task(harness.call_tool("mcp__toy__echo", text="a"))
            assert await harness.text("mcp__other__echo", text="b") == "b"
            assert await harness.text("note") == "noted"
            assert not hangs.done()
            assert not waits.done()
            hangs.cancel()
            assert (await waits).content == "a"

    run(scene())


def test_nested_calls_wait_for_each_other_and_outer_calls_for_them() -> None:
    world, order = LocalWorld(), list[str]()

    async def hold(name: str, *whats: str) -> None:
        for target in whats:
            await asyncio.sleep(0)
            async with world.exclusive(target):
                order.append(f"{name} {target}")
                await asyncio.sleep(0)
                order.append(f"{name} {target} end")

    async def outer() -> None:
        async with world.exclusive("a"):
            order.append("outer")
            await asyncio.gather(hold("one", "a"), hold("two", "a", "b"))
            order.append("outer end")

    async def scene() -> None:
        task = asyncio.create_task(outer())
        second = asyncio.create_task(hold("other", "a"))
        async with world.exclusive("b"):
            for _ in range(20):
                await asyncio.sleep(0)
            order.append("b is free")
        await asyncio.gather(task, second)

    run(scene())
    assert order == [
        "outer",
        *["one a", "one a end", "two a", "two a end"],
        "b is free",
        *["two b", "two b end"],
        "outer end",
        *["other a", "other a end"],
    ]
