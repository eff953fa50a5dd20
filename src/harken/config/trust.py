"""Trust: whether Harken reads a project's `.harken/`. A cloned repository must not run anything.

A folder is trusted by its real path, once, by its user. Until then the files in its `.harken/` are
not even read.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harken.config.home import CONFIG, Home
from harken.errors import ConfigError
from harken.terminal.text import program_name
from harken.world.mcp.server_config import MCP_JSON
from harken.world.private_file import replace_file

FOLDER = ".harken"
CLAUDE = ".claude"
INSTRUCTIONS = "AGENTS.md"
"""The instructions of a project for agents; see https://agents.md."""
FOLDERS = ("agents", "skills", "commands")
"""The folders of a `.claude/` that Harken reads."""
SETTINGS = ("settings.json", "settings.local.json")
MARKERS = (FOLDER, MCP_JSON, CLAUDE, INSTRUCTIONS)
_FILES = (MCP_JSON, INSTRUCTIONS)


class Project(msgspec.Struct, frozen=True):
    """A folder with a `.harken/`."""

    root: Path
    """The real path of the folder that contains it."""
    trusted: bool
    obstacle: str = ""
    """The reason that it cannot be trusted at all; empty if it can."""
    mcp_obstacle: str = ""
    """The reason to ignore its `.mcp.json`; empty if it is usable or missing."""
    claude_obstacle: str = ""
    """The reason to ignore its `.claude/`; empty if it is usable or missing."""
    marker: str = FOLDER
    """The file that makes it a project: `.harken`, `.mcp.json`, `.claude` or `AGENTS.md`."""

    @property
    def folder(self) -> Path:
        """Its `.harken/`."""
        return self.root / FOLDER

    @property
    def config(self) -> Path:
        """Its configuration."""
        return self.folder / CONFIG

    def note(self, home: Home, *, runs_commands: bool = False) -> str:
        """Return a line that says that the project is ignored and how to trust it, or "".

        It is "" if the project is trusted, if it has only a `.claude/` without usable files, and
        if it has only an `AGENTS.md`, which is not ignored.
        runs_commands: whether hooks of Claude Code would run.
        """
        if self.marker == INSTRUCTIONS:
            return ""
        if self.trusted or (self.marker == CLAUDE and not self._has_claude_files(runs_commands)):
            return ""
        ignored = self.root / self.marker
        if self.obstacle:
            return f"{ignored} is ignored: {self.obstacle}"
        home_option = ["--home", str(home.folder)] if home.is_chosen else []
        command = " ".join(
            [program_name(), *map(shlex.quote, ["trust", str(self.root), *home_option])]
        )
        return f"{ignored} is ignored until you trust it: `{command}`"

    def _has_claude_files(self, runs_commands: bool) -> bool:
        names = (*FOLDERS, *(SETTINGS if runs_commands else ()))
        return any(os.path.lexists(self.root / CLAUDE / name) for name in names)


class Trust:
    """The folders that a user trusts, in `trusted.json` of their home."""

    def __init__(self, home: Home, user_home: Path | None = None) -> None:
        """Use this home. `user_home` is the user's home directory (default: `~`)."""
        self.home = home
        self.file = home.folder / "trusted.json"
        self._user_home = (user_home or Path("~").expanduser()).resolve()

    def folders(self) -> list[Path]:
        """Return the trusted folders. Raises ConfigError if the list cannot be read."""
        try:
            folders = json.loads(self.file.read_bytes())["trusted"]
            return [Path(folder) for folder in msgspec.convert(folders, list[str])]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self.file}: read failed: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(
                f"{self.file}: damaged; delete it, and trust your projects again"
            ) from None

    def is_trusted(self, folder: Path) -> bool:
        """Whether the user trusted exactly this folder, however it is reached."""
        return folder.resolve() in self.folders()

    def trust(self, folder: Path) -> None:
        """Trust a project folder. Raises ConfigError if it cannot be trusted."""
        self.check(folder)
        if not self.is_trusted(folder):
            self._write([*self.folders(), folder.resolve()])

    def check(self, folder: Path) -> None:
        """Raise ConfigError if a project folder cannot be trusted."""
        marker = folder.resolve() / _find_marker(folder)
        if obstacle := _find_obstacle(marker):
            raise ConfigError(f"{marker} cannot be trusted: {obstacle}")

    def is_within_trusted(self, folder: Path) -> bool:
        """Whether the user trusted this folder or an ancestor of it."""
        return any(folder.resolve().is_relative_to(trusted) for trusted in self.folders())

    def distrust(self, folder: Path) -> bool:
        """Remove a folder from the trusted ones. Return whether it was trusted."""
        before = self.folders()
        after = [trusted for trusted in before if trusted not in (folder, folder.resolve())]
        if after != before:
            self._write(after)
        return after != before

    def find_project(self, start: Path) -> Project | None:
        """Return the project that contains `start`. Return None if there is none.

        It is the nearest folder with a `.harken/`, from `start` upwards to the root of its git
        repository; without a repository, to the user's home, which is no project, or to a folder
        of another user. If no folder has one, it is the nearest with a `.mcp.json`, else the
        nearest with a `.claude/`, else with an `AGENTS.md`.
        """
        folders = [*iter_project_folders(start.resolve(), self._user_home)]
        for marker in MARKERS:
            for folder in folders:
                if os.path.lexists(folder / marker) and not self._is_home(folder / marker):
                    return self._project(folder, marker)
        return None

    def _project(self, folder: Path, marker: str) -> Project:
        obstacle, servers = _find_obstacle(folder / marker), folder / MCP_JSON
        claude = folder / CLAUDE
        return Project(
            root=folder,
            trusted=not obstacle and self.is_trusted(folder),
            obstacle=obstacle,
            mcp_obstacle=_find_obstacle(servers) if os.path.lexists(servers) else "",
            claude_obstacle=_find_obstacle(claude) if os.path.lexists(claude) else "",
            marker=marker,
        )

    def _is_home(self, folder: Path) -> bool:
        return folder.resolve() == self.home.folder.resolve()

    def _write(self, folders: list[Path]) -> None:
        self.home.create_folders()
        data = json.dumps({"trusted": [str(folder) for folder in folders]}, indent=1).encode()
        try:
            replace_file(self.file, data)
        except OSError as error:
            raise ConfigError(f"{self.file}: write failed: {error.strerror}") from None


def iter_project_folders(start: Path, user_home: Path) -> Iterator[Path]:
    """Yield the folders that may be the project of `start`, a real path, from `start` upwards.

    The last is the root of the git repository. Without a repository the search stops before the
    user's home, and before a folder of another user.
    """
    for folder in (start, *start.parents):
        if folder != start and not _is_owned(folder):
            return
        if folder == user_home:
            return
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def _is_owned(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _find_marker(folder: Path) -> str:
    """Return the name of the marker file of a project folder, or `.harken` if there is none."""
    return next((marker for marker in MARKERS if os.path.lexists(folder / marker)), FOLDER)


def _find_obstacle(path: Path) -> str:
    """Return the reason that a marker file cannot be trusted, or "" if it can."""
    try:
        # `AGENTS.md` is often a link to another instruction file, so the link is followed.
        status = path.stat() if path.name == INSTRUCTIONS else path.lstat()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if stat.S_ISLNK(status.st_mode):
        return "it is a link, whose target may change"
    if path.name in _FILES and not stat.S_ISREG(status.st_mode):
        return "it is not a file"
    if path.name not in _FILES and not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "it is writable by all users"
    return ""
