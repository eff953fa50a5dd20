"""The socket of an agent returns only its commit, and a client does not trust the server."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from harken.context import socket_client as context_socket
from harken.context.socket_client import MAX_LINE_BYTES
from harken.context.socket_server import MAX_CONNECTIONS, MAX_PATH_BYTES, ContextSocketServer
from harken.core.ids import AgentId

CTX = "ctx-" + "1f" * 32
OTHER = "ctx-" + "2e" * 32
LOG = Path("s.jsonl")
ONE, TWO = (LOG, AgentId("agent_001")), (LOG, AgentId("agent_002"))
PATIENT_S = 60.0
"""Longer than a busy machine takes for anything here."""
current_context = partial(context_socket.current_context, timeout_s=PATIENT_S)


@pytest.fixture
def sockets(short: Path) -> Iterator[ContextSocketServer]:
    socket_server = ContextSocketServer(
        short / "run", read_timeout_s=PATIENT_S, hold_timeout_s=PATIENT_S
    )
    yield socket_server
    socket_server.close()


def say(path: Path, data: bytes, *, close: bool = False) -> bytes:
    """Send bytes to a socket and return the complete answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENT_S)
        connection.connect(str(path))
        try:
            connection.sendall(data)
            if close:
                connection.shutdown(socket.SHUT_WR)
            pieces = [b""]
            while piece := connection.recv(65536):
                pieces.append(piece)
        except (ConnectionResetError, BrokenPipeError):
            return b"".join(pieces)
        return b"".join(pieces)


@pytest.mark.req("S2-39")
def test_socket_answers_with_the_commit_or_empty_before_the_first(
    sockets: ContextSocketServer,
) -> None:
    path = sockets.path(ONE)
    assert say(path, b'{"action":"current-context"}\n') == b'{"context_id":""}\n'
    sockets.settle(ONE, CTX)
    assert say(path, b'{"action":"current-context"}\n') == f'{{"context_id":"{CTX}"}}\n'.encode()
    assert say(path, b'{"action": "current-context", "more": 1}', close=True).count(CTX.encode())
    assert current_context(str(path)) == CTX


@pytest.mark.req("S2-41")
def test_each_agent_keeps_its_own_socket(sockets: ContextSocketServer) -> None:
    sockets.settle(ONE, CTX)
    sockets.settle(TWO, OTHER)
    paths = [str(sockets.path(agent_log)) for agent_log in (ONE, TWO)]
    assert [current_context(path) for path in paths] == [CTX, OTHER]
    sockets.settle(ONE, OTHER)
    assert [str(sockets.path(agent_log)) for agent_log in (ONE, TWO)] == paths
    assert current_context(paths[0]) == OTHER
    sockets.forget(ONE)
    assert [current_context(path) for path in paths] == ["", OTHER]
    assert not Path(paths[0]).exists()


@pytest.mark.parametrize(
    "question",
    [
        b"\n",
        b"hello\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"action":"ls"}\n',
        b'{"action":1}\n',
        b"[" * 999,
    ],
)
def test_unknown_request_is_an_error_without_an_echo(
    sockets: ContextSocketServer, question: bytes
) -> None:
    sockets.settle(ONE, CTX)
    answer = say(sockets.path(ONE), question, close=True)
    assert answer.startswith(b'{"error":')
    assert CTX.encode() not in answer
    assert current_context(str(sockets.path(ONE))) == CTX


def test_endless_request_is_cut_off(sockets: ContextSocketServer) -> None:
    assert say(sockets.path(ONE), b"x" * (4 * MAX_LINE_BYTES)) == b""


