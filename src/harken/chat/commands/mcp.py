"""`/mcp` shows the MCP servers; each prompt of a server is a command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from harken.chat.commands.arguments import split_named_arguments, split_positional
from harken.chat.commands.base import Command, CommandContext, slash
from harken.terminal.text import one_line
from harken.world.result import InvalidArguments, ToolError

if TYPE_CHECKING:
    from harken.world.mcp.prompts import Prompt
    from harken.world.mcp.servers import McpServerInfo


@slash("mcp", "list the MCP servers, their states and tools")
def _mcp(talk: CommandContext, _: str) -> None:
    mcp = talk.runtime.world.mcp
    servers = [] if mcp is None else mcp.describe()
    lines = [line for server in servers for line in _server_lines(server)]
    prompts = [f"/{name}" for name in talk.user_commands if name.startswith("mcp__")]
    if prompts:
        lines.append(f"prompts: {', '.join(prompts)}")
    talk.print_text("\n".join(lines) or "no MCP servers; see `[mcp.servers.NAME]` in config.toml")


def _server_lines(server: McpServerInfo) -> Iterator[str]:
    about = f" · {one_line(server.about, 40)}" if server.about else ""
    state = "needs login" if server.needs_login else server.state
    yield f"{server.name}  {state}{about} · {one_line(server.program, 60)}"
    if server.reason:
        yield f"  {one_line(server.reason, 200)}"
    if server.reserved:
        yield "  only for agents of templates that use it"
    if server.tools:
        yield f"  tools: {', '.join(server.tools)}"
    for note in server.notes:
        yield f"  {one_line(note, 200)}"


def prompt_commands(prompts: Iterable[Prompt]) -> dict[str, Command]:
    """Return a command for each prompt of MCP servers."""
    commands: dict[str, Command] = {}
    for prompt in prompts:
        hint = " ".join(
            argument.name.upper() if argument.required else f"[{argument.name.upper()}]"
            for argument in prompt.arguments
        )
        meaning = one_line(prompt.description, 200) or f"a prompt of {prompt.server}"
        completes = partial(_complete_arguments, prompt)
        commands[prompt.command] = Command(
            prompt.command,
            meaning,
            partial(_send_prompt, prompt),
            hint,
            group="own",
            completes=completes,
        )
    return commands


def _complete_arguments(prompt: Prompt, _: CommandContext, before: Sequence[str]) -> Iterable[str]:
    used_names = {word.partition("=")[0] for word in before}
    return [
        f"{parameter.name}=" for parameter in prompt.arguments if parameter.name not in used_names
    ]


def _send_prompt(prompt: Prompt, talk: CommandContext, argument: str) -> None:
    """Send the text of a prompt to the agent. Raises InvalidArguments, AgentBusy."""
    mcp = talk.runtime.world.mcp
    if mcp is None:
        raise InvalidArguments(f"its server {prompt.server} is not available any more")
    names = [parameter.name for parameter in prompt.arguments]
    arguments, remaining = split_named_arguments(names, argument)
    bare = [name for name in names if name not in arguments]
    arguments |= dict(zip(bare, split_positional(remaining, len(bare)), strict=False))
    missing = [
        parameter.name
        for parameter in prompt.arguments
        if parameter.required and parameter.name not in arguments
    ]
    if missing:
        raise InvalidArguments(f"missing {' and '.join(missing)}: {' '.join(names)}")
    talk.fetch(partial(_fetch_prompt_text, prompt, talk, arguments))


async def _fetch_prompt_text(
    prompt: Prompt, talk: CommandContext, arguments: dict[str, str]
) -> str:
    """Return the text of a prompt. Raises ToolError."""
    mcp = talk.runtime.world.mcp
    assert mcp is not None, "it was available when the command was typed"
    text = await mcp.get_prompt(prompt.server, prompt.name, arguments)
    if not text.strip():
        raise ToolError(f"the prompt {prompt.name} has no text")
    return text
