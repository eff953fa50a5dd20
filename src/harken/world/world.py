"""The World: the tools that exist, and the folder that agents live in.

It keeps no state of agents. An agent's own list says which of these tools it may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harken.world.tool import Tool


class World:
    """What agents can act on."""

    def __init__(self, tools: Iterable[Tool] = (), *, folder: Path | None = None) -> None:
        """Make a world of these tools; `folder` is where relative paths start.

        Raises ValueError where two tools have one name.
        """
        self.tools: dict[str, Tool] = {}
        self.folder = folder
        for tool in tools:
            if tool.name in self.tools:
                raise ValueError(f"two tools are named {tool.name}")
            self.tools[tool.name] = tool

    def read_instructions(self, path: str) -> str:
        """Return the text of an instructions file below the folder, as it is now.

        Raises OSError, or ValueError for a path that leaves the folder or a world without one.
        """
        if self.folder is None:
            raise ValueError("this world has no folder to read instructions from")
        folder = self.folder.resolve()
        file = (folder / path).resolve()
        if not file.is_relative_to(folder):
            raise ValueError(f"{path} is outside {folder}")
        return file.read_text(encoding="utf-8")
