"""A client for the conformance suite: `python mcp_conformance_client.py URL` calls all tools.

It is a world with one server. Its user approves all requests, logs in where the server
requires it, and configures the issuer of tokens for programs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from msgspec import structs

from harken.core import canonical
from harken.core.messages import FunctionCall
from harken.errors import ConfigError
from harken.world.local_world import LocalWorld
from harken.world.mcp.auth.authorization_code import log_in
from harken.world.mcp.auth.redirect_server import Callback
from harken.world.mcp.auth.token_store import Logins
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig, OAuthTable
from harken.world.mcp.servers import McpServers
from harken.world.tool import ToolContext
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion
from tests.mcp_auth_server import visit

EXAMPLE_VALUES = {
    "number": 5,
    "integer": 5,
    "boolean": True,
    "string": "x",
    "array": [],
    "object": {},
}
CLIENT_DOCUMENT_URL = "https://conformance-test.local/client-metadata.json"
"""The client id of a client with a metadata document."""


class ApprovingUser:
    """A user who approves all requests."""

    async def ask(self, asked: UserQuestion) -> str:
        return ""

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(allowed=True)


def example_arguments(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {
        name: EXAMPLE_VALUES[member.get("type", "string")] for name, member in properties.items()
    }


def server_config(url: str) -> McpServerConfig:
    """Return the configuration of the server, with the credentials that the suite gives."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    oauth = OAuthTable(
        grant="client_credentials" if "client-credentials" in scenario else "authorization_code",
        client_id=CLIENT_DOCUMENT_URL if "cimd" in scenario else context.get("client_id", ""),
        client_secret=context.get("client_secret", ""),
        private_key=context.get("private_key_pem", ""),
        signing_algorithm=context.get("signing_algorithm", "RS256"),
    )
    return McpServerConfig(name="s", url=url, oauth=oauth)


async def log_in_at(server: McpServerConfig, logins: Logins) -> bool:
    """Log in as an agreeing user. Return whether the login succeeded."""
    try:
        async with Callback() as callback:
            await log_in(server, logins, callback, visit, wait_s=10)
    except ConfigError as error:
        print(error)
        return False
    return True


async def use_server(url: str, folder: Path) -> int:
    """Call all tools of a server. Log in if it requires that, at most three times."""
    server, logins = server_config(url), Logins(folder / "logins.json")
    failed = 1
    for _ in range(3):
        failed, wants, reason = await use_once(server, logins, folder)
        if issuer := re.search(r"(\S+) gives its tokens", reason):
            server = replace(server, oauth=structs.replace(server.oauth, issuer=issuer[1]))
        elif not wants or not await log_in_at(server, logins):
            break
    return failed


async def use_once(server: McpServerConfig, logins: Logins, folder: Path) -> tuple[int, bool, str]:
    """Call all tools of a server. Return the number of failures, whether it needs a login, and why."""
    around = McpHost(folder=folder, outputs=folder, on_notice=print, logins=logins.file)
    world = LocalWorld(folder=folder, mcp=McpServers([server], host=around))
    session = SimpleNamespace(sync=lambda: None, agents={})
    agent = SimpleNamespace(name="main", agent_id="agent_001", session=session)
    caller = ToolContext(agent, "msg_001", ApprovingUser())
    await world.wait_ready()
    assert world.mcp is not None
    failed = world.mcp.describe()[0].state != "open"
    wants, reason = world.mcp.describe()[0].needs_login, world.mcp.describe()[0].reason
    for tool in [*world.tools.values()]:
        arguments = canonical.to_json_line(example_arguments(tool.parameters)).decode()
        result = await world.call_tool(FunctionCall(tool.name, arguments), caller)
        print(tool.name, result.content)
        failed = failed or result.is_error
        wants = wants or world.mcp.describe()[0].needs_login
    await world.close()
    return int(failed), wants, reason


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        sys.exit(asyncio.run(use_server(sys.argv[-1], Path(name))))
