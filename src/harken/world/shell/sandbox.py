"""`Sandbox`: run commands in bubblewrap with one writable folder and no network.

A command reads all files except private ones, and writes only in the folders of the agent; no file
there gets a set-user-id bit. It reaches no network, no other process and no socket of an outside
program. Sensitive paths, which decide which programs run later, stay unchanged.

Mounts are computed for each command, because files come and go. A missing path cannot be mounted
over, so what a command creates at such a path is renamed when it has ended.

Source: docs/how-to/sandbox-commands.md; bwrap(1).
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self, TypeAlias

import msgspec

from harken.core import structs
from harken.errors import ConfigError
from harken.world.private_file import replace_file
from harken.world.sensitive_paths import program_folders
from harken.world.shell.bind_mounts import Mounts, iter_created_paths
from harken.world.shell.new_repository import unsafe_parts
from harken.world.shell.seccomp import no_set_id_bits
from harken.world.shell.sensitive_paths import (
    NAMES,
    NEEDED,
    foreign_sockets,
    is_reachable,
    is_socket,
    other_homes,
    pointed_places,
    private_places,
    sensitive_places,
)

SandboxMode: TypeAlias = Literal["auto", "on", "off"]
"""Whether commands run in a sandbox: if available, always, or never."""
KEEP = 'exec 2>/dev/null; "$@" </dev/null 2>&1; echo $? >&0; read -r _'
"""A script that runs a command, reports its exit code on stdin (a socket), and then waits."""
ASIDE = ".made-by-a-command"
_TRIAL_TIMEOUT_S = 10.0
_TRIAL_EXIT_CODE = 42
_SYSTEM_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_ISOLATION_OPTIONS = """
--unshare-all --unshare-user --die-with-parent --new-session --as-pid-1 --cap-drop ALL
--ro-bind / / --dev /dev --proc /proc
"""
_NEWER_OPTIONS = ("--disable-userns",)
"""Options that older versions of bubblewrap lack: they prevent nested namespaces."""
_FILTER = no_set_id_bits(platform.machine())
_FILTER_DESCRIPTOR = "9"
_WITH_FILTER = ("/bin/sh", "-c", f'f=$1; shift; exec "$@" {_FILTER_DESCRIPTOR}<"$f"', "harken")
"""A shell script that opens the filter for bubblewrap, which takes a descriptor, and executes it.
"""
_LOADER_VARIABLE_PATTERN = re.compile(r"LD_\w+|GCONV_PATH|GLIBC_TUNABLES|LOCPATH")
"""Variables that change the behavior of programs: set for the command only, not for bubblewrap."""
_OUTSIDE_VARIABLE_PATTERN = re.compile(
    r"DISPLAY|WAYLAND_DISPLAY|XDG_RUNTIME_DIR|XDG_SESSION_\w+|DOCKER_HOST"
)
_OFFLINE_TEXT, _NETWORK_TEXT = "there is no network access", "network access is available"
_OFFLINE_PATTERN = re.compile(
    r"could(?: not|n't) resolve host|name resolution|network is (?:unreachable|down)"
    r"|name or service not known|nodename nor servname|ENOTFOUND|EAI_AGAIN|ENETUNREACH"
    r"|no address associated with hostname|failed to lookup address|dial (?:tcp|udp)"
    r"|NameResolutionError|unable to resolve host",
    re.IGNORECASE,
)
_SET_ID_PATTERN = re.compile(
    r"(?:changing permissions|chmod|change mode|set-?[ug]id).*operation not permitted",
    re.IGNORECASE,
)
_READ_ONLY_PATTERN = re.compile(
    r"read-only file ?system|EROFS|\.git/config: device or resource", re.IGNORECASE
)


class SandboxedCommand(msgspec.Struct, frozen=True):
    """A command line that runs in the sandbox now."""

    command: Sequence[str]
    environment: Mapping[str, str]
    watched: Mapping[str, str | None]
    temporary: Path | None = None
    """The folder that the command sees as `/tmp`."""
    temporary_names: frozenset[str] = frozenset()
    """The names in that folder before the command ran."""
    absent_repositories: Sequence[Path] = ()
    """Each `.git` at the top of a writable folder that did not exist before the command ran."""

    def list_temporary_files(self) -> list[str]:
        """Return the names that the command created in `/tmp`, which no outside program sees."""
        if self.temporary is None:
            return []
        return sorted(_list_names(self.temporary) - self.temporary_names)

    def rename_protected_paths(self) -> list[str]:
        """Rename files that the command created at protected paths; return the original paths.

        Raises OSError if a rename fails, after trying the others.
        """
        paths, failure = list(iter_created_paths(self.watched)), None
        for git in self.absent_repositories:
            paths += unsafe_parts(git)
        for path in paths:
            target, number = f"{path}{ASIDE}", 1
            while os.path.lexists(target):
                number += 1
                target = f"{path}{ASIDE}-{number}"
            try:
                _rename(Path(path), target)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        return paths


def _rename(path: Path, target: str) -> None:
    """Rename a path that a command created, even if the command removed write permission."""
    try:
        path.rename(target)
    except PermissionError:
        path.parent.chmod(path.parent.stat().st_mode | stat.S_IRWXU)
        path.rename(target)


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a sandbox. A copy from `resolve` can run commands."""

    folder: Path
    """The working folder of commands, which is writable."""
    outputs: Path
    """The folder for output that is too long for a result; it also contains their `/tmp`."""
    allowed: Sequence[Path] = ()
    """Further writable folders."""
    private: Sequence[Path] = ()
    """Hidden paths besides the default ones: Harken's home."""
    readable: Sequence[Path] = ()
    """Readable paths within hidden ones: skills."""
    steering: Sequence[Path] = ()
    """Files and folders that are read-only besides the listed sensitive paths."""
    network: bool = False
    temporary: Path = Path("/tmp")  # noqa: S108 - in the sandbox it is another
    homes: Sequence[Path] = ()
    """The homes of the user."""
    program: str = ""
    """The path of bubblewrap."""
    options: Sequence[str] = _NEWER_OPTIONS

    def resolve(self, environ: Mapping[str, str]) -> Self:
        """Return a copy that works on this machine, after a trial run.

        Raises ConfigError with the reason if none works.

        environ: the complete environment of this process.
        """
        resolved = structs.replace(
            self,
            folder=_real(self.folder),
            outputs=_real(self.outputs),
            allowed=[*map(_real, self.allowed)],
            readable=[*map(_real, self.readable), *_code_folders()],
            private=[*map(_real, self.private), *map(Path, pointed_places(environ))],
            steering=[
                *map(_real, self.steering),
                *_code_folders(),
                *_programs(environ, _real(self.folder)),
            ],
            temporary=_real(self.temporary),
            homes=user_homes(environ),
        )
        newest = structs.replace(resolved, program=resolved.bubblewrap(environ))
        older = structs.replace(newest, options=())
        with TemporaryDirectory(prefix="harken-sandbox-") as folder:
            trial_outputs = _real(Path(folder))
            # Each variant is tried twice, because a path to mount over may have just vanished.
            for candidate in (newest, newest, older, older):
                reason = structs.replace(candidate, outputs=trial_outputs).trial(environ)
                if not reason:
                    return candidate
        raise ConfigError(f"bubblewrap (bwrap) does not work here: {reason}")

    def bubblewrap(self, environ: Mapping[str, str]) -> str:
        """Return the path of bubblewrap, outside of writable folders. Raises ConfigError."""
        path = f"{environ.get('PATH', '')}{os.pathsep}{_SYSTEM_PATH}"
        for entry in path.split(os.pathsep):
            program = shutil.which("bwrap", path=entry) if entry.startswith("/") else None
            real = Path(os.path.realpath(program)) if program is not None else None
            if real is not None and not any(map(real.is_relative_to, self.writable)):
                return str(real)
        raise ConfigError("bubblewrap (bwrap) is not installed")

    @property
    def writable(self) -> Sequence[Path]:
        """The folders in which commands write, besides `/tmp`."""
        return (self.folder, *filter(Path.is_dir, self.allowed))

    def trial(self, environ: Mapping[str, str]) -> str:
        """Run a trial command; return why it fails, empty if it works."""
        try:
            sandboxed = self.enter(["/bin/sh", "-c", f"exit {_TRIAL_EXIT_CODE}"], environ)
            completed = subprocess.run(
                sandboxed.command,
                env=dict(sandboxed.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        output = " ".join(completed.stdout.decode(errors="replace").split())
        return (
            ""
            if completed.returncode == _TRIAL_EXIT_CODE
            else output[:300] or f"exit code {completed.returncode}"
        )

    def enter(
        self, command: Sequence[str], environ: Mapping[str, str], sockets: Iterable[str] = ()
    ) -> SandboxedCommand:
        """Return the sandboxed form of a command. Raises OSError.

        environ: the environment of the command. sockets: sockets that it may connect to.
        """
        mounts = self._build_mounts(sockets)
        launcher = [*_WITH_FILTER, str(self._write_filter())] if _FILTER else []
        loader_variables = {
            name: value
            for name, value in environ.items()
            if _LOADER_VARIABLE_PATTERN.fullmatch(name)
        }
        passed_variables = {
            name: value
            for name, value in environ.items()
            if name not in loader_variables and not _OUTSIDE_VARIABLE_PATTERN.fullmatch(name)
        }
        arguments = [*launcher, self.program, *_ISOLATION_OPTIONS.split(), *self.options]
        arguments += ["--seccomp", _FILTER_DESCRIPTOR] if _FILTER else []
        arguments += mounts.arguments()
        if self.network:
            arguments.append("--share-net")
        for name, value in loader_variables.items():
            arguments += ["--setenv", name, value]
        temporary = str(self.temporary)
        # Root may write machine-wide settings in /proc, also without capabilities.
        arguments += ["--remount-ro", "/proc"]
        return SandboxedCommand(
            [*arguments, "--chdir", str(self.folder), "--", *command],
            {**passed_variables, "TMPDIR": temporary, "XDG_CACHE_HOME": f"{temporary}/.cache"},
            mounts.watched,
            self._temporary,
            _list_names(self._temporary) | _mount_points(arguments, temporary),
            [root / ".git" for root in self.writable if not os.path.lexists(root / ".git")],
        )

    def _write_filter(self) -> Path:
        """Return the file of the seccomp filter, which commands cannot write."""
        file = self.outputs / "set-id.bpf"
        if not file.is_file() or file.read_bytes() != _FILTER:
            replace_file(file, _FILTER)
        return file

    def _build_mounts(self, sockets: Iterable[str]) -> Mounts:
        temporary, empty = self._temporary, self.outputs / "empty"
        temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        empty.touch(mode=0o400)
        mounts = Mounts(str(empty))
        mounts.add_writable(str(self.temporary), str(temporary))
        for folder in ("/dev", "/proc"):
            mounts.add_foreign(folder)
        mounts.add_writable(os.path.realpath("/var/tmp"), str(temporary))  # noqa: S108 - its own
        for root in self.writable:
            mounts.add_writable(str(root))
            for place in sensitive_places(root, self.homes):
                mounts.add_read_only(place)
        for steering in self.steering:
            mounts.add_read_only(str(steering))
        for place in (*private_places(self.homes), *map(str, self.private)):
            mounts.close(place)
        for folder in other_homes(self.homes):
            mounts.close(folder)
            for home in self.homes:
                mounts.add_readable(str(home))
        self._reopen(mounts, sockets)
        return mounts

    def _reopen(self, mounts: Mounts, sockets: Iterable[str]) -> None:
        """Reopen the allowed paths in closed folders, and close all other sockets."""
        for folder in (self.outputs, *self.readable):
            mounts.add_readable(str(folder))
        for name in (*NEEDED, *(NAMES if self.network else ())):
            mounts.add_readable(name)
        for path in _iter_foreign_sockets():
            mounts.close_socket(path)
        for path in sockets:
            mounts.add_socket(path)

    @property
    def _temporary(self) -> Path:
        return self.outputs / "tmp"

    @property
    def note(self) -> str:
        """Return a line for the user about the access of a command."""
        writable_text = "the working folder" + (" and the allowed folders" if self.allowed else "")
        network_text = _NETWORK_TEXT if self.network else _OFFLINE_TEXT
        return f"It runs in the sandbox: {network_text}, it can write in {writable_text}."

    @property
    def _writable_text(self) -> str:
        return ", ".join(map(str, self.writable))

    @property
    def about(self) -> str:
        """The description for a model, equal for all folders so that it can be replayed."""
        folders_note = " and the allowed folders" if self.allowed else ""
        return (
            "Commands run in a sandbox: "
            f"{_NETWORK_TEXT if self.network else _OFFLINE_TEXT}. They can write "
            f"only in the working folder{folders_note}, and in /tmp, which is "
            "private and lasts as long as the session; not files that control which "
            "programs run later (.git/config, .git/hooks, .envrc, .vscode, .npmrc, "
            "settings of agents, start-up files of shells). Credentials are not "
            "accessible."
        )

    def hint(self, output: str) -> str:
        """Return hints if a command may have failed because of the sandbox."""
        hints = []
        if not self.network and _OFFLINE_PATTERN.search(output):
            hints.append(f"{_OFFLINE_TEXT} in the sandbox where commands run")
        if _READ_ONLY_PATTERN.search(output):
            hints.append(
                f"commands can write only in {self._writable_text} and in /tmp, and not "
                "files that control which programs run later (.git/config, .git/hooks, "
                ".envrc, .vscode, settings of agents, ...)"
            )
        if _SET_ID_PATTERN.search(output):
            hints.append(
                "in the sandbox no file with a set-user-id or set-group-id bit can be created"
            )
        return "".join(f"\n[{hint}]" for hint in hints)


def _iter_foreign_sockets() -> Iterator[str]:
    """Yield the sockets of other programs that are reachable by a path."""
    try:
        socket_table = Path("/proc/net/unix").read_text(errors="surrogateescape")
    except OSError:
        return
    real_paths = map(os.path.realpath, foreign_sockets(socket_table))
    yield from (path for path in real_paths if is_socket(path) and is_reachable(path))


def _code_folders() -> list[Path]:
    """Return the folders of Harken's code: a change of it could disable all checks."""
    package = Path(__file__).resolve().parents[2]
    return [package, Path(sys.prefix).resolve()]


def _programs(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Yield the folders of PATH, except those of a project environment."""
    for entry in program_folders(environ, folder):
        # A folder of PATH may be closed to this user: `Path.exists` would raise PermissionError.
        is_environment = os.path.exists(entry.parent / "pyvenv.cfg")  # noqa: PTH110
        if entry.name != ".bin" and not is_environment:
            yield entry


def _mount_points(arguments: Iterable[str], temporary: str) -> frozenset[str]:
    """Return the names in the sandbox's `/tmp` that bubblewrap creates to mount a path below it."""
    prefixes = (f"{temporary}/", f"{os.path.realpath('/var/tmp')}/")  # noqa: S108 - its own
    relative_paths = (
        path.removeprefix(prefix)
        for path in arguments
        for prefix in prefixes
        if path.startswith(prefix)
    )
    return frozenset(path.partition("/")[0] for path in relative_paths)


def _list_names(folder: Path) -> frozenset[str]:
    """Return the names in a folder except caches; none if it cannot be listed."""
    try:
        return frozenset(os.listdir(folder)) - {".cache"}  # noqa: PTH208 - names, not paths
    except OSError:
        return frozenset()


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def user_homes(environ: Mapping[str, str]) -> list[Path]:
    """Return the homes of the user, by the environment and by the system."""
    paths = [environ.get("HOME", "")]
    with suppress(KeyError):
        paths.append(pwd.getpwuid(os.getuid()).pw_dir)
    homes = {_real(Path(home)): None for home in paths if home.startswith("/")}
    return [home for home in homes if home != Path("/")]
