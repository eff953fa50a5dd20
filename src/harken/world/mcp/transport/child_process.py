"""The program of a server, with its pipes, ended together with all that came of it.

A program that outlives the call that started it may outlive Harken, too, where that is killed. So
beside each stands a shell that waits for the end of a pipe which only Harken holds, and then ends
the program's group. What the program writes to stderr goes to a file, up to a bound.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Self

from harken.errors import ConfigError
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.shell.output import readable
from harken.world.shell.process_group import MARK, PROC, ProcessGroup
from harken.world.shell.sandbox import SandboxedCommand

PASSED_ON = (
    *("HOME", "LOGNAME", "USER", "SHELL", "PATH", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""All that a server gets of our environment: a key that is for somebody else is not for it."""
LOG_BYTES = 1 << 20
"""How much of what it writes to stderr is kept."""
TAIL_BYTES = 4096
PATIENCE_S = 1.0
"""How long it may take to end by itself when its input has ended."""
_BUFFER_BYTES = 1 << 20
_FIRST = '"$0" "$@"; exit $?'
_GUARD = 'read -r _; kill -s TERM -- "-$0"; sleep 1; kill -s KILL -- "-$0"'


@dataclass(slots=True)
class ServerProcess:
    """A server's program that runs; `start` makes one."""

    processes: ProcessGroup
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    guard: subprocess.Popen[bytes] | None
    log: Path
    entered: SandboxedCommand | None = None
    """The sandbox that it is in."""
    _transports: list[asyncio.BaseTransport] = field(default_factory=list)
    _stderr: asyncio.Task[None] | None = None
    _tail: bytearray = field(default_factory=bytearray)

    @classmethod
    async def start(cls, server: McpServerConfig, around: McpHost) -> Self:
        """Start a server's program, its variables filled in. Raises ConfigError."""
        environ, outputs = around.environ, around.outputs
        environment = {name: environ[name] for name in PASSED_ON if name in environ}
        environment |= {"TERM": "dumb", **server.env}
        where = around.folder / Path(server.cwd or ".").expanduser()
        command = _command(server, where, environment)
        entered = None
        if server.sandbox:
            entered = await asyncio.to_thread(_entered, server, around, where, command, environment)
            command, environment = [*entered.command], {**entered.environment}
        first, token = _started(server, where, command, environment)
        proc = PROC if (PROC / str(first.pid)).exists() else None
        processes = ProcessGroup(first, token, proc, 0)
        try:
            outputs.mkdir(mode=0o700, parents=True, exist_ok=True)
            stdin = await _writer(first.stdin)
            stdout, from_stdout = await _reader(first.stdout)
            stderr, from_stderr = await _reader(first.stderr)
            log = outputs.absolute() / f"mcp-{server.name}-{token[:12]}.log"
            child = cls(processes, stdin, stdout, _guarded(first.pid), log, entered)
        except BaseException:
            processes.kill()
            raise
        child._transports += [stdin.transport, from_stdout, from_stderr]
        child._stderr = asyncio.create_task(child._keep(stderr))
        return child

    async def _keep(self, stderr: asyncio.StreamReader) -> None:
        """Write what it says to its file, up to a bound; read on all the same."""
        kept = 0
        with suppress(OSError):
            while chunk := await stderr.read(1 << 16):
                self._tail = (self._tail + chunk)[-TAIL_BYTES:]
                if kept < LOG_BYTES:
                    with suppress(OSError):  # who is not read any more stops in the middle
                        kept += _appended(self.log, chunk[: LOG_BYTES - kept])
                await asyncio.sleep(0)  # one that never stops leaves time for others

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, shortened."""
        lines = readable(self._tail.decode(errors="replace")).split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    @property
    def ending(self) -> str:
        """How it ended, and what it said last; that it runs still."""
        code = self.processes.exit_code
        how = "it runs still" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            how = f"ended by signal {-code}"
        return f"{how}; it last said: {self.last_words}" if self.last_words else how

    async def end(self, patience_s: float = PATIENCE_S) -> None:
        """End it: its input first, then its group. Raises nothing; a second call does nothing."""
        with suppress(OSError, RuntimeError):
            self.stdin.close()
        try:
            await self.processes.end(patience_s)
            if self._stderr is not None:
                await asyncio.wait({self._stderr}, timeout=0.2)
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Kill what runs still, and close the pipes. Blocks, as a rule for milliseconds."""
        self.processes.kill()
        if self.entered is not None:
            with suppress(OSError):
                self.entered.put_aside()
        if self._stderr is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._stderr.cancel()
        for transport in self._transports:
            with suppress(RuntimeError):
                transport.close()
        if self.guard is not None:
            self.guard.kill()  # before its pipe is closed: the number may be another group's now
            self.guard.wait()
            with suppress(OSError):
                assert self.guard.stdin is not None
                self.guard.stdin.close()


def _appended(file: Path, data: bytes) -> int:
    """Write to the end of a file, where it is no link; return how much. Raises OSError."""
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(file, mode, 0o600)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _command(server: McpServerConfig, where: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the program, with its arguments. Raises ConfigError."""
    assert server.command is not None
    # A relative entry of PATH would run whatever is called so in the folder.
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
    if not where.is_dir():
        raise ConfigError(f"the folder {where} is not there")
    found = server.command
    if "/" not in server.command:
        found = shutil.which(server.command, path=path) or ""
    if not found:
        raise ConfigError(f"there is no program {server.command!r} here: install it")
    return [str(where / Path(found).expanduser()), *server.args]


def _entered(
    server: McpServerConfig,
    around: McpHost,
    where: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> SandboxedCommand:
    """Return how a program is run in a sandbox, in which it writes in its folder only.

    Raises ConfigError where there is no sandbox: without one it is not run.
    """
    try:
        if around.sandbox is None:
            raise ConfigError("none is known here")
        walls = replace(
            around.sandbox,
            folder=where,
            outputs=around.outputs / f"mcp-{server.name}",
            network=server.network,
        )
        # As the first process of its world it would not hear that it shall end.
        return walls.found(around.environ).enter(["/bin/sh", "-c", _FIRST, *command], environment)
    except (ConfigError, OSError) as error:
        raise ConfigError(f"it may run in a sandbox only, and there is none: {error}") from None


def _started(
    server: McpServerConfig, where: Path, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], str]:
    """Start the program in a session of its own. Raises ConfigError."""
    token = token_hex(16)
    try:
        first = subprocess.Popen(
            command,
            cwd=where,
            env={**environment, MARK: token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"{server.command} cannot be run ({why})") from None
    except ValueError:
        raise ConfigError("its command holds a character that no program takes (NUL?)") from None
    return first, token


def _guarded(group: int) -> subprocess.Popen[bytes] | None:
    """Start what ends a group when this process has ended, however; None where that cannot be."""
    shell = shutil.which("sh", path=os.defpath)
    if shell is None:
        return None
    return subprocess.Popen(
        [shell, "-c", _GUARD, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _reader(pipe: object) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


async def _writer(pipe: object) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
