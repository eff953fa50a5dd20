"""The lines of session files of each runtime, without end, in rounds of four lines.

A round is a question, a call, its result and an answer. The lines are as long as those of real
sessions, and each session is one conversation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

from harken.core.clock import format_rfc3339

NOON_US = 1_767_225_600_000_000
OUTPUT = "A line of a file that a tool has read, and that the model reads, too. " * 30
SESSION = UUID(int=0x5E55)


def _time(number: int) -> str:
    return format_rfc3339(NOON_US + number * 1_000_000)


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def claude_lines() -> Iterator[bytes]:
    """Yield the lines of a transcript of Claude Code."""
    parent: str | None = None
    for number in count():
        call, kind = f"toolu_{number // 4}", number % 4
        contents: list[object] = [
            f"Question {number}?",
            [{"type": "tool_use", "id": call, "name": "Read", "input": {"file": f"{number}.txt"}}],
            [{"type": "tool_result", "tool_use_id": call, "content": f"{number} {OUTPUT}"}],
            [{"type": "text", "text": f"Answer {number}."}],
        ]
        role = "assistant" if kind in (1, 3) else "user"
        message = {"role": role, "content": contents[kind]}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "type": "message"}
        uuid = str(UUID(int=number + 1))
        yield _line(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "sessionId": str(SESSION),
                "type": role,
                "uuid": uuid,
                "timestamp": _time(number),
                "message": message,
            }
        )
        parent = uuid


def codex_lines() -> Iterator[bytes]:
    """Yield the lines of a rollout of Codex."""
    meta = {"id": str(SESSION), "cwd": "/tea", "base_instructions": {"text": "Be kind."}}
    yield _line({"timestamp": _time(0), "type": "session_meta", "payload": meta})
    for number in count(1):
        call = f"call_{number // 4}"
        text = {"type": "input_text", "text": f"Question {number}?"}
        answer = {"type": "output_text", "text": f"Answer {number}."}
        item = [
            {"type": "message", "role": "assistant", "content": [answer]},
            {"type": "message", "role": "user", "content": [text]},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": call},
            {"type": "function_call_output", "call_id": call, "output": f"{number} {OUTPUT}"},
        ][number % 4]
        yield _line({"timestamp": _time(number), "type": "response_item", "payload": item})


def pi_lines() -> Iterator[bytes]:
    """Yield the lines of a session of Pi."""
    header = {"type": "session", "version": 3, "id": str(SESSION), "cwd": "/tea"}
    yield _line(header | {"timestamp": _time(0)})
    for number in count():
        call = f"call_{number // 4}"
        request = {"type": "toolCall", "id": call, "name": "read", "arguments": {"at": number}}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": f"Question {number}?"},
            {"role": "assistant", "content": [request], "model": "m"},
            {"role": "toolResult", "toolCallId": call, "content": f"{number} {OUTPUT}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}."}]},
        ]
        parent = f"{number - 1:08x}" if number else None
        ids = {"type": "message", "id": f"{number:08x}", "parentId": parent}
        yield _line({**ids, "timestamp": _time(number), "message": messages[number % 4]})


def copilot_lines() -> Iterator[bytes]:
    """Yield the lines of a session of Copilot CLI."""
    start = {"sessionId": str(SESSION), "copilotVersion": "1.0.64", "context": {"cwd": "/tea"}}
    yield _line({"type": "session.start", "data": start, "id": "start", "timestamp": _time(0)})
    for number in count():
        call = f"call_{number // 4}"
        request = {"toolCallId": call, "name": "view", "arguments": {"at": number}}
        name, data = [
            ("user.message", {"content": f"Question {number}?"}),
            ("assistant.message", {"content": "", "toolRequests": [request]}),
            (
                "tool.execution_complete",
                {"toolCallId": call, "result": {"content": f"{number} {OUTPUT}"}},
            ),
            ("assistant.message", {"content": f"Answer {number}."}),
        ][number % 4]
        id_ = str(UUID(int=number + 1))
        yield _line({"type": name, "data": data, "id": id_, "timestamp": _time(number)})


def gemini_lines() -> Iterator[bytes]:
    """Yield the lines of a chat of Gemini CLI. A call has a second version, with its result."""
    yield _line({"sessionId": str(SESSION), "projectHash": "f" * 64, "startTime": _time(0)})
    for number in count():
        call: dict[str, Any] = {"id": f"call_{number // 4}", "name": "read_file", "args": {}}
        if number % 4 == 2:
            output = {"output": f"{number} {OUTPUT}"}
            response = {"id": call["id"], "name": call["name"], "response": output}
            call |= {"result": [{"functionResponse": response}], "status": "success"}
        messages: list[dict[str, Any]] = [
            {"type": "user", "content": f"Question {number}?"},
            {"type": "gemini", "content": "", "toolCalls": [call]},
            {"type": "gemini", "content": "", "toolCalls": [call]},
            {"type": "gemini", "content": f"Answer {number}.", "model": "m"},
        ]
        id_ = str(UUID(int=number - (number % 4 == 2) + 1))
        yield _line({"id": id_, "timestamp": _time(number), **messages[number % 4]})


RUNTIMES: dict[str, Callable[[], Iterator[bytes]]] = {
    "Claude Code": claude_lines,
    "Codex": codex_lines,
    "Pi": pi_lines,
    "Copilot CLI": copilot_lines,
    "Gemini CLI": gemini_lines,
}
