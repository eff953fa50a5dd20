"""When the processes of servers end and start again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.mcp_kit import is_alive, open_mcp_stage, run, toy_server


def test_server_ends_with_all_its_child_processes(tmp_path: Path) -> None:
    async def scene() -> int:
        async with open_mcp_stage(tmp_path, toy_server("toy", "stays")) as harness:
            pid = int(await harness.text("mcp__toy__child"))
            assert is_alive(pid)
        return pid

    assert not is_alive(run(scene()))


def test_servers_end_with_their_loop_and_restart_in_another(
    tmp_path: Path,
) -> None:
    from harken.world.local_world import LocalWorld
    from harken.world.mcp.host import McpHost
    from harken.world.mcp.servers import McpServers

    around = McpHost(folder=tmp_path, outputs=tmp_path / "outputs", environ=os.environ)
    world = LocalWorld(mcp=McpServers([toy_server()], host=around))

    async def pid() -> int:
        await world.wait_ready()
        return int(str(await world.tools["mcp__toy__child"].run({})))

    first = asyncio.run(pid())
    assert not is_alive(first)
    second = asyncio.run(pid())
    assert second != first
    assert not is_alive(second)
