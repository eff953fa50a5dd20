"""The system prompt of a chat: the agent's role, environment and rules."""

from __future__ import annotations

import os
import platform
import shlex
from datetime import date
from pathlib import Path

import msgspec

from harken.config.trust import INSTRUCTIONS, Trust, iter_project_folders
from harken.terminal.text import escape_control_characters, program_name
from harken.world.files.root import display_name, size_text

MAX_INSTRUCTIONS_BYTES = 64_000

TEXT = """\
You are main, an agent of Harken. You work with a user.

Working folder: {folder}
System: {system}. Today: {today}.

How you work here:
- Look before you answer: read, grep and glob find what is so. Do not guess what you can read.
- Change files with edit and write, not with the shell; read a file before you change it. Keep to
  the style of what is there, and change nothing that was not asked for.
- Run what shows that it works: the project's tests, the program itself. Say so where you did not.
- Use todo for work of several steps. Ask the user what only the user can know or decide.
- An action may be refused. Then find another way, or say what is missing; do not work around it.
- Subagents (task) suit work that stands alone, or a second opinion. They know nothing of this
  conversation: tell them all that they need. They stay, and remember: discuss asks them again.
- Answer in Markdown, briefly: what you did, what you found, what is left. Name files as
  path:line."""


class Instructions(msgspec.Struct, frozen=True):
    """The instructions of a project for agents."""

    file: Path
    text: str
    """Without control characters: they are written out, as `\\x1b`."""
    size_bytes: int


class ChatPrompt(msgspec.Struct, frozen=True):
    """The system prompt of a new chat."""

    text: str
    note: str = ""
    """A line for the user, if a part of it comes from a folder that they do not trust."""


def build_system_prompt(folder: Path, today: date, trust: Trust | None = None) -> ChatPrompt:
    """Return the prompt for a new chat in a folder, with the instructions of its project.

    trust: without it, no folder is trusted. Raises ConfigError if its list cannot be read.
    """
    text = TEXT.format(
        folder=display_name(str(folder)), system=platform.system(), today=today.isoformat()
    )
    instructions = find_project_instructions(folder)
    if instructions is None:
        return ChatPrompt(text)
    text = f"{text}\n\nFrom {INSTRUCTIONS} of this project:\n\n{instructions.text}"
    if trust is not None and trust.is_within_trusted(instructions.file.parent):
        return ChatPrompt(text)
    size = size_text(instructions.size_bytes)
    how = f"{program_name()} trust {shlex.quote(str(instructions.file.parent))}"
    note = (
        f"{instructions.file} ({size}) is part of the system prompt, but its folder is not trusted"
    )
    return ChatPrompt(text, f"{note}: read it, then `{how}`")


def find_project_instructions(folder: Path, user_home: Path | None = None) -> Instructions | None:
    """Return the nearest `AGENTS.md`, from a folder upwards. Return None if there is none.

    It is looked for where `.harken/` is (`user_home`: see `upwards`). A link out of the project is
    not followed: a cloned repository could have files of the person sent to a provider.
    """
    try:
        end = (user_home or Path("~").expanduser()).resolve()
        folders = (folder.resolve(), *iter_project_folders(folder.resolve(), end))
        ancestor = next((path for path in folders if os.path.lexists(path / INSTRUCTIONS)), None)
        if ancestor is None:
            return None
        file = ancestor / INSTRUCTIONS
        if not file.is_file() or not file.resolve().is_relative_to(_find_repository(ancestor)):
            return None
        with file.open("rb") as stream:
            data = stream.read(MAX_INSTRUCTIONS_BYTES + 1)
            size_bytes = os.fstat(stream.fileno()).st_size
    except OSError:
        return None
    text = (
        data[:MAX_INSTRUCTIONS_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()
    )
    if len(data) > MAX_INSTRUCTIONS_BYTES:
        text += (
            f"\n\n[{INSTRUCTIONS} was truncated here, after {size_text(MAX_INSTRUCTIONS_BYTES)}]"
        )
    return Instructions(file, escape_control_characters(text), size_bytes) if text else None


def _find_repository(folder: Path) -> Path:
    """Return the root of the git repository of a folder, or the folder itself."""
    return next(
        (ancestor for ancestor in (folder, *folder.parents) if (ancestor / ".git").exists()), folder
    )
