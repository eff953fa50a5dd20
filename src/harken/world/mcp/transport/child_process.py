"""The process of a local server with its pipes, ended together with its descendants.

A server process could outlive Harken if Harken is killed. So a guard shell waits for the end of a
pipe that only Harken holds, and then ends the process group. The stderr of the server goes to a
file, up to a limit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Self

import msgspec

from harken.core import structs
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
"""The inherited environment of a server, without credentials for others."""
LOG_BYTES = 1 << 20
"""The maximum size of the stored stderr."""
TAIL_BYTES = 4096
GRACE_PERIOD_S = 1.0
"""The time that it has to end after its input was closed."""
_BUFFER_BYTES = 1 << 20
_FIRST_SCRIPT = '"$0" "$@"; exit $?'
_GUARD_SCRIPT = 'read -r _; kill -s TERM -- "-$0"; sleep 1; kill -s KILL -- "-$0"'


class ServerProcess(msgspec.Struct):
    """A running server process, created by `start`."""

    processes: ProcessGroup
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    guard: subprocess.Popen[bytes] | None
    log: Path
    entered: SandboxedCommand | None = None
    """Its sandbox, if any."""
    _transports: list[asyncio.BaseTransport] = msgspec.field(default_factory=list)
    _stderr: asyncio.Task[None] | None = None
    _tail: bytearray = msgspec.field(default_factory=bytearray)

    @classmethod
    async def start(cls, server: McpServerConfig, around: McpHost) -> Self:
        """Start the program of a server with resolved variables. Raises ConfigError."""
        environ, outputs = around.environ, around.outputs
        environment = {name: environ[name] for name in PASSED_ON if name in environ}
        environment |= {"TERM": "dumb", **server.env}
        where = around.folder / Path(server.cwd or ".").expanduser()
        command = _build_command(server, where, environment)
        entered = None
        if server.sandbox:
            entered = await asyncio.to_thread(
                _enter_sandbox, server, around, where, command, environment
            )
            command, environment = [*entered.command], {**entered.environment}
        first, token = _start_program(server, where, command, environment)
        proc = PROC if (PROC / str(first.pid)).exists() else None
        processes = ProcessGroup(first, token, proc, 0)
        try:
            outputs.mkdir(mode=0o700, parents=True, exist_ok=True)
            stdin = await _open_writer(first.stdin)
            stdout, from_stdout = await _open_reader(first.stdout)
            stderr, from_stderr = await _open_reader(first.stderr)
            log = outputs.absolute() / f"mcp-{server.name}-{token[:12]}.log"
            child = cls(processes, stdin, stdout, _start_guard(first.pid), log, entered)
        except BaseException:
            processes.kill()
            raise
        child._transports += [stdin.transport, from_stdout, from_stderr]
        child._stderr = asyncio.create_task(child._copy_stderr(stderr))
        return child

    async def _copy_stderr(self, stderr: asyncio.StreamReader) -> None:
        """Copy stderr to a file up to a limit, and discard the rest."""
        stored_bytes = 0
        with suppress(OSError):
            while chunk := await stderr.read(1 << 16):
                self._tail = (self._tail + chunk)[-TAIL_BYTES:]
                if stored_bytes < LOG_BYTES:
                    with suppress(OSError):  # A process blocks if its stderr is not read.
                        stored_bytes += _append(self.log, chunk[: LOG_BYTES - stored_bytes])
                await asyncio.sleep(0)  # Other tasks get time if it writes without end.

    @property
    def last_words(self) -> str:
        """The last line on stderr, shortened."""
        lines = readable(self._tail.decode(errors="replace")).split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    @property
    def ending(self) -> str:
        """Its exit status and its last words, or that it still runs."""
        code = self.processes.exit_code
        status = "still running" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            status = f"ended by signal {-code}"
        return f"{status}; its last output: {self.last_words}" if self.last_words else status

    async def end(self, patience_s: float = GRACE_PERIOD_S) -> None:
        """End it: close its input, then end its group. Raises nothing and may be called again."""
        with suppress(OSError, RuntimeError):
            self.stdin.close()
        try:
            await self.processes.end(patience_s)
            if self._stderr is not None:
                await asyncio.wait({self._stderr}, timeout=0.2)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill all remaining processes, and close the pipes. Blocks, usually for milliseconds."""
        self.processes.kill()
        if self.entered is not None:
            with suppress(OSError):
                self.entered.rename_protected_paths()
        if self._stderr is not None:
            with suppress(RuntimeError):  # The loop may be closed.
                self._stderr.cancel()
        for transport in self._transports:
            with suppress(RuntimeError):
                transport.close()
        if self.guard is not None:
            # The guard must end before its pipe is closed, because the group number may be reused.
            self.guard.kill()
            self.guard.wait()
            with suppress(OSError):
                assert self.guard.stdin is not None
                self.guard.stdin.close()


def _append(file: Path, data: bytes) -> int:
    """Append to a file that is no link; return the number of bytes. Raises OSError."""
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(file, mode, 0o600)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _build_command(
    server: McpServerConfig, folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """Return the program with its arguments. Raises ConfigError."""
    assert server.command is not None
    # A relative entry of PATH would run a program in the working folder.
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
    if not folder.is_dir():
        raise ConfigError(f"the folder {folder} does not exist")
    program = server.command
    if "/" not in server.command:
        program = shutil.which(server.command, path=path) or ""
    if not program:
        raise ConfigError(f"program {server.command!r} not found in PATH")
    return [str(folder / Path(program).expanduser()), *server.args]


def _enter_sandbox(
    server: McpServerConfig,
    around: McpHost,
    folder: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> SandboxedCommand:
    """Return the sandboxed form of a program, which can write in its folder only.

    Raises ConfigError if there is no sandbox: the program must not run without one.
    """
    try:
        if around.sandbox is None:
            raise ConfigError("none is known")
        sandbox = structs.replace(
            around.sandbox,
            folder=folder,
            outputs=around.outputs / f"mcp-{server.name}",
            network=server.network,
        )
        # The first process of a namespace would not receive signals to end.
        return sandbox.resolve(around.environ).enter(
            ["/bin/sh", "-c", _FIRST_SCRIPT, *command], environment
        )
    except (ConfigError, OSError) as error:
        raise ConfigError(f"it requires a sandbox, which is not available: {error}") from None


def _start_program(
    server: McpServerConfig, folder: Path, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], str]:
    """Start the program in a new session. Raises ConfigError."""
    token = token_hex(16)
    try:
        first = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, MARK: token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{server.command} cannot be run ({reason})") from None
    except ValueError:
        raise ConfigError("its command has an invalid character (NUL?)") from None
    return first, token


def _start_guard(group: int) -> subprocess.Popen[bytes] | None:
    """Start a guard that ends a group when this process ends. Return None if there is no shell."""
    shell = shutil.which("sh", path=os.defpath)
    if shell is None:
        return None
    return subprocess.Popen(
        [shell, "-c", _GUARD_SCRIPT, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _open_reader(pipe: object) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


async def _open_writer(pipe: object) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
