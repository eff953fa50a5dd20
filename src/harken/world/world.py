"""The World: the tools that exist, and the folder that agents live in.

It keeps no state of agents. An agent's own list says which of these tools it may use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from harken.world.tool import Tool

_inner: ContextVar[asyncio.Lock | None] = ContextVar("lock inside a tool", default=None)


class World:
    """What agents can act on."""

    def __init__(self, tools: Iterable[Tool] = (), *, folder: Path | None = None) -> None:
        """Make a world of these tools; `folder` is where relative paths start.

        Raises ValueError where two tools have one name.
        """
        self.tools: dict[str, Tool] = {}
        self.folder = folder
        self._changing: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        for tool in tools:
            if tool.name in self.tools:
                raise ValueError(f"two tools are named {tool.name}")
            self.tools[tool.name] = tool

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Hold the world while a tool changes it: one at a time, whichever subtree it acts for.

        A tool that lets agents act while it runs holds the world for them: their tools wait for
        each other, not for it.
        """
        async with _inner.get() or self._lock():
            token = _inner.set(asyncio.Lock())
            try:
                yield
            finally:
                _inner.reset(token)

    def _lock(self) -> asyncio.Lock:
        """Return the lock of the running event loop: a lock lives in one loop only."""
        loop = asyncio.get_running_loop()
        if self._changing is None or self._changing[0] is not loop:
            self._changing = (loop, asyncio.Lock())
        return self._changing[1]

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
