"""`GitHooks`: the hooks of a repository that record which agent made a commit.

An existing hook is kept beside Harken's, which runs it afterwards with the same arguments, and is
put back when Harken's is removed. A hook of Harken does nothing unless an agent runs git, and
ignores its own failures.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from harken.attribution.git.repository import GitRepository
from harken.context.socket_client import VARIABLE
from harken.errors import ConfigError

HOOK_NAMES = ("prepare-commit-msg", "commit-msg", "post-commit")
HookState: TypeAlias = Literal["installed", "missing", "replaced"]
RecordPlace: TypeAlias = Literal["trailer", "notes"]
EARLIER_SUFFIX = ".before-harken"
NOTES_REF = "refs/notes/harken"
_MARK = "# Written by `harken git install`; `harken git uninstall` removes it."
_PLACE_KEY, _REWRITE_KEY = "harken.contextIn", "notes.rewriteRef"


@dataclass(frozen=True, slots=True)
class HookStatus:
    """The state of one hook."""

    name: str
    state: HookState
    """`replaced`: there is a hook that is not Harken's."""
    has_earlier: bool
    """Whether a hook of the user runs after it."""


class GitHooks:
    """Installs and removes hooks in a repository, for all of its worktrees."""

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository
        output = repository.run("rev-parse", "--git-path", "hooks").decode(
            "utf-8", "surrogateescape"
        )
        self.folder = repository.top / output.rstrip("\n")

    def install(self, place: RecordPlace, program: Sequence[str]) -> None:
        """Write the hooks. `program`: the command line of Harken. Raises ConfigError."""
        self._check_scope()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name in HOOK_NAMES:
                self._install_hook(name, program)
        except OSError as error:
            raise ConfigError(f"{error.filename or self.folder}: {error.strerror}") from None
        self._repository.run("config", "--local", _PLACE_KEY, place)
        self._unset(_REWRITE_KEY, f"^{NOTES_REF}$")
        if place == "notes":
            self._repository.run("config", "--local", "--add", _REWRITE_KEY, NOTES_REF)

    def _check_scope(self) -> None:
        """Refuse a folder of hooks that all repositories share. Raises ConfigError."""
        local = self._repository.try_run("config", "--local", "--get", "core.hooksPath")
        value = self._repository.try_run("config", "--get", "core.hooksPath")
        if value is not None and local is None:
            path = value.decode("utf-8", "replace").strip()
            raise ConfigError(
                f"core.hooksPath is {path} for all repositories; "
                "`git config core.hooksPath .git/hooks` gives this one hooks of its own"
            )

    def _install_hook(self, name: str, program: Sequence[str]) -> None:
        path = self.folder / name
        earlier = self._earlier(name)
        if os.path.lexists(path) and not _is_ours(path):
            if os.path.lexists(earlier):
                raise ConfigError(
                    f"{path}: not a hook of Harken, and {earlier.name} exists as well"
                )
            path.rename(earlier)
        new = path.with_name(f"{name}.harken-new")
        new.write_text(_script(name, program))
        new.chmod(0o755)
        new.replace(path)

    def _earlier(self, name: str) -> Path:
        return self.folder / f"{name}{EARLIER_SUFFIX}"

    def uninstall(self) -> list[str]:
        """Remove the hooks, and put the user's back. Return their names. Raises ConfigError."""
        removed: list[str] = []
        try:
            for name in HOOK_NAMES:
                path, earlier = self.folder / name, self._earlier(name)
                if not _is_ours(path):
                    continue
                if os.path.lexists(earlier):
                    earlier.replace(path)
                else:
                    path.unlink()
                removed.append(name)
        except OSError as error:
            raise ConfigError(f"{error.filename}: {error.strerror}") from None
        self._unset(_PLACE_KEY)
        self._unset(_REWRITE_KEY, f"^{NOTES_REF}$")
        return removed

    def _unset(self, key: str, *values: str) -> None:
        self._repository.try_run("config", "--local", "--unset-all", key, *values)

    def status(self) -> list[HookStatus]:
        """Return the state of each hook."""
        return [
            HookStatus(
                name,
                "installed"
                if _is_ours(path)
                else "replaced"
                if os.path.lexists(path)
                else "missing",
                os.access(self._earlier(name), os.X_OK),
            )
            for name in HOOK_NAMES
            for path in [self.folder / name]
        ]

    @property
    def place(self) -> RecordPlace:
        """Where the hooks record the context."""
        return read_place(self._repository)


def read_place(repository: GitRepository) -> RecordPlace:
    """Return where the hooks of a repository record the context of a commit."""
    value = repository.try_run("config", "--get", _PLACE_KEY) or b""
    return "notes" if value.strip() == b"notes" else "trailer"


def program_line() -> list[str]:
    """Return the command line of this program, for a hook."""
    return [sys.executable, "-m", "harken"]


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text("utf-8", "replace")[:1000]
    except OSError:
        return False


def _script(name: str, program: Sequence[str]) -> str:
    """Return a hook: Harken if an agent runs git, then the hook of the user."""
    command = shlex.join([*program, "git", "run-hook", name])
    return f"""#!/bin/sh
{_MARK}
if [ -n "${{{VARIABLE}:-}}" ]; then
  {command} "$@" </dev/null >/dev/null 2>&1 || :
fi
earlier="$0{EARLIER_SUFFIX}"
if [ -x "$earlier" ]; then exec "$earlier" "$@"; fi
exit 0
"""
