"""`ContextSocketServer`: tells programs that agents run the current commit of their agent.

The answer to a program is fixed before the program starts, and changes only when its agent acts
again. So all tool calls of one message see the same commit, whatever is committed while they run.

A thread with its own event loop answers, even if the agents' event loop is busy. Nothing is created
before the first agent acts.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TypeAlias

import msgspec

from harken.context.socket_client import MAX_LINE_BYTES, TIMEOUT_S, encode_response
from harken.core.arguments import check_arguments
from harken.core.ids import AgentId

MAX_PATH_BYTES = 100
"""The limit in bytes. The system allows 104 (macOS) or 108 (Linux) with the final zero."""
HOLD_TIMEOUT_S = 0.7
"""The time that a request waits for a pending commit: less than the client's timeout."""
_HOLD_POLL_S = 0.01
MAX_CONNECTIONS = 64
"""The limit of connections; others are closed without a response."""
_PREFIX = "harken-"
_FOLDER_PATTERN = re.compile(rf"{_PREFIX}(\d+)-[0-9a-f]{{8}}")
Key: TypeAlias = tuple[Path, AgentId]
"""The log of a session, and the id of an agent in it."""
_MAX_LENGTH_NAME = "999999.sock"


class _Socket(msgspec.Struct, frozen=True):
    """The socket of one agent, and its server."""

    path: Path
    server: asyncio.Server


@check_arguments
class ContextSocketServer:
    """The sockets of the agents of this process. `close` and a normal exit remove them."""

    def __init__(
        self,
        folder: Path | None = None,
        asked: Callable[[], bool] = lambda: False,
        *,
        read_timeout_s: float = TIMEOUT_S,
        hold_timeout_s: float = HOLD_TIMEOUT_S,
    ) -> None:
        """Use `folder` if its paths are short enough, else a temporary folder.

        Other users cannot access either, and sockets of killed processes there are removed.
        asked: called for each request; returns whether `settle` or `release` will be called soon.
        read_timeout_s: a connection that has not sent its request by then is closed.
        hold_timeout_s: the maximum time that a request waits for a pending commit.
        """
        self._preferred_folder, self._on_request = folder, asked
        self._read_timeout_s, self._hold_timeout_s = read_timeout_s, hold_timeout_s
        self._folder: Path | None = None
        self._thread: _Thread | None = None
        self._numbers = count(1)
        self._open: dict[Key, _Socket] = {}
        self._settled: dict[Key, str] = {}
        self._hold_deadlines_s: dict[Key, float] = {}
        """The deadlines of agents with a pending commit."""
        self._connections = 0
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def agents(self) -> list[Key]:
        """The agents that have a socket."""
        return list(self._open)

    def settle(self, agent: Key, context_id: str) -> None:
        """Set the commit that the programs of an agent get from now on."""
        self._settled[agent] = context_id
        self._hold_deadlines_s.pop(agent, None)

    def hold(self, agent: Key) -> None:
        """Delay the responses to an agent's programs until `settle`, `release` or a timeout.

        For agents of other runtimes, whose actions are observed while they happen.
        """
        self._hold_deadlines_s[agent] = monotonic() + self._hold_timeout_s

    def release(self, agent: Key) -> None:
        """End the delay, without a new commit."""
        self._hold_deadlines_s.pop(agent, None)

    def path(self, agent: Key) -> Path:
        """Return the path of an agent's socket, which never changes.

        The first call creates the socket. Raises OSError if it cannot be created.
        """
        with self._lock:
            if agent not in self._open:
                self._open[agent] = self._listen(agent)
            return self._open[agent].path

    def forget(self, agent: Key) -> None:
        """Close the socket of an agent."""
        with self._lock:
            removed = self._open.pop(agent, None)
            self._settled.pop(agent, None)
            self._hold_deadlines_s.pop(agent, None)
            if removed is not None and self._thread is not None:
                self._thread.loop.call_soon_threadsafe(removed.server.close)
                removed.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all sockets and remove all files. A second call does nothing.

        In a fork of this process it does nothing: the thread and the sockets belong to the parent.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            thread, folder = self._thread, self._folder
            servers = [open_socket.server for open_socket in self._open.values()]
            self._thread = self._folder = None
            self._open.clear()
            self._settled.clear()
            self._hold_deadlines_s.clear()
        if thread is not None:
            thread.end(servers)
        if folder is not None:
            remove_sockets(folder)
        atexit.unregister(self.close)

    def _listen(self, agent: Key) -> _Socket:
        """Create the socket of an agent and start its server."""
        if self._folder is None:
            self._folder = _create_folder(self._preferred_folder)
            atexit.register(self.close)
        path = self._folder / f"{next(self._numbers)}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(MAX_CONNECTIONS)
            start_server = asyncio.start_unix_server(
                partial(self._serve, agent), sock=listener, limit=MAX_LINE_BYTES
            )
            server = asyncio.run_coroutine_threadsafe(start_server, self._get_loop()).result()
        except BaseException:
            listener.close()
            raise
        return _Socket(path, server)

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the thread, which is started if needed."""
        if self._thread is None:
            self._thread = _Thread()
        return self._thread.loop

    async def _serve(
        self, agent: Key, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request. A slow or oversized request is aborted."""
        self._connections += 1
        try:
            if self._connections <= MAX_CONNECTIONS:
                async with asyncio.timeout(self._read_timeout_s):
                    request = await reader.readline()
                    if self._on_request():
                        self._hold_deadlines_s.setdefault(agent, monotonic() + self._hold_timeout_s)
                    while monotonic() < self._hold_deadlines_s.get(agent, 0.0):  # noqa: ASYNC110 - a thread settles
                        await asyncio.sleep(_HOLD_POLL_S)
                    writer.write(encode_response(request, self._settled.get(agent, "")))
                    await writer.drain()
        # TimeoutError is an OSError; a line without end raises ValueError.
        except (OSError, ValueError):
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()


