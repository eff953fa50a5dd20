"""A folder with files and its tools, called like the calls of an agent."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from harken.core.messages import Content, TextPart, text_of
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.result import ToolError
from harken.world.search.engines import Engine, Ripgrep, Scanner
from harken.world.search.tools import search_tools

RIPGREP = shutil.which("rg", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
"""The program of the test environment, else the one on the path, if there is one."""
ENGINES: list[Engine] = [Scanner(), *([Ripgrep(RIPGREP)] if RIPGREP else [])]
"""Both engines, where ripgrep is installed."""
DENIED = pytest.mark.skipif(os.geteuid() == 0, reason="nothing is denied to root")


class FileTools:
    """A folder and the tools for its files."""

    def __init__(self, folder: Path, engine: Engine | None = None, **root: Any) -> None:
        self.folder = folder
        self.root = Root(folder, **root)
        tools = [*file_tools(self.root), *search_tools(self.root, engine or Scanner())]
        self.tools = {tool.name: tool for tool in tools}

    def content(self, name: str, **arguments: Any) -> Content:
        """Return the result of a call by an agent without read state."""
        return asyncio.run(self.tools[name].run(arguments))

    def run(self, name: str, **arguments: Any) -> str:
        """Return the text of the result of a call."""
        return text_of(self.content(name, **arguments))

    def meta(self, name: str, **arguments: Any) -> Any:
        """Return the meta of the text part of a result."""
        content = self.content(name, **arguments)
        assert isinstance(content, list)
        [meta] = [part.meta for part in content if isinstance(part, TextPart)]
        return meta

    def failure(self, name: str, **arguments: Any) -> str:
        """Return the error text of a call that fails."""
        with pytest.raises(ToolError) as raised:
            self.content(name, **arguments)
        return str(raised.value)


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files and create their parent folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
