"""Slash commands of the user: a chat offers each prompt file as a command."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harken.agents.templates.prompt_file import MAX_FILES, PromptFiles, fill_in_prompt
from harken.agents.tree.user_command import add_system_message
from harken.chat.commands.base import COMMANDS, Command, CommandContext
from harken.chat.commands.tree import act
from harken.views.message_text import format_count


def prompt_file_commands(prompts: PromptFiles) -> dict[str, Command]:
    """Return the commands by name, without those that have the name of a built-in one."""
    return {
        name: _command(name, path, prompts)
        for name, path in sorted(prompts.paths().items())[:MAX_FILES]
        if name not in COMMANDS
    }


def prompt_file_notes(prompts: PromptFiles) -> list[str]:
    """Return warnings about prompt files that cannot be used or that hide a short command."""
    names = sorted(prompts.paths())
    hidden = [f"/{name}" for name in names if name in COMMANDS]
    notes: list[str] = []
    if hidden:
        files = format_count(len(hidden), "command")
        notes.append(f"{files} of your own ignored: {', '.join(hidden)} is built in")
    for name in names:
        longer = [f"/{command}" for command in COMMANDS if command.startswith(name)]
        if len(longer) == 1 and name not in COMMANDS:
            notes.append(f"/{name} is a command of your own, not an abbreviation of {longer[0]}")
    return notes


def _command(name: str, path: Path, prompts: PromptFiles) -> Command:
    file = prompts.read(path)
    description = file.description or "user-defined prompt"
    return Command(name, description, partial(_send, path), file.argument_hint, group="own")


def _send(path: Path, talk: CommandContext, argument: str) -> None:
    """Send the text of a prompt file to the agent. Raises ConfigError."""
    prompt = fill_in_prompt(path, argument)
    if prompt.is_system:
        act(talk, f"/{path.stem} {argument}", partial(add_system_message, text=prompt.text))
    else:
        talk.send(prompt.text)