def remove_sockets(place: Path) -> None:
    """Remove the sockets of a process, and their folder if it is empty."""
    with suppress(OSError):
        for path in _iter_sockets(place):
            path.unlink(missing_ok=True)
        place.rmdir()


class _Thread:
    """A thread with an event loop that runs until `end` is called."""

    def __init__(self) -> None:
        started: Future[None] = Future()
        self._thread = Thread(
            target=lambda: asyncio.run(self._run(started)), name="harken context", daemon=True
        )
        self._thread.start()
        started.result()

    async def _run(self, started: Future[None]) -> None:
        self.loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        await self._ended.wait()

    def end(self, servers: Iterable[asyncio.Server]) -> None:
        """Close the servers and all their connections."""
        for server in servers:
            self.loop.call_soon_threadsafe(server.close)
        self.loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(TIMEOUT_S)


def _create_folder(preferred: Path | None) -> Path:
    """Create a folder for the sockets of this process. Raises OSError."""
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    temporary_folders = (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108 - our folder in it is ours
    failure = OSError("no folder has a path that is short enough for a socket")
    # The path is absolute, since clients may run in other folders.
    for folder in (
        temporary_folders if preferred is None else (preferred.absolute(), *temporary_folders)
    ):
        if len(os.fsencode(folder / name / _MAX_LENGTH_NAME)) > MAX_PATH_BYTES:
            continue
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_stale(folder)
            (folder / name).mkdir(mode=0o700)
        except OSError as error:
            failure = error
        else:
            return folder / name
    raise failure


def _remove_stale(folder: Path) -> None:
    """Remove the sockets of processes that were killed."""
    with suppress(OSError):
        for path in folder.iterdir():
            owner = _FOLDER_PATTERN.fullmatch(path.name)
            if (
                owner
                and _is_ours(path)
                and not _is_alive(int(owner[1]))
                and not _has_listener(path)
            ):
                remove_sockets(path)


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_alive(pid: int) -> bool:
    """Whether a process exists, as far as this process can see."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # The process belongs to another user.
        return True
    return True


def _has_listener(folder: Path) -> bool:
    """Whether any process listens: a pid may belong to another container."""
    for path in _iter_sockets(folder):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            try:
                connection.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                continue
            except OSError:
                return True  # A process may listen: keep it.
            return True
    return False


def _iter_sockets(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if stat.S_ISSOCK(path.lstat().st_mode))
