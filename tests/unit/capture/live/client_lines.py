"""Handwritten output lines of clients."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
SESSION = "5e551011-0000-4000-8000-000000000009"
METRIC = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 2,
    "result": "Bye.",
    "total_cost_usd": 0.25,
}


class Stream:
    """Builds the lines of `claude -p --output-format stream-json`."""

    def __init__(self) -> None:
        self.lines: list[Json] = []

    @property
    def data(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def add(self, kind: str, **members: Any) -> str:
        number = len(self.lines) + 1
        uuid = f"00000000-0000-4000-8000-{number:012d}"
        time = f"2026-01-31T12:00:{number:02d}.000Z"
        line = {"type": kind, **members, "session_id": SESSION, "uuid": uuid, "timestamp": time}
        self.lines.append(line)
        return uuid

    def init(self) -> None:
        self.add("system", subtype="init", tools=["Bash"], model="m", cwd="/cafe")

    def user(self, content: object, **members: Any) -> str:
        message = {"role": "user", "content": content}
        return self.add("user", message=message, parent_tool_use_id=None, **members)

    def result(self, id: str, content: str, *, call: str | None = None, **members: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": id, "content": content, **members}
        message = {"role": "user", "content": [block]}
        return self.add("user", message=message, parent_tool_use_id=call)

    def answer(self, id: str, block: Json, *, call: str | None = None) -> str:
        body: Json = {"id": id, "role": "assistant", "model": "m", "content": [block]}
        body["usage"] = {"input_tokens": 1, "output_tokens": 2}
        return self.add("assistant", message=body, parent_tool_use_id=call)

    def end(self, **members: Any) -> None:
        self.lines.append({**METRIC, **members, "session_id": SESSION})


def words(text: str) -> Json:
    return {"type": "text", "text": text}


def use(id: str, name: str = "Bash", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}
