"""The system prompt of a chat: who the agent is, where, and how it works here."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

from harken.cli.trust import upwards
from harken.world.files.root import shown, size_text

PROJECT = "AGENTS.md"
"""What a project tells agents; https://agents.md says what is usually in it."""
LONGEST = 64_000

TEXT = """\
You are main, an agent of Harken. You work with a user in a terminal.

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


def system_prompt(folder: Path, today: date) -> str:
    """Return the prompt for a new chat in a folder, with what the project tells agents."""
    text = TEXT.format(folder=shown(str(folder)), system=platform.system(), today=today.isoformat())
    project = project_instructions(folder)
    return f"{text}\n\nFrom {PROJECT} of this project:\n\n{project}" if project else text


def project_instructions(folder: Path, user_home: Path | None = None) -> str:
    """Return what the nearest `AGENTS.md` says, from a folder upwards; nothing where none can be.

    It is looked for where `.harken/` is (`user_home`: see `upwards`). A link out of the project is
    not followed: a cloned repository could have files of the person sent to a provider.
    """
    try:
        end = (user_home or Path("~").expanduser()).resolve()
        folders = (folder.resolve(), *upwards(folder.resolve(), end))
        found = next((one for one in folders if os.path.lexists(one / PROJECT)), None)
        if found is None:
            return ""
        file = found / PROJECT
        if not file.is_file() or not file.resolve().is_relative_to(_project(found)):
            return ""
        with file.open("rb") as opened:
            data = opened.read(LONGEST + 1)
    except OSError:
        return ""
    text = data[:LONGEST].decode("utf-8", "replace").strip()
    cut = f"\n\n[{PROJECT} is longer; it was cut here, after {size_text(LONGEST)}]"
    return text + cut if len(data) > LONGEST else text


def _project(folder: Path) -> Path:
    """Return the folder of the git repository around a folder; without one, the folder."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
