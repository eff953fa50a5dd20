"""Helpers for tests of MCP servers: a toy server as a program, and a world with servers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from harken.core import canonical
from harken.core.messages import FunctionCall
from harken.world.local_world import LocalWorld
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServers
from harken.world.result import ToolResult
from harken.world.tool import Tool, ToolContext
from harken.world.user import User

TOY = Path(__file__).with_name("mcp_toy.py")
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Raises TimeoutError after a minute."""

    async def limited() -> T:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(limited())


def toy_server(name: str = "toy", *arguments: str, **more: Any) -> McpServerConfig:
    """Return the configuration of the toy server."""
    return McpServerConfig(
        name=name, command=sys.executable, args=("-I", str(TOY), *arguments), **more
    )


@dataclass
class McpStage:
    """A world with servers, and its notices."""

    world: LocalWorld
    mcp: McpServers
    notices: list[str]
    progress: list[Any]
    folder: Path
    user: User | None = None
    granted: tuple[str, ...] = ()

    def tool_context(self) -> ToolContext:
        session = SimpleNamespace(sync=lambda: None, agents={})
        agent = SimpleNamespace(
            name="main", agent_id="agent_001", session=session, servers=self.granted
        )
        return ToolContext(agent, "msg_001", self.user)

    async def call_tool(self, tool: str, /, **arguments: Any) -> ToolResult:
        """Call a tool as an agent would."""
        arguments_text = canonical.to_json_line(arguments).decode()
        return await self.world.call_tool(FunctionCall(tool, arguments_text), self.tool_context())

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool and return the text of its result. Fail if it is an error."""
        result = await self.call_tool(tool, **arguments)
        assert not result.is_error, result
        assert isinstance(result.content, str), result
        return result.content

    async def failure(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that fails and return the error line."""
        result = await self.call_tool(tool, **arguments)
        assert result.is_error, result
        assert isinstance(result.content, str)
        assert "\n" not in result.content
        return result.content


@asynccontextmanager
async def open_mcp_stage(
    folder: Path,
    *servers: McpServerConfig,
    environ: dict[str, str] | None = None,
    connect: Callable[[McpServerConfig], Any] | None = None,
    tools: Iterable[Tool] = (),
    **more: Any,
) -> AsyncIterator[McpStage]:
    """Yield a world of `folder / "here"` with these servers, after their first connection."""
    notices: list[str] = []
    progress: list[Any] = []
    work_folder = folder / "here"
    work_folder.mkdir(exist_ok=True)
    around = McpHost(
        folder=work_folder,
        outputs=folder / "outputs",
        environ={"PATH": os.environ["PATH"], **(environ or {})},
        hide=frozenset({"MODEL_KEY"}),
        logins=more.pop("logins", None),
        sandbox=more.pop("sandbox", None),
        on_notice=notices.append,
    )
    late_s = more.pop("late_s", 60.0)  # a busy machine is no news
    mcp = McpServers(
        servers, host=around, on_progress=progress.append, connect=connect, late_s=late_s
    )
    world = LocalWorld(tools, folder=work_folder, mcp=mcp)
    await world.wait_ready()
    try:
        yield McpStage(world, mcp, notices, progress, folder, **more)
    finally:
        await world.close()


def toy_server_with_log(folder: Path) -> McpServerConfig:
    """Return the toy server, which logs canceled requests in `toy.log`."""
    (folder / "toy.log").touch()
    return toy_server(env={"TOY_LOG": str(folder / "toy.log")})


async def wait_until(condition: Callable[[], Any], within_s: float = 30.0) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
