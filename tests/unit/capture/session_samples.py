"""One short conversation as a session file of each runtime, one line per entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
WORDS = ("Is the cafe open?", "It is.", "Tea?", "Green.", "Good.", "Bye.")
"""What the user says and what the model answers, in turn."""


def _time(index: int) -> str:
    return f"2026-01-31T12:{index // 60:02}:{index % 60:02}.000Z"


def claude(words: Sequence[str], session: str) -> list[Record]:
    records: list[Record] = []
    for index, text in enumerate(words):
        is_asked = index % 2 == 0
        body = {"role": "user", "content": text}
        if not is_asked:
            content = [{"type": "text", "text": text}]
            body = {"role": "assistant", "id": f"r{index}", "model": "m", "content": content}  # type: ignore[dict-item]
        record = {
            "type": body["role"],
            "uuid": f"u{index}",
            "message": body,
            "timestamp": _time(index),
        }
        parent = f"u{index - 1}" if index else None
        records.append({**record, "parentUuid": parent, "sessionId": session, "cwd": "/cafe"})
    return records


def codex(words: Sequence[str], session: str) -> list[Record]:
    def line(kind: str, payload: Record, index: int) -> Record:
        return {"timestamp": _time(index), "type": kind, "payload": payload}

    records = [line("session_meta", {"id": session, "cwd": "/cafe", "cli_version": "0.145"}, 0)]
    for index, text in enumerate(words):
        role, kind = ("user", "input_text") if index % 2 == 0 else ("assistant", "output_text")
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        records.append(line("response_item", item, index))
    return records


def copilot(words: Sequence[str], session: str) -> list[Record]:
    start = {"sessionId": session, "copilotVersion": "1.0", "context": {"cwd": "/cafe"}}
    records: list[Record] = [{"type": "session.start", "data": start, "timestamp": _time(0)}]
    for index, text in enumerate(words):
        kind = "user.message" if index % 2 == 0 else "assistant.message"
        data = {"content": text, "messageId": f"m{index}"}
        records.append({"type": kind, "data": data, "id": f"e{index}", "timestamp": _time(index)})
    return records


def gemini(words: Sequence[str], session: str) -> list[Record]:
    head = {"sessionId": session, "projectHash": "0f", "startTime": _time(0), "kind": "main"}
    kinds = ("user", "gemini")
    return [
        head,
        *(
            {
                "id": f"g{index}",
                "timestamp": _time(index),
                "type": kinds[index % 2],
                "content": text,
            }
            for index, text in enumerate(words)
        ),
    ]


def pi(words: Sequence[str], session: str) -> list[Record]:
    head = {"type": "session", "version": 3, "id": session, "cwd": "/cafe", "timestamp": _time(0)}
    records: list[Record] = [head]
    for index, text in enumerate(words):
        role = "user" if index % 2 == 0 else "assistant"
        message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": index}
        entry = {
            "type": "message",
            "id": f"p{index}",
            "message": message,
            "timestamp": _time(index),
        }
        records.append({**entry, "parentId": f"p{index - 1}" if index else None})
    return records


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
