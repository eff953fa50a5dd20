"""The context socket client: a program that an agent runs asks for the agent's current commit.

The path identifies the agent. Every agent has its own socket, so a program that knows only the path
gets the commit of the turn that started it, whatever other agents do.

Source: docs/formats/context-socket.md.
"""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

from harken.core.arguments import check_arguments

VARIABLE = "HARKEN_CONTEXT_SOCKET"
"""The environment variable with the path of the socket."""
ACTION = "current-context"
"""The only supported action."""
TIMEOUT_S = 1.0
"""The timeout of both ends."""
MAX_LINE_BYTES = 4096
"""The size limit of a request or a response, in bytes."""
_COMMIT_PATTERN = re.compile(r"ctx-[0-9a-f]{12,64}")


@check_arguments
def current_context(path: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return the full name of the current commit of the agent with this socket.

    The result is empty before the agent's first commit, and if there is no valid response within
    `timeout_s`: the program continues without it.
    """
    request = json.dumps({"action": ACTION}).encode() + b"\n"
    deadline = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(request)
            response = _read_line(connection, deadline)
    except (OSError, ValueError):  # ValueError: the environment may contain an invalid path.
        return ""
    return _parse_response(response)


def encode_response(question: bytes, context_id: str) -> bytes:
    r"""Return the response line to a request line. It contains nothing of the request.

    >>> encode_response(b'{"action":"current-context"}\n', "ctx-12ab")
    b'{"context_id":"ctx-12ab"}\n'
    >>> encode_response(b'{"action":"ls"}\n', "ctx-12ab")
    b'{"error":"there is one action: current-context"}\n'
    """
    request = _parse_object(question)
    if request is None:
        response = {"error": "a question is one JSON object on one line"}
    elif request.get("action") != ACTION:
        response = {"error": f"there is one action: {ACTION}"}
    else:
        response = {"context_id": context_id}
    return json.dumps(response, separators=(",", ":")).encode() + b"\n"


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    """Read a line. Raises TimeoutError at the deadline."""
    line = b""
    while len(line) <= MAX_LINE_BYTES and not line.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = connection.recv(MAX_LINE_BYTES)
        if not chunk:
            break
        line += chunk
    return line


def _parse_response(response: bytes) -> str:
    """Return the commit in a response, or an empty text: any program may listen on the path."""
    record = _parse_object(response)
    context_id = None if record is None else record.get("context_id")
    is_valid = isinstance(context_id, str) and _COMMIT_PATTERN.fullmatch(context_id)
    return str(context_id) if is_valid else ""


def _parse_object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