def test_slow_client_is_cut_off_without_blocking_others(short: Path) -> None:
    sockets = ContextSocketServer(short / "run", read_timeout_s=2)
    sockets.settle(ONE, CTX)
    path = sockets.path(ONE)
    slow = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(MAX_CONNECTIONS - 1)]
    try:
        for connection in slow:
            connection.connect(str(path))
            connection.sendall(b'{"action":')
            connection.settimeout(PATIENT_S)
        assert current_context(str(path)) == CTX
        with pytest.raises(ConnectionResetError):
            raise_where_cut(slow[0])
    finally:
        sockets.close()
        for connection in slow:
            connection.close()


def raise_where_cut(connection: socket.socket) -> None:
    if not connection.recv(1):
        raise ConnectionResetError


def test_many_concurrent_clients_are_answered(sockets: ContextSocketServer) -> None:
    sockets.settle(ONE, CTX)
    path = str(sockets.path(ONE))
    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(current_context, [path] * 200)) == {CTX}


@pytest.mark.req("S2-39")
def test_other_users_are_refused(sockets: ContextSocketServer) -> None:
    path = sockets.path(ONE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_long_home_path_uses_another_socket_folder(tmp_path: Path) -> None:
    sockets = ContextSocketServer(tmp_path / ("long" * 30))
    path = sockets.path(ONE)
    try:
        assert len(os.fsencode(path)) <= MAX_PATH_BYTES
        assert not path.is_relative_to(tmp_path)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert current_context(str(path)) == ""
    finally:
        sockets.close()
    assert not path.parent.exists()


def test_unusable_home_uses_another_socket_folder(short: Path) -> None:
    (short / "file").write_text("")
    sockets = ContextSocketServer(short / "file")
    path = sockets.path(ONE)
    sockets.close()
    assert not path.is_relative_to(short)


def test_socket_is_created_on_demand_and_removed(short: Path) -> None:
    sockets = ContextSocketServer(short / "run")
    sockets.settle(ONE, CTX)
    assert not (short / "run").exists()
    path = sockets.path(ONE)
    sockets.close()
    sockets.close()
    assert list((short / "run").iterdir()) == []
    assert current_context(str(path)) == ""
    same_path = sockets.path(ONE)
    assert current_context(str(same_path)) == ""
    sockets.close()


WORKER = """
import os, sys, time
from pathlib import Path
from harken.context.socket_server import ContextSocketServer as ContextSocketServer
sockets = ContextSocketServer(Path(sys.argv[1]))
print(sockets.path((Path("s"), "agent_001")), flush=True)
if sys.argv[2] == "stay":
    time.sleep(60)
if sys.argv[2] == "fork":
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print([path.name for path in sockets.path((Path("s"), "agent_001")).parent.iterdir()])
"""


def worker(folder: Path | str, how: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", WORKER, str(folder), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd)


def test_stale_sockets_are_removed_and_live_ones_kept(
    short: Path, sockets: ContextSocketServer
) -> None:
    folder = short / "run"
    killed, alive = worker(folder, "stay"), worker(folder, "stay")
    try:
        paths = [
            Path(process.stdout.readline().strip()) for process in (killed, alive) if process.stdout
        ]
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
        assert paths[0].exists()
        mine = sockets.path(ONE)
        assert [path.exists() for path in (*paths, mine)] == [False, True, True]
        assert not paths[0].parent.exists()
    finally:
        for process in (killed, alive):
            process.kill()
            process.communicate()


def test_process_exit_removes_its_sockets(short: Path) -> None:
    exited = worker(short / "run", "end")
    path, _ = exited.communicate(timeout=30)
    assert exited.returncode == 0
    assert not Path(path.strip()).parent.exists()


def test_socket_path_is_absolute(short: Path) -> None:
    path, _ = worker("run", "end", cwd=short).communicate(timeout=30)
    assert path.startswith(f"{short}/run/")


def test_exit_of_a_forked_child_keeps_the_socket_of_its_parent(short: Path) -> None:
    output, _ = worker(short / "run", "fork").communicate(timeout=30)
    assert output.splitlines()[1:] == ["['1.sock']"]
    assert list((short / "run").iterdir()) == []


@contextmanager
def server(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listen at a path as a server that is not Harken."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def accept() -> None:
            connection, _ = listening.accept()
            with connection:
                serve(connection)

        thread = Thread(target=accept)
        thread.start()
        yield str(path)
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no\n",
        b'{"context_id": 5}\n',
        b'{"context_id": "ctx-\\u001b[31m"}\n',
        b'{"context_id": "tkt-111111111111"}\n',
        b"x" * 100_000,
    ],
)
def test_invalid_commit_answer_is_none(short: Path, answer: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        try:
            connection.sendall(answer)
        except OSError:
            return  # the server closed the connection

    with server(short / "s", serve) as path:
        assert current_context(path) == ""


def test_client_wait_is_limited(short: Path) -> None:
    def serve(connection: socket.socket) -> None:
        for _ in range(400):
            time.sleep(0.05)
            try:
                connection.sendall(b" ")
            except OSError:
                return

    began = time.monotonic()
    with server(short / "s", serve) as path:
        assert current_context(path, timeout_s=0.2) == ""
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("path", ["", "/nowhere/at/all", "x" * 500, "with\0zero", "."])
def test_missing_server_gives_no_commit(path: str) -> None:
    assert current_context(path) == ""


def test_client_waits_for_a_pending_commit(sockets: ContextSocketServer) -> None:
    sockets.settle(ONE, OTHER)
    sockets.hold(ONE)
    path = str(sockets.path(ONE))
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(current_context, path)
        time.sleep(0.1)
        assert not pending.done()
        sockets.settle(ONE, CTX)
        assert pending.result() == CTX


def test_pending_wait_is_limited(short: Path) -> None:
    sockets = ContextSocketServer(short / "run", hold_timeout_s=0.5)
    try:
        sockets.settle(ONE, CTX)
        sockets.hold(ONE)
        assert current_context(str(sockets.path(ONE))) == CTX
    finally:
        sockets.close()


def test_release_ends_pending_waits(sockets: ContextSocketServer) -> None:
    sockets.settle(ONE, CTX)
    sockets.hold(ONE)
    sockets.release(ONE)
    began = time.monotonic()
    assert current_context(str(sockets.path(ONE))) == CTX
    assert time.monotonic() - began < PATIENT_S / 2


def test_request_callback_may_complete_the_commit(short: Path) -> None:
    servers: list[ContextSocketServer] = []

    def is_asked() -> bool:
        servers[0].settle(ONE, OTHER)
        servers[0].hold(ONE)
        Thread(target=lambda: servers[0].settle(ONE, CTX)).start()
        return True

    servers.append(ContextSocketServer(short / "run", is_asked))
    try:
        assert current_context(str(servers[0].path(ONE))) == CTX
    finally:
        servers[0].close()


def test_connection_to_a_full_server_is_limited(short: Path) -> None:
    """A server that accepts no connections blocks `connect` itself."""
    path = short / "s"
    with listening_socket(path, is_full=True):
        began = time.monotonic()
        assert current_context(str(path), timeout_s=0.2) == ""
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("is_full", [False, True])
def test_socket_of_a_process_with_an_unknown_pid_is_kept_while_it_listens(
    short: Path, sockets: ContextSocketServer, *, is_full: bool
) -> None:
    """A process of another container has no pid here, and may be too busy to accept."""
    folder = short / "run" / f"harken-{2**22 + 1}-00000000"
    folder.mkdir(parents=True)
    with listening_socket(folder / "1.sock", is_full=is_full):
        sockets.path(ONE)
        assert folder.exists()


@contextmanager
def listening_socket(path: Path, *, is_full: bool) -> Iterator[None]:
    """Listen without ever accepting. is_full: with as many clients as can wait."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(path))
        listening.listen(0)
        for _ in range(5 * is_full):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            waiting.setblocking(False)
            waiting.connect_ex(str(path))
        yield
