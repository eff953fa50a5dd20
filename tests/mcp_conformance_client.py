"""A client for the conformance suite: `python mcp_conformance_client.py URL` uses all there is.

It is a world of Harken's with one server; its user takes what is proposed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from harken.core import codec
from harken.core.messages import FunctionCall
from harken.world.mcp.connections import Connections
from harken.world.mcp.servers import Server
from harken.world.mcp.surroundings import Surroundings
from harken.world.tool import Caller
from harken.world.user import Asked, Leave, Wanted
from harken.world.world import World

VALUES = {"number": 5, "integer": 5, "boolean": True, "string": "x", "array": [], "object": {}}


class Agreeing:
    """A user who takes what is proposed."""

    async def ask(self, asked: Asked) -> str:
        return ""

    async def permit(self, wanted: Wanted) -> Leave:
        return Leave(allowed=True)


def arguments_for(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: VALUES[one.get("type", "string")] for name, one in properties.items()}


async def use(url: str, folder: Path) -> int:
    around = Surroundings(folder=folder, outputs=folder, tell=print)
    world = World(folder=folder, mcp=Connections([Server(name="s", url=url)], around=around))
    session = SimpleNamespace(settle=lambda: None, agents={})
    agent = SimpleNamespace(name="main", agent_id="agent_001", session=session)
    caller = Caller(agent, "msg_001", Agreeing())
    await world.ready()
    assert world.mcp is not None
    failed = world.mcp.describe()[0].state != "open"
    for tool in [*world.tools.values()]:
        arguments = codec.encode(arguments_for(tool.parameters)).decode()
        result = await world.do_action(FunctionCall(tool.name, arguments), caller)
        print(tool.name, result.content)
        failed = failed or result.is_error
    await world.close()
    return int(failed)


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        sys.exit(asyncio.run(use(sys.argv[-1], Path(name))))
