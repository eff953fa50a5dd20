"""`GitHooks`: the hooks of a repository that record which agent made a commit.

An existing hook is moved into the folder `before-harken`. Harken's hook runs it afterwards under
its own name, with the same arguments, and it is put back when Harken's is removed. A hook of Harken
does nothing unless an agent runs git, and ignores its own failures. One that was changed since is
neither replaced nor removed.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from harken.attribution.git.blame import decode
from harken.attribution.git.repository import GitRepository
from harken.context.socket_client import VARIABLE
from harken.errors import ConfigError

HOOK_NAMES = ("commit-msg", "post-commit")
HookState: TypeAlias = Literal["installed", "missing", "replaced", "changed"]
RecordPlace: TypeAlias = Literal["trailer", "notes"]
EARLIER_FOLDER = "before-harken"
NOTES_REF = "refs/notes/harken"
_MARK = "# Written by `harken git install`; `harken git uninstall` removes it."
_DIGEST_PREFIX = "# Content: "
_PLACE_KEY, _REWRITE_KEY = "harken.contextIn", "notes.rewriteRef"


class HookStatus(msgspec.Struct, frozen=True):
    """The state of one hook."""

    name: str
    state: HookState
    """`replaced`: there is a hook that is not Harken's. `changed`: Harken's was changed since."""
    has_earlier: bool
    """Whether a hook of the user runs after it."""


class RemovedHooks(msgspec.Struct, frozen=True):
    """The result of `GitHooks.uninstall`."""

    removed: Sequence[str]
    """The names of the hooks that it removed."""
    left: Sequence[str]
    """The files of hooks that it left, each with the reason."""


class GitHooks:
    """Installs and removes the hooks of a repository."""

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository
        self.folder = repository.top / _read_line(repository, "rev-parse", "--git-path", "hooks")
        self.earlier_folder = self.folder / EARLIER_FOLDER

    def install(self, place: RecordPlace, program: Sequence[str]) -> None:
        """Write the hooks, all or none. `program`: the command line of Harken.

        Raises ConfigError, before anything is written if a hook cannot be installed.
        """
        self._check_scope()
        for name in HOOK_NAMES:
            self._check_hook(name)
        undo: list[Callable[[], object]] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name in HOOK_NAMES:
                self._install_hook(name, program, undo)
        except OSError as error:
            for step in reversed(undo):
                with suppress(OSError):
                    step()
            raise ConfigError(f"{error.filename or self.folder}: {error.strerror}") from None
        self._repository.run("config", "--local", _PLACE_KEY, place)
        self._unset(_REWRITE_KEY, f"^{NOTES_REF}$")
        self._repository.run("config", "--local", "--add", _REWRITE_KEY, NOTES_REF)

    @property
    def _path_scope(self) -> tuple[str, str] | None:
        """The scope and the value of `core.hooksPath`, or None if it is not set."""
        value = self._repository.try_run("config", "--show-scope", "--get", "core.hooksPath")
        if value is None:
            return None
        scope, _, path = decode(value).rstrip("\n").partition("\t")
        return scope, path

    @property
    def is_of_worktree(self) -> bool:
        """Whether the hooks are those of this worktree only."""
        return self._path_scope is not None and self._path_scope[0] == "worktree"

    @property
    def is_tracked(self) -> bool:
        """Whether git tracks files in the folder of the hooks, which a commit gives to others."""
        folder = Path(os.path.normpath(self.folder))
        if not folder.is_relative_to(self._repository.top):
            return False
        return self._repository.is_folder(folder.relative_to(self._repository.top).as_posix())

    def _check_scope(self) -> None:
        """Refuse a folder of hooks that all repositories share. Raises ConfigError."""
        scope = self._path_scope
        if scope is not None and scope[0] not in ("local", "worktree"):
            own_folder = shlex.quote(str(self._repository.common_folder / "hooks"))
            raise ConfigError(
                f"core.hooksPath is {scope[1]} for all repositories; "
                f"`git config core.hooksPath {own_folder}` gives this one hooks of its own"
            )

    def _check_hook(self, name: str) -> None:
        """Check that a hook can be written and an existing one can be kept. Raises ConfigError."""
        path, earlier = self.folder / name, self.earlier_folder / name
        state = _state(path)
        if state == "changed":
            raise ConfigError(
                f"{path}: this hook of Harken was changed; move your lines to {earlier}, "
                "delete the file and install again"
            )
        if state == "replaced" and os.path.lexists(earlier):
            raise ConfigError(
                f"{path}: not a hook of Harken, and {earlier} exists as well; "
                "merge the two and delete one of them"
            )

    def _install_hook(
        self, name: str, program: Sequence[str], undo: list[Callable[[], object]]
    ) -> None:
        """Write a hook, and add the steps that undo it."""
        path, earlier = self.folder / name, self.earlier_folder / name
        new = path.with_name(f"{name}.harken-new")
        undo.append(lambda: new.unlink(missing_ok=True))
        new.write_text(_script(name, program))
        new.chmod(0o755)
        if _state(path) == "replaced":
            if not self.earlier_folder.is_dir():
                self.earlier_folder.mkdir()
                undo.append(self.earlier_folder.rmdir)
            path.rename(earlier)
            undo.append(lambda: earlier.rename(path))
        elif not os.path.lexists(path):
            undo.append(path.unlink)
        new.replace(path)

    def uninstall(self) -> RemovedHooks:
        """Remove the hooks, and put the user's back. Raises ConfigError."""
        removed: list[str] = []
        left: list[str] = []
        try:
            for name in HOOK_NAMES:
                path, earlier = self.folder / name, self.earlier_folder / name
                state = _state(path)
                if state == "changed":
                    left.append(f"{path} (changed since it was installed)")
                elif state == "installed":
                    path.unlink()
                    removed.append(name)
                if os.path.lexists(earlier):
                    if os.path.lexists(path):
                        left.append(f"{earlier} (there is another {name})")
                    else:
                        earlier.rename(path)
            with suppress(OSError):  # It has other files, or does not exist.
                self.earlier_folder.rmdir()
        except OSError as error:
            raise ConfigError(f"{error.filename}: {error.strerror}") from None
        self._unset(_PLACE_KEY)
        self._unset(_REWRITE_KEY, f"^{NOTES_REF}$")
        return RemovedHooks(removed, left)

    def _unset(self, key: str, *values: str) -> None:
        self._repository.try_run("config", "--local", "--unset-all", key, *values)

    def status(self) -> list[HookStatus]:
        """Return the state of each hook."""
        return [
            HookStatus(
                name,
                _state(self.folder / name),
                os.access(self.earlier_folder / name, os.X_OK),
            )
            for name in HOOK_NAMES
        ]

    @property
    def place(self) -> RecordPlace:
        """Where the hooks record the context."""
        return read_place(self._repository)


