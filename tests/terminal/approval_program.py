"""A chat with tools that need the user's leave.

Started by tests: `python approval_program.py HOME SCRIPT`.
"""

from __future__ import annotations

import asyncio
import sys

import harken.cli.commands.chat.slash_commands  # noqa: F401 - it registers the slash commands
from harken.chat.open import open_chat
from harken.chat.options import ChatOptions
from harken.chat.plain_chat import PlainChat, PlainUser, tell
from harken.chat.screen.event_queue import ScreenHandle
from harken.chat.screen.screen import Screen
from harken.config.home import Home
from harken.terminal.environment import TerminalEnvironment, has_screen
from harken.terminal.stdin import StdinReader
from harken.world.ask_user import ask_user
from harken.world.tool import tool

DIFF = "@@ -1,2 +1,2 @@\n a cup\n-of coffee\n+of tea\n"


@tool
async def brew(what: str) -> str:
    """Brew something; slow tea takes a while."""
    await asyncio.sleep(2 if what.startswith("slow") else 0)
    return "\n".join(f"cup {number} of {what}" for number in range(9))


@tool
async def edit(path: str) -> str:
    """Change a file."""
    return DIFF


async def preview_brew(what: str) -> str:
    return f"brew {what}"


async def preview_edit(path: str) -> str:
    return DIFF * 30


TOOLS = (
    brew.with_subject(by="what", preview=preview_brew),
    edit.with_subject(by="path", edits_files=True, preview=preview_edit),
    ask_user,
)


def main() -> int:
    home, face = Home(sys.argv[1]), ScreenHandle()
    typed = StdinReader()
    plain_user = PlainUser(typed.read_new_line, tell, typed.keep_type_ahead)
    user = face.questions if has_screen() else plain_user
    opened = open_chat(
        home,
        ChatOptions(model=f"scripted:{sys.argv[2]}"),
        user=user,
        on_chunk=face.event_queue.on_chunk,
        tools=TOOLS,
    )
    where = TerminalEnvironment.from_process(home.folder / "history")
    with opened.session, asyncio.Runner() as runner:
        if has_screen():
            return runner.run(Screen(face, opened, where).run())
        PlainChat(opened, runner, as_json=False, typed=typed).talk()
    return 0


if __name__ == "__main__":
    sys.exit(main())
