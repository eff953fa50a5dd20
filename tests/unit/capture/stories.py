"""One short conversation as a session file of each runtime, one line per entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
WORDS = ("Is the cafe open?", "It is.", "Tea?", "Green.", "Good.", "Bye.")
"""What the user says and what the model answers, in turn."""


def _time(at: int) -> str:
    return f"2026-01-31T12:{at // 60:02}:{at % 60:02}.000Z"


def claude(words: Sequence[str], session: str) -> list[Record]:
    found: list[Record] = []
    for at, one in enumerate(words):
        is_asked = at % 2 == 0
        body = {"role": "user", "content": one}
        if not is_asked:
            said = [{"type": "text", "text": one}]
            body = {"role": "assistant", "id": f"r{at}", "model": "m", "content": said}  # type: ignore[dict-item]
        record = {"type": body["role"], "uuid": f"u{at}", "message": body, "timestamp": _time(at)}
        parent = f"u{at - 1}" if at else None
        found.append({**record, "parentUuid": parent, "sessionId": session, "cwd": "/cafe"})
    return found


def codex(words: Sequence[str], session: str) -> list[Record]:
    def line(kind: str, payload: Record, at: int) -> Record:
        return {"timestamp": _time(at), "type": kind, "payload": payload}

    found = [line("session_meta", {"id": session, "cwd": "/cafe", "cli_version": "0.145"}, 0)]
    for at, one in enumerate(words):
        role, kind = ("user", "input_text") if at % 2 == 0 else ("assistant", "output_text")
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": one}]}
        found.append(line("response_item", item, at))
    return found


def copilot(words: Sequence[str], session: str) -> list[Record]:
    start = {"sessionId": session, "copilotVersion": "1.0", "context": {"cwd": "/cafe"}}
    found: list[Record] = [{"type": "session.start", "data": start, "timestamp": _time(0)}]
    for at, one in enumerate(words):
        kind = "user.message" if at % 2 == 0 else "assistant.message"
        data = {"content": one, "messageId": f"m{at}"}
        found.append({"type": kind, "data": data, "id": f"e{at}", "timestamp": _time(at)})
    return found


def gemini(words: Sequence[str], session: str) -> list[Record]:
    head = {"sessionId": session, "projectHash": "0f", "startTime": _time(0), "kind": "main"}
    kinds = ("user", "gemini")
    return [
        head,
        *(
            {"id": f"g{at}", "timestamp": _time(at), "type": kinds[at % 2], "content": one}
            for at, one in enumerate(words)
        ),
    ]


def pi(words: Sequence[str], session: str) -> list[Record]:
    head = {"type": "session", "version": 3, "id": session, "cwd": "/cafe", "timestamp": _time(0)}
    found: list[Record] = [head]
    for at, one in enumerate(words):
        role = "user" if at % 2 == 0 else "assistant"
        message = {"role": role, "content": [{"type": "text", "text": one}], "timestamp": at}
        entry = {"type": "message", "id": f"p{at}", "message": message, "timestamp": _time(at)}
        found.append({**entry, "parentId": f"p{at - 1}" if at else None})
    return found


STORIES: dict[str, Callable[[Sequence[str], str], list[Record]]] = {
    "claude-code-v1": claude,
    "codex-v1": codex,
    "copilot-cli-v1": copilot,
    "gemini-cli-v1": gemini,
    "pi-v3": pi,
}


def lines(format: str, words: Sequence[str] = WORDS, session: str = "5e55") -> list[bytes]:
    """Return the lines of the conversation without their newlines."""
    return [json.dumps(record).encode() for record in STORIES[format](words, session)]
