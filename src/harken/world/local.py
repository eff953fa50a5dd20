"""`local_world`: this machine as agents act on it, below one folder.

    world = local_world(Path.cwd(), permissions=Permissions(mode="edits"), user=me)

Files, search and the shell of the folder, a list of things to do, and the user to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from harken.core.arguments import check_arguments
from harken.world.ask_user import ask_user
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.permissions.permissions import Permissions
from harken.world.search.engines import engine_for, ripgrep
from harken.world.search.tools import search_tools
from harken.world.shell.shell import Shell
from harken.world.todo import todo
from harken.world.tool import Function, Tool
from harken.world.triggers.sources import Sources
from harken.world.user import User
from harken.world.world import World


@check_arguments
def local_tools(
    folder: Path,
    *,
    allowed: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    outputs: Path | None = None,
    hide: Collection[str] = (),
    shell: Shell | None = None,
) -> list[Tool]:
    """Return the tools of a folder: read, write, edit, ls, glob, grep, bash, todo, ask_user.

    allowed: folders beside it that file tools may use; readable: those that they may only read.
    outputs: where output goes that is too long for a result; None: a new temporary folder. hide:
    environment variables that commands do not get beside those that look secret, such as the keys
    of models. shell: what runs commands, for instance in a sandbox; None: one that lets them do
    all that their user can.
    """
    # Nobody else can have made it: what is in it is shown to models, and files there are read.
    outputs = outputs or Path(mkdtemp(prefix="harken-outputs-"))
    root = Root(folder, [*allowed, outputs], readable)
    search = ripgrep()
    if search is not None and any(
        map(Path(search).resolve().is_relative_to, (root.folder, *root.allowed))
    ):
        search = None  # what agents can write is not run outside of their sandbox
    return [
        *file_tools(root),
        *search_tools(root, engine_for(search)),
        (shell or Shell(folder, outputs, hide)).tool,
        todo,
        ask_user,
    ]


@check_arguments
def local_triggers(
    folder: Path,
    *,
    allowed: Sequence[Path] = (),
    outputs: Path,
    hide: Collection[str] = (),
    shell: Shell | None = None,
) -> Sources:
    """Return what can wake the agents of a folder; the arguments are those of `local_tools`.

    `trigger_tools` are the tools for it; a world has it as `sources`.
    """
    shell = shell or Shell(folder, outputs, hide)
    return Sources(root=Root(folder, [*allowed, outputs]), shell=shell)


@check_arguments
def local_world(
    folder: str | Path,
    *,
    user: User | None = None,
    permissions: Permissions | None = None,
    tools: Iterable[Tool | Function] = (),
    **limits: Any,
) -> World:
    """Return a world of the tools of a folder, and of `tools` beside them.

    `limits` are those of `local_tools`. Raises ValueError where two tools have one name.
    """
    folder = Path(folder)
    return World(
        [*local_tools(folder, **limits), *tools],
        folder=folder,
        user=user,
        permissions=permissions,
    )
