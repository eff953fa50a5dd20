"""Prompts: message templates of a server, available as slash commands."""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as types
import msgspec
from mcp import Client

from harken.world.mcp.connection import McpConnection
from harken.world.mcp.content import MAX_CHARACTERS, text_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.names import tool_names
from harken.world.mcp.pagination import prompts_of
from harken.world.result import ToolError


class PromptArgument(msgspec.Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str
    required: bool


class Prompt(msgspec.Struct, frozen=True):
    """A prompt of a server."""

    server: str
    name: str
    command: str
    """Its slash command, without the slash: `mcp__SERVER__PROMPT`."""
    description: str
    arguments: tuple[PromptArgument, ...] = ()


async def prompts_in(connection: McpConnection) -> list[Prompt]:
    """Return the prompts of a server. Raises ToolError."""
    server = connection.server.name
    listing: list[types.Prompt] = await connection.request("prompts/list", prompts_of)
    names = tool_names(server, [prompt.name for prompt in listing])
    return [
        Prompt(
            server,
            prompt.name,
            names[prompt.name],
            one_line(prompt.description or prompt.title or ""),
            tuple(_parse_argument(argument) for argument in prompt.arguments or ()),
        )
        for prompt in listing
    ]


def _parse_argument(argument: types.PromptArgument) -> PromptArgument:
    description = one_line(argument.description or "")
    return PromptArgument(argument.name, description, bool(argument.required))


async def prompt_text(connection: McpConnection, name: str, arguments: Mapping[str, str]) -> str:
    """Return the text of a prompt; several messages are labeled with their roles.

    Raises ToolError.
    """

    async def get_prompt(client: Client) -> types.GetPromptResult:
        return await client.get_prompt(name, dict(arguments) or None)

    result: types.GetPromptResult = await connection.request(f"the prompt {name!r}", get_prompt)
    messages = [(message.role, text_of([message.content])) for message in result.messages]
    text = (
        messages[0][1]
        if len(messages) == 1
        else "\n\n".join(f"[{role}]: {message_text}" for role, message_text in messages)
    )
    if len(text) > MAX_CHARACTERS:
        raise ToolError(f"the prompt {name!r} has more than {MAX_CHARACTERS:,} characters")
    return text
