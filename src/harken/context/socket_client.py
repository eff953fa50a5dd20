"""The context socket: how a program that an agent runs learns which commit the agent is at.

One idea: the path is the question. Every agent has a socket of its own, so a program that knows
nothing but its path is told the commit of the turn that started it, whichever agents work beside.

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
"""The environment variable that holds the path."""
ACTION = "current-context"
"""The only thing that can be asked."""
PATIENCE_S = 1.0
"""How long each end waits for the other."""
LONGEST_LINE = 4096
"""Bytes of a question or an answer: more is cut off."""
_CONTEXT = re.compile(r"ctx-[0-9a-f]{12,64}")


@check_arguments
def current_context(path: str, *, timeout_s: float = PATIENCE_S) -> str:
    """Return the commit that the agent with this socket is at, by its full name.

    Empty before its first commit, and where nobody answers as specified within `timeout_s`: a
    program that asks goes on without.
    """
    question = json.dumps({"action": ACTION}).encode() + b"\n"
    deadline = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(question)
            answer = _line(connection, deadline)
    except (OSError, ValueError):  # ValueError: what an environment holds may be no path
        return ""
    return _context_in(answer)


def answer_to(question: bytes, context_id: str) -> bytes:
    r"""Return the line that answers a line; nothing of the question stands in it.

    >>> answer_to(b'{"action":"current-context"}\n', "ctx-12ab")
    b'{"context_id":"ctx-12ab"}\n'
    >>> answer_to(b'{"action":"ls"}\n', "ctx-12ab")
    b'{"error":"there is one action: current-context"}\n'
    """
    said = _object(question)
    if said is None:
        answer = {"error": "a question is one JSON object on one line"}
    elif said.get("action") != ACTION:
        answer = {"error": f"there is one action: {ACTION}"}
    else:
        answer = {"context_id": context_id}
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def _line(connection: socket.socket, deadline: float) -> bytes:
    """Return what is said up to the end of a line. Raises TimeoutError at the deadline."""
    line = b""
    while len(line) <= LONGEST_LINE and not line.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(LONGEST_LINE)
        if not piece:
            break
        line += piece
    return line


def _context_in(answer: bytes) -> str:
    """Return the commit in an answer; nothing where it is none: anybody may listen there."""
    said = _object(answer)
    context_id = None if said is None else said.get("context_id")
    is_one = isinstance(context_id, str) and _CONTEXT.fullmatch(context_id)
    return str(context_id) if is_one else ""


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
