"""A sandbox for tests with files around it as targets of attacks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harken.errors import ConfigError
from harken.world.shell.sandbox import Sandbox
from harken.world.shell.shell import Shell
from harken.world.tool import ToolContext

SECRET = "the key of the house"


@dataclass
class SandboxFolders:
    """`work` belongs to the agent, all other folders do not. `/tmp` is a folder here too."""

    around: Path
    environ: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.around / "work"

    @property
    def home(self) -> Path:
        """The home folder of Harken."""
        return self.around / "user" / ".harken"

    def sandbox(self) -> Sandbox:
        options = {
            "folder": self.work,
            "outputs": self.home / "outputs" / "one",
            "private": [self.home],
            "temporary": self.around / "tmp",
        }
        environ = {**os.environ, "HOME": str(self.around / "user"), **self.environ}
        return Sandbox(**{**options, **self.wanted}).resolve(environ)

    def shell(self) -> Shell:
        environ = {**os.environ, "HOME": str(self.around / "user"), **self.environ}
        sandbox = self.sandbox()
        return Shell(self.work, sandbox.outputs, sandbox=sandbox, environment=environ)

    def run(self, command: str, timeout_s: float = 20, **variables: str) -> str:
        caller = (
            ToolContext(None, "msg_001", environment_changes=lambda: variables)
            if variables
            else None
        )
        return asyncio.run(self.shell().run(command, timeout_s, caller))

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.around / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture
def sandbox_folders(tmp_path: Path) -> SandboxFolders:
    """Return the folders of a working sandbox. Without one, the test is skipped."""
    folders = SandboxFolders(tmp_path)
    for name in ("work", "tmp", "user/.harken/hooks", "user/.ssh", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    folders.write({"user/.harken/hooks/guard.md": SECRET, "user/.ssh/id_rsa": SECRET})
    try:
        folders.sandbox()
    except ConfigError as error:
        pytest.skip(f"no sandbox here: {error}")
    return folders


@contextmanager
def as_unprivileged_user() -> Iterator[Path]:
    """Yield a folder of an unprivileged user, and run the block as that user."""
    with TemporaryDirectory() as folder:
        os.chown(folder, 65534 if os.getuid() == 0 else -1, -1)
        if os.getuid() == 0:
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(os.getuid())
