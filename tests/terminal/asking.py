"""A chat whose tools ask the user: what a `Permissions` that asks would do, in small.

Started by tests: `python asking.py HOME SCRIPT`.
"""

from __future__ import annotations

import asyncio
import sys

from harken.cli.home import Home
from harken.cli.opening import Wish, open_chat
from harken.cli.screen.face import Face
from harken.cli.screen.screen import Screen
from harken.cli.screen.surroundings import Surroundings
from harken.world.result import Failed
from harken.world.tool import Caller, tool
from harken.world.user import Asked, Wanted

DIFF = "@@ -1,2 +1,2 @@\n a cup\n-of coffee\n+of tea\n"


async def permitted(caller: Caller, name: str, subject: str, preview: str) -> None:
    assert caller.user is not None
    rules = (f"{name}({subject})", f"{name}(*)")
    agent = caller.agent.name
    wanted = Wanted(agent=agent, tool=name, subject=subject, preview=preview, rules=rules)
    leave = await caller.user.permit(wanted)
    if not leave.allowed:
        raise Failed(f"the user said no: {leave.reason}")


@tool
async def brew(what: str, caller: Caller) -> str:
    """Brew something."""
    await permitted(caller, "brew", what, f"brew {what}")
    return "\n".join(f"cup {number} of {what}" for number in range(9))


@tool
async def edit(path: str, caller: Caller) -> str:
    """Change a file."""
    await permitted(caller, "edit", path, DIFF * 30)
    return DIFF


@tool
async def ask_user(question: str, caller: Caller) -> str:
    """Ask the user."""
    assert caller.user is not None
    options = ("green tea", "black tea")
    agent = caller.agent.name
    return await caller.user.ask(Asked(agent=agent, question=question, options=options))


def main() -> int:
    home, face = Home(sys.argv[1]), Face()
    opened = open_chat(
        home,
        Wish(model=f"scripted:{sys.argv[2]}"),
        user=face.questions,
        on_chunk=face.ears.on_chunk,
        tools=(brew, edit, ask_user),
    )
    where = Surroundings.here(home.folder / "history")
    with opened.session:
        return asyncio.run(Screen(face, opened, where).run())


if __name__ == "__main__":
    sys.exit(main())
