"""`local_world`: the tools for working on this machine below one folder.

    world = local_world(Path.cwd(), permissions=Permissions(mode="edits"), user=me)

The tools cover files, search, the shell, a list of tasks and questions to the user.
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
from harken.world.local_world import LocalWorld
from harken.world.permissions.permissions import Permissions
from harken.world.search.engines import engine_for, ripgrep
from harken.world.search.tools import search_tools
from harken.world.shell.shell import Shell
from harken.world.todo import todo
from harken.world.tool import Function, Tool
from harken.world.triggers.sources import Sources
from harken.world.user import User


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

    allowed: further folders that file tools may use; readable: folders that they may only read.
    outputs: folder for output that is too long for a result; None: a new temporary folder. hide:
    environment variables that commands do not get, besides those that look secret, such as API
    keys. shell: the shell that runs commands, for instance in a sandbox; None: a shell without
    restrictions beyond those of the user.
    """
    # The folder must be new: its content is shown to models, and files in it are readable.
    outputs = outputs or Path(mkdtemp(prefix="harken-outputs-"))
    root = Root(folder, [*allowed, outputs], readable)
    search = ripgrep()
    if search is not None and any(
        map(Path(search).resolve().is_relative_to, (root.folder, *root.allowed))
    ):
        search = None  # a program that agents can write must not run outside of their sandbox
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
    """Return the trigger sources of a folder; the arguments are those of `local_tools`.

    `trigger_tools` returns the tools for it; a world has it as `sources`.
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
) -> LocalWorld:
    """Return a world with the tools of a folder, and further `tools`.

    `limits` are arguments of `local_tools`. Raises ValueError if two tools have the same name.
    """
    folder = Path(folder)
    return LocalWorld(
        [*local_tools(folder, **limits), *tools],
        folder=folder,
        user=user,
        permissions=permissions,
    )
