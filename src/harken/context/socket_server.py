"""`ContextSocketServer`: tells the programs that agents run which commit their agent is at.

One idea: what a program is told is settled before it starts, and changes only when its agent acts
again. So all calls of one message see the same commit, whatever is committed while they run.

A thread with an event loop of its own answers: it does so whatever the agents' loop is busy with.
Nothing is made before the first agent acts.
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
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TypeAlias

from harken.context.socket_client import LONGEST_LINE, PATIENCE_S, answer_to
from harken.core.arguments import check_arguments
from harken.core.ids import AgentId

LONGEST_PATH = 100
"""Bytes. The system takes 104 (macOS) or 108 (Linux) with the zero at the end."""
HELD_S = 0.7
"""So long a program waits for a commit that is being made: less than its own patience."""
_HELD_STEP_S = 0.01
MOST_AT_ONCE = 64
"""Connections; more are closed unanswered."""
_PREFIX = "harken-"
_OWNED = re.compile(rf"{_PREFIX}(\d+)-[0-9a-f]{{8}}")
Key: TypeAlias = tuple[Path, AgentId]
"""Whose socket it is: the log of a session, and the id of an agent in it."""
_ROOM_FOR = "999999.sock"


@dataclass(frozen=True, slots=True)
class _Socket:
    """Where the programs of one agent ask, and who answers."""

    path: Path
    server: asyncio.Server


@check_arguments
class ContextSocketServer:
    """The sockets of the agents of this process. `close` removes them; so does a normal exit."""

    def __init__(
        self,
        folder: Path | None = None,
        asked: Callable[[], bool] = lambda: False,
        *,
        read_timeout_s: float = PATIENCE_S,
        hold_timeout_s: float = HELD_S,
    ) -> None:
        """Keep them below `folder`, where their paths are short enough; else below a temporary one.

        Both are closed to everybody else, and what a process that was killed left there is removed.
        asked: is told of each question; whether its answer will be settled, or released, now.
        read_timeout_s: a connection that has not sent its question by then is closed.
        hold_timeout_s: a question waits at most this long for a commit that is being made.
        """
        self._wanted, self._asked = folder, asked
        self._read_timeout_s, self._hold_timeout_s = read_timeout_s, hold_timeout_s
        self._place: Path | None = None
        self._thread: _Thread | None = None
        self._numbers = count(1)
        self._open: dict[Key, _Socket] = {}
        self._settled: dict[Key, str] = {}
        self._held: dict[Key, float] = {}
        """Agents whose commit is being made, and until when it is waited for."""
        self._connections = 0
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def agents(self) -> list[Key]:
        """Those who have a socket."""
        return list(self._open)

    def settle(self, agent: Key, context_id: str) -> None:
        """Say which commit the programs of an agent are told from now on."""
        self._settled[agent] = context_id
        self._held.pop(agent, None)

    def hold(self, agent: Key) -> None:
        """Let the programs of an agent wait a moment: what they will be told is settled soon.

        For agents of others, of whose acts we hear while they act.
        """
        self._held[agent] = monotonic() + self._hold_timeout_s

    def release(self, agent: Key) -> None:
        """Let them wait no more: what was settled last holds."""
        self._held.pop(agent, None)

    def path(self, agent: Key) -> Path:
        """Return the path of an agent's socket, which stays the same; it is made when first asked.

        Raises OSError where that cannot be.
        """
        with self._lock:
            if agent not in self._open:
                self._open[agent] = self._listen(agent)
            return self._open[agent].path

    def forget(self, agent: Key) -> None:
        """Answer the programs of an agent no more."""
        with self._lock:
            gone = self._open.pop(agent, None)
            self._settled.pop(agent, None)
            self._held.pop(agent, None)
            if gone is not None and self._thread is not None:
                self._thread.loop.call_soon_threadsafe(gone.server.close)
                gone.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Answer nobody any more, and leave nothing behind. A second call does nothing.

        Nor does one in a fork of this process: it has no thread, and the sockets are its parent's.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            thread, place = self._thread, self._place
            servers = [one.server for one in self._open.values()]
            self._thread = self._place = None
            self._open.clear()
            self._settled.clear()
            self._held.clear()
        if thread is not None:
            thread.end(servers)
        if place is not None:
            remove(place)
        atexit.unregister(self.close)

    def _listen(self, agent: Key) -> _Socket:
        """Begin to answer the programs of an agent."""
        if self._place is None:
            self._place = _place_below(self._wanted)
            atexit.register(self.close)
        path = self._place / f"{next(self._numbers)}.sock"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen(MOST_AT_ONCE)
            serving = asyncio.start_unix_server(
                partial(self._serve, agent), sock=listening, limit=LONGEST_LINE
            )
            server = asyncio.run_coroutine_threadsafe(serving, self._running()).result()
        except BaseException:
            listening.close()
            raise
        return _Socket(path, server)

    def _running(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the thread, which is started where there is none."""
        if self._thread is None:
            self._thread = _Thread()
        return self._thread.loop

    async def _serve(
        self, agent: Key, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one question; who asks too slowly or at too great length is cut off."""
        self._connections += 1
        try:
            if self._connections <= MOST_AT_ONCE:
                async with asyncio.timeout(self._read_timeout_s):
                    question = await reader.readline()
                    if self._asked():
                        self._held.setdefault(agent, monotonic() + self._hold_timeout_s)
                    while monotonic() < self._held.get(agent, 0.0):  # noqa: ASYNC110 - a thread settles
                        await asyncio.sleep(_HELD_STEP_S)
                    writer.write(answer_to(question, self._settled.get(agent, "")))
                    await writer.drain()
        except (OSError, ValueError):  # TimeoutError is the first, a line without end the second
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()


def remove(place: Path) -> None:
    """Remove the sockets of a process, and their folder where nothing else is in it."""
    with suppress(OSError):
        for path in _sockets(place):
            path.unlink(missing_ok=True)
        place.rmdir()


class _Thread:
    """A thread with an event loop that runs until it is ended."""

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
        """Close the servers, and all connections with them."""
        for server in servers:
            self.loop.call_soon_threadsafe(server.close)
        self.loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)


def _place_below(wanted: Path | None) -> Path:
    """Make a folder for the sockets of this process. Raises OSError where that can be nowhere."""
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    elsewhere = (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108 - our folder in it is ours
    failure = OSError("no folder has a path that is short enough for a socket")
    # Absolute: who asks may be in another folder.
    for folder in elsewhere if wanted is None else (wanted.absolute(), *elsewhere):
        if len(os.fsencode(folder / name / _ROOM_FOR)) > LONGEST_PATH:
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
    """Remove what processes left that were killed."""
    with suppress(OSError):
        for place in folder.iterdir():
            owner = _OWNED.fullmatch(place.name)
            if owner and _is_ours(place) and not _lives(int(owner[1])) and not _answers(place):
                remove(place)


def _is_ours(place: Path) -> bool:
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _lives(pid: int) -> bool:
    """Whether a process is there, as far as can be seen from here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        return True
    return True


def _answers(place: Path) -> bool:
    """Whether somebody listens: a pid of another container means nothing here."""
    for path in _sockets(place):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_S)
            try:
                connection.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                continue
            except OSError:
                return True  # it may: leave it
            return True
    return False


def _sockets(place: Path) -> Iterator[Path]:
    return (path for path in place.iterdir() if stat.S_ISSOCK(path.lstat().st_mode))
