"""Limits of the context socket: lines, names of commits, paths and connections."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from harken.context.socket_client import MAX_LINE_BYTES, current_context, encode_response
from harken.context.socket_server import MAX_CONNECTIONS, MAX_PATH_BYTES, ContextSocketServer
from harken.core.ids import AgentId

CTX = "ctx-" + "1f" * 32
ONE = (Path("s.jsonl"), AgentId("agent_001"))
REQUEST = b'{"action":"current-context"}'
PATIENT_S = 60.0


@pytest.fixture
def sockets(short: Path) -> Iterator[ContextSocketServer]:
    server = ContextSocketServer(short / "run", read_timeout_s=PATIENT_S, hold_timeout_s=PATIENT_S)
    server.settle(ONE, CTX)
    yield server
    server.close()


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENT_S)
    connection.connect(str(path))
    return connection


def receive(connection: socket.socket) -> bytes:
    pieces = []
    try:
        while piece := connection.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


@pytest.mark.parametrize("excess", [0, 1])
def test_length_of_a_request_is_limited(sockets: ContextSocketServer, excess: int) -> None:
    with connect(sockets.path(ONE)) as connection:
        connection.sendall(REQUEST + b" " * (MAX_LINE_BYTES - len(REQUEST) + excess) + b"\n")
        assert (CTX.encode() in receive(connection)) is not bool(excess)


@pytest.mark.parametrize(
    ("context_id", "is_commit"),
    [
        (f"ctx-{'1' * 12}", True),
        (f"ctx-{'1' * 64}", True),
        (f"ctx-{'1' * 11}", False),
        (f"ctx-{'1' * 65}", False),
        (f"ctx-{'1' * 12}\n", False),
        (f"art-{'1' * 64}", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("padding", [0, MAX_LINE_BYTES])
def test_client_accepts_only_a_name_of_a_commit(
    short: Path, context_id: str, is_commit: bool, padding: int
) -> None:
    answer = encode_response(REQUEST, context_id)
    answer = b" " * (padding - len(answer)) + answer
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(short / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        expected = context_id if is_commit else ""
        assert current_context(str(short / "s"), timeout_s=PATIENT_S) == expected
        thread.join()


def test_connections_beyond_the_limit_are_closed(sockets: ContextSocketServer) -> None:
    path = sockets.path(ONE)
    waiting = [connect(path) for _ in range(MAX_CONNECTIONS)]
    try:
        for connection in waiting:
            connection.sendall(REQUEST)  # The server waits for the end of the line.
        with connect(path) as refused:
            refused.sendall(REQUEST + b"\n")
            assert receive(refused) == b""
        waiting[0].sendall(b"\n")
        assert CTX.encode() in receive(waiting[0])
        assert current_context(str(path), timeout_s=PATIENT_S) == CTX
    finally:
        for connection in waiting:
            connection.close()


def test_folder_is_used_if_its_longest_socket_path_is_short_enough(short: Path) -> None:
    """The name of the folder in it has the number of the process, and eight digits."""
    name = len(f"/harken-{os.getpid()}-12345678/999999.sock")
    used: list[bool] = []
    for excess in (0, 1):
        room = MAX_PATH_BYTES - len(str(short)) - 1 - name + excess
        server = ContextSocketServer(short / ("x" * room))
        try:
            used.append(server.path(ONE).is_relative_to(short))
            assert len(os.fsencode(server.path(ONE))) <= MAX_PATH_BYTES
        finally:
            server.close()
    assert used == [True, False]


def test_agents_are_those_with_a_socket(sockets: ContextSocketServer) -> None:
    other = (Path("s.jsonl"), AgentId("agent_002"))
    assert sockets.agents == []
    sockets.path(ONE)
    sockets.path(other)
    assert sockets.agents == [ONE, other]
    sockets.forget(ONE)
    assert sockets.agents == [other]


def test_released_agent_is_answered_with_its_old_commit(sockets: ContextSocketServer) -> None:
    sockets.hold(ONE)
    path = str(sockets.path(ONE))
    assert current_context(path, timeout_s=0.1) == ""
    sockets.release(ONE)
    assert current_context(path, timeout_s=PATIENT_S) == CTX
