"""Prompts: texts that a server has ready, for a person to say with a slash command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types as types
from mcp import Client

from harken.world.mcp.connection import McpConnection
from harken.world.mcp.content import MAX_CHARACTERS, text_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.names import tool_names
from harken.world.mcp.pagination import prompts_of
from harken.world.result import ToolError


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """What a prompt wants to know."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a server."""

    server: str
    name: str
    command: str
    """How it is called as a slash command, without the slash: `mcp__SERVER__PROMPT`."""
    description: str
    arguments: tuple[PromptArgument, ...] = ()


async def prompts_in(connection: McpConnection) -> list[Prompt]:
    """Return the prompts of a server. Raises ToolError."""
    server = connection.server.name
    listed: list[types.Prompt] = await connection.request("prompts/list", prompts_of)
    names = tool_names(server, [one.name for one in listed])
    return [
        Prompt(
            server,
            one.name,
            names[one.name],
            one_line(one.description or one.title or ""),
            tuple(_argument(argument) for argument in one.arguments or ()),
        )
        for one in listed
    ]


def _argument(argument: types.PromptArgument) -> PromptArgument:
    about = one_line(argument.description or "")
    return PromptArgument(argument.name, about, bool(argument.required))


async def prompt_text(connection: McpConnection, name: str, arguments: Mapping[str, str]) -> str:
    """Return what a prompt says: the text of its one message; of several, who says each.

    Raises ToolError.
    """

    async def get(client: Client) -> types.GetPromptResult:
        return await client.get_prompt(name, dict(arguments) or None)

    got: types.GetPromptResult = await connection.request(f"the prompt {name!r}", get)
    said = [(message.role, text_of([message.content])) for message in got.messages]
    text = said[0][1] if len(said) == 1 else "\n\n".join(f"[{role}]: {one}" for role, one in said)
    if len(text) > MAX_CHARACTERS:
        raise ToolError(f"the prompt {name!r} has more than {MAX_CHARACTERS:,} characters")
    return text
