"""`Sandbox`: a command in bubblewrap sees the machine, changes one folder and reaches nobody.

A command reads all files but private ones, and writes only in the folders that are the agent's; no
file there gets a set-user-id bit. It reaches no network, no other process and no socket of a
program outside. Sensitive paths, which decide which programs run later, stay as they are.

What is mounted is worked out for each command: files come and go. What is not there cannot be
mounted over, so what a command made in such a place is put aside when it has ended.

Source: docs/how-to/sandbox.md; bwrap(1).
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
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self, TypeAlias

from harken.errors import ConfigError
from harken.world.private_file import replace_file
from harken.world.sensitive_paths import program_folders
from harken.world.shell.bind_mounts import Mounts, made
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

Wanted: TypeAlias = Literal["auto", "on", "off"]
"""Whether commands run in a sandbox: where there is one, only there, or not at all."""
KEEP = 'exec 2>/dev/null; "$@" </dev/null 2>&1; echo $? >&0; read -r _'
"""Runs a command and waits then, until what it left behind was looked at. It says on stdin, a
socket, how the command ended."""
ASIDE = ".made-by-a-command"
_TRY_S = 10.0
_TRIED = 42
_SYSTEM_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_ISOLATED = """
--unshare-all --unshare-user --die-with-parent --new-session --as-pid-1 --cap-drop ALL
--ro-bind / / --dev /dev --proc /proc
"""
_NEWER = ("--disable-userns",)
"""What not every bubblewrap can do: to keep commands from making worlds of their own."""
_FILTER = no_set_id_bits(platform.machine())
_FILTER_DESCRIPTOR = "9"
_WITH_FILTER = ("/bin/sh", "-c", f'f=$1; shift; exec "$@" {_FILTER_DESCRIPTOR}<"$f"', "harken")
"""Opens the filter for bubblewrap, which takes the number of an open file, and becomes it."""
_LOADING = re.compile(r"LD_\w+|GCONV_PATH|GLIBC_TUNABLES|LOCPATH")
"""What makes of a program another one: for the command alone, not for bubblewrap."""
_LEADS_OUT = re.compile(r"DISPLAY|WAYLAND_DISPLAY|XDG_RUNTIME_DIR|XDG_SESSION_\w+|DOCKER_HOST")
_ALONE, _FREE = "there is no network", "the network can be reached"
_OFFLINE = re.compile(
    r"could(?: not|n't) resolve host|name resolution|network is (?:unreachable|down)"
    r"|name or service not known|nodename nor servname|ENOTFOUND|EAI_AGAIN|ENETUNREACH"
    r"|no address associated with hostname|failed to lookup address|dial (?:tcp|udp)"
    r"|NameResolutionError|unable to resolve host",
    re.IGNORECASE,
)
_SET_ID_REFUSED = re.compile(
    r"(?:changing permissions|chmod|change mode|set-?[ug]id).*operation not permitted",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(
    r"read-only file ?system|EROFS|\.git/config: device or resource", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SandboxedCommand:
    """A command that can be run in the sandbox now."""

    command: Sequence[str]
    environment: Mapping[str, str]
    watched: Mapping[str, str | None]
    temporary: Path | None = None
    """The folder that the command sees as `/tmp`."""
    temporary_names: frozenset[str] = frozenset()
    """The names in that folder before the command ran."""
    absent_repositories: Sequence[Path] = ()
    """Each `.git` at the top of a writable folder that was not there before the command ran."""

    def left_in_temporary(self) -> list[str]:
        """Return the names that the command created in `/tmp`, which no program outside sees."""
        if self.temporary is None:
            return []
        return sorted(_names_in(self.temporary) - self.temporary_names)

    def put_aside(self) -> list[str]:
        """Rename what the command made where nothing may be; return where it was.

        Raises OSError where one cannot be renamed; the others are.
        """
        found, failure = list(made(self.watched)), None
        for git in self.absent_repositories:
            found += unsafe_parts(git)
        for path in found:
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
        return found


def _rename(path: Path, target: str) -> None:
    """Rename what a command made, also where it took care that nobody can."""
    try:
        path.rename(target)
    except PermissionError:
        path.parent.chmod(path.parent.stat().st_mode | stat.S_IRWXU)
        path.rename(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a sandbox shall be, and where it was `found`, how commands are run in it."""

    folder: Path
    """Where commands run, and write."""
    outputs: Path
    """Where what is too long for a result is kept, to be read; also holds their `/tmp`."""
    allowed: Sequence[Path] = ()
    """Further folders in which they write."""
    private: Sequence[Path] = ()
    """What they do not even see, beside what nobody shows: Harken's home."""
    readable: Sequence[Path] = ()
    """What they read though it lies in what is private: skills."""
    steering: Sequence[Path] = ()
    """Files and folders that they cannot change, beside the listed sensitive paths."""
    network: bool = False
    temporary: Path = Path("/tmp")  # noqa: S108 - in the sandbox it is another
    homes: Sequence[Path] = ()
    """The user's."""
    program: str = ""
    """bubblewrap."""
    options: Sequence[str] = _NEWER

    def found(self, environ: Mapping[str, str]) -> Self:
        """Return it as it can be here; it was tried once. Raises ConfigError, with why it cannot.

        environ: ours, whole.
        """
        wanted = replace(
            self,
            folder=_real(self.folder),
            outputs=_real(self.outputs),
            allowed=[*map(_real, self.allowed)],
            readable=[*map(_real, self.readable), *_own_code()],
            private=[*map(_real, self.private), *map(Path, pointed_places(environ))],
            steering=[
                *map(_real, self.steering),
                *_own_code(),
                *_programs(environ, _real(self.folder)),
            ],
            temporary=_real(self.temporary),
            homes=user_homes(environ),
        )
        found = replace(wanted, program=wanted.bubblewrap(environ))
        older = replace(found, options=())
        with TemporaryDirectory(prefix="harken-sandbox-") as folder:
            here = _real(Path(folder))
            # Each twice: what was to be mounted over may have gone just then.
            for tried in (found, found, older, older):
                reason = replace(tried, outputs=here).trial(environ)
                if not reason:
                    return tried
        raise ConfigError(f"bubblewrap (bwrap) does not work here: {reason}")

    def bubblewrap(self, environ: Mapping[str, str]) -> str:
        """Return where bubblewrap is, out of reach of those whom it keeps. Raises ConfigError."""
        path = f"{environ.get('PATH', '')}{os.pathsep}{_SYSTEM_PATH}"
        for entry in path.split(os.pathsep):
            found = shutil.which("bwrap", path=entry) if entry.startswith("/") else None
            real = Path(os.path.realpath(found)) if found is not None else None
            if real is not None and not any(map(real.is_relative_to, self.writable)):
                return str(real)
        raise ConfigError("bubblewrap (bwrap) is not installed")

    @property
    def writable(self) -> Sequence[Path]:
        """The folders that commands write in, beside `/tmp`."""
        return (self.folder, *filter(Path.is_dir, self.allowed))

    def trial(self, environ: Mapping[str, str]) -> str:
        """Try it; return why it does not work, empty where it does."""
        try:
            entered = self.enter(["/bin/sh", "-c", f"exit {_TRIED}"], environ)
            done = subprocess.run(
                entered.command,
                env=dict(entered.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TRY_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        said = " ".join(done.stdout.decode(errors="replace").split())
        return "" if done.returncode == _TRIED else said[:300] or f"exit code {done.returncode}"

    def enter(
        self, command: Sequence[str], environ: Mapping[str, str], sockets: Iterable[str] = ()
    ) -> SandboxedCommand:
        """Return how a command is run now. Raises OSError.

        environ: what the command gets. sockets: at which it may knock.
        """
        mounts = self._mounts(sockets)
        launcher = [*_WITH_FILTER, str(self._filter())] if _FILTER else []
        inside = {name: value for name, value in environ.items() if _LOADING.fullmatch(name)}
        kept = {
            name: value
            for name, value in environ.items()
            if name not in inside and not _LEADS_OUT.fullmatch(name)
        }
        arguments = [*launcher, self.program, *_ISOLATED.split(), *self.options]
        arguments += ["--seccomp", _FILTER_DESCRIPTOR] if _FILTER else []
        arguments += mounts.arguments()
        if self.network:
            arguments.append("--share-net")
        for name, value in inside.items():
            arguments += ["--setenv", name, value]
        temporary = str(self.temporary)
        # Root may write in /proc what holds for the whole machine, also without capabilities.
        arguments += ["--remount-ro", "/proc"]
        return SandboxedCommand(
            [*arguments, "--chdir", str(self.folder), "--", *command],
            {**kept, "TMPDIR": temporary, "XDG_CACHE_HOME": f"{temporary}/.cache"},
            mounts.watched,
            self._temporary,
            _names_in(self._temporary) | _mount_points(arguments, temporary),
            [root / ".git" for root in self.writable if not os.path.lexists(root / ".git")],
        )

    def _filter(self) -> Path:
        """Return the file of the seccomp filter, which commands cannot write."""
        file = self.outputs / "set-id.bpf"
        if not file.is_file() or file.read_bytes() != _FILTER:
            replace_file(file, _FILTER)
        return file

    def _mounts(self, sockets: Iterable[str]) -> Mounts:
        temporary, empty = self._temporary, self.outputs / "empty"
        temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        empty.touch(mode=0o400)
        mounts = Mounts(str(empty))
        mounts.own(str(self.temporary), str(temporary))
        for folder in ("/dev", "/proc"):
            mounts.elsewhere(folder)
        mounts.own(os.path.realpath("/var/tmp"), str(temporary))  # noqa: S108 - its own
        for root in self.writable:
            mounts.own(str(root))
            for place in sensitive_places(root, self.homes):
                mounts.fix(place)
        for steering in self.steering:
            mounts.fix(str(steering))
        for place in (*private_places(self.homes), *map(str, self.private)):
            mounts.close(place)
        for folder in other_homes(self.homes):
            mounts.close(folder)
            for home in self.homes:
                mounts.readable(str(home))
        self._let_through(mounts, sockets)
        return mounts

    def _let_through(self, mounts: Mounts, sockets: Iterable[str]) -> None:
        """Say what of the closed is open: and no socket, wherever it is, but these."""
        for folder in (self.outputs, *self.readable):
            mounts.readable(str(folder))
        for name in (*NEEDED, *(NAMES if self.network else ())):
            mounts.readable(name)
        for path in _listening():
            mounts.shut(path)
        for path in sockets:
            mounts.reachable(path)

    @property
    def _temporary(self) -> Path:
        return self.outputs / "tmp"

    @property
    def note(self) -> str:
        """Return a line for the user who is asked about a command: what it can reach."""
        where = "the working folder" + (
            " and the folders allowed beside it" if self.allowed else ""
        )
        return f"It runs in the sandbox: {_FREE if self.network else _ALONE}, it writes in {where}."

    @property
    def _where(self) -> str:
        return ", ".join(map(str, self.writable))

    @property
    def about(self) -> str:
        """What a model should know of it; the same in all folders, so that it can be replayed."""
        others = " and the folders allowed beside it" if self.allowed else ""
        return (
            f"Commands run in a sandbox: {_FREE if self.network else _ALONE}. "
            f"They can write only below the working folder{others}, and in /tmp, which is theirs "
            f"alone and lasts as long as the session; not what decides which programs run later "
            f"(.git/config, .git/hooks, .envrc, .vscode, .npmrc, settings of agents, start-up "
            f"files of shells). Credentials are out of reach."
        )

    def hint(self, output: str) -> str:
        """Say, where a command failed, whether that may be because of the sandbox."""
        hints = []
        if not self.network and _OFFLINE.search(output):
            hints.append(f"{_ALONE} in the sandbox where commands run")
        if _READ_ONLY.search(output):
            hints.append(
                f"commands can write only below {self._where} and in /tmp, "
                f"and not what decides which programs run later (.git/config, .git/hooks, .envrc, "
                f".vscode, settings of agents, ...)"
            )
        if _SET_ID_REFUSED.search(output):
            hints.append(
                "in the sandbox no file with a set-user-id or set-group-id bit can be made"
            )
        return "".join(f"\n[{one}]" for one in hints)


def _listening() -> Iterator[str]:
    """Yield the sockets of other programs that can be reached by a path."""
    try:
        listed = Path("/proc/net/unix").read_text(errors="surrogateescape")
    except OSError:
        return
    real = map(os.path.realpath, foreign_sockets(listed))
    yield from (path for path in real if is_socket(path) and is_reachable(path))


def _own_code() -> list[Path]:
    """Return where our own code is: who changes it changes all that watches."""
    package = Path(__file__).resolve().parents[2]
    return [package, Path(sys.prefix).resolve()]


def _programs(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Yield the folders of PATH, without those of a project's environment, which are its own."""
    for entry in program_folders(environ, folder):
        # A folder of PATH may be closed to this user: `Path.exists` would raise PermissionError.
        is_environment = os.path.exists(entry.parent / "pyvenv.cfg")  # noqa: PTH110
        if entry.name != ".bin" and not is_environment:
            yield entry


def _mount_points(arguments: Iterable[str], temporary: str) -> frozenset[str]:
    """Return the names in the sandbox's `/tmp` that bubblewrap creates to mount a path below it."""
    prefixes = (f"{temporary}/", f"{os.path.realpath('/var/tmp')}/")  # noqa: S108 - its own
    below = (
        path.removeprefix(one) for path in arguments for one in prefixes if path.startswith(one)
    )
    return frozenset(path.partition("/")[0] for path in below)


def _names_in(folder: Path) -> frozenset[str]:
    """Return the names in a folder but caches; none if it cannot be listed."""
    try:
        return frozenset(os.listdir(folder)) - {".cache"}  # noqa: PTH208 - names, not paths
    except OSError:
        return frozenset()


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def user_homes(environ: Mapping[str, str]) -> list[Path]:
    """Return the user's home: where the environment says, and where the system knows it is."""
    found = [environ.get("HOME", "")]
    with suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    homes = {_real(Path(one)): None for one in found if one.startswith("/")}
    return [one for one in homes if one != Path("/")]