def _read_line(repository: GitRepository, *arguments: str) -> str:
    return decode(repository.run(*arguments)).removesuffix("\n")


def read_place(repository: GitRepository) -> RecordPlace:
    """Return where the hooks of a repository record the context of a commit."""
    value = repository.try_run("config", "--get", _PLACE_KEY) or b""
    return "notes" if value.strip() == b"notes" else "trailer"


def _state(path: Path) -> HookState:
    """Return the state of the hook in a file."""
    if not os.path.lexists(path):
        return "missing"
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except OSError:
        return "replaced"
    if _MARK not in lines[:10]:
        return "replaced"
    content = [line for line in lines if not line.startswith(_DIGEST_PREFIX)]
    digest = f"{_DIGEST_PREFIX}{_digest(content)}"
    return "installed" if lines.count(digest) == 1 else "changed"


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _script(name: str, program: Sequence[str]) -> str:
    """Return a hook: Harken if an agent runs git, then the hook of the user.

    A shell script of the user is read by its own shell with the path of Harken's hook as `$0`,
    because managers of hooks find their files beside it. Any other program runs under its own name.
    """
    command = shlex.join([*program, "git", "run-hook", name])
    lines = rf"""#!/bin/sh
{_MARK}
if [ -n "${{{VARIABLE}:-}}" ]; then
  {command} "$@" </dev/null >/dev/null 2>&1 || :
fi
HARKEN_EARLIER_HOOK="${{0%/*}}/{EARLIER_FOLDER}/{name}"
[ -x "$HARKEN_EARLIER_HOOK" ] || exit 0
IFS= read -r first <"$HARKEN_EARLIER_HOOK" || first=
case "$first" in
'#!'*[/\ ]sh|'#!'*[/\ ]sh\ -*|'#!'*[/\ ]bash|'#!'*[/\ ]bash\ -*|'#!'*[/\ ]dash)
  export HARKEN_EARLIER_HOOK
  exec ${{first#??}} -c '. "$HARKEN_EARLIER_HOOK"' "$0" "$@" ;;
esac
exec "$HARKEN_EARLIER_HOOK" "$@"
""".split("\n")
    lines.insert(2, f"{_DIGEST_PREFIX}{_digest(lines)}")
    return "\n".join(lines)
