"""`local_world`: this machine as agents act on it, below one folder.

    world = local_world(Path.cwd(), permissions=Permissions(mode="edits"), user=me)

Files, search and the shell of the folder, a list of things to do, and the user to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from harken.world.ask import ask_user
from harken.world.engines import engine_for, ripgrep
from harken.world.files import file_tools
from harken.world.permissions import Permissions
from harken.world.root import Root
from harken.world.search import search_tools
from harken.world.shell import Shell
from harken.world.todo import todo
from harken.world.tool import Tool
from harken.world.user import User
from harken.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which part of a machine agents may act on."""

    folder: Path
    allowed: Sequence[Path] = ()
    """Folders beside it that file tools may use."""
    outputs: Path | None = None
    """Where output goes that is too long for a result; None: a temporary folder."""
    hide: Collection[str] = ()
    """Environment variables that commands do not get, such as the keys of models."""


def local_tools(place: Place) -> list[Tool]:
    """Return the tools of a place: read, write, edit, ls, glob, grep, bash, todo, ask_user."""
    outputs = place.outputs or Path(gettempdir()) / "harken-outputs"
    root = Root(place.folder, [*place.allowed, outputs])
    return [
        *file_tools(root),
        *search_tools(root, engine_for(ripgrep())),
        Shell(place.folder, outputs, hide=place.hide).tool,
        todo,
        ask_user,
    ]


def local_world(
    place: Place | Path,
    *,
    user: User | None = None,
    permissions: Permissions | None = None,
    tools: Iterable[Tool] = (),
) -> World:
    """Return a world of the tools of a place (or of a folder), and of `tools` beside them.

    Raises ValueError where two tools have one name.
    """
    place = place if isinstance(place, Place) else Place(folder=place)
    return World(
        [*local_tools(place), *tools],
        folder=place.folder,
        user=user,
        permissions=permissions,
    )
