"""Conversations with every kind of content, as the session files of their runtimes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harken.formats.runtimes.base import RuntimeFormat
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.gemini_cli import reader as gemini_cli
from tests.unit.formats.context_kit import PNG

Record = dict[str, Any]
TIME = "2026-01-31T12:00:00.000Z"
PASSTHROUGH = "internal_chat_message_metadata_passthrough"


@dataclass(frozen=True)
class Sample:
    """A conversation as a session file, and what of it is no content."""

    native: RuntimeFormat
    head: Sequence[Record]
    """Records before the conversation."""
    records: Sequence[Record]
    content: Callable[[Record], list[tuple[str | int, ...]]]
    """The paths of the content in a record."""
    bookkeeping: Sequence[str]
    """Paths below the content that stand outside of the identity; `*` is any position."""
    names: Sequence[str] = ()
    """Paths of ids that pair a call with a repetition of it, which a wrong id makes another call."""


def _text(text: str, kind: str = "input_text", **members: Any) -> Record:
    return {"type": kind, "text": text, **members}


_IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "high"}
_TURN = {PASSTHROUGH: {"turn_id": "t1"}}
CODEX = Sample(
    native=codex.NATIVE,
    head=[
        {
            "timestamp": TIME,
            "type": "session_meta",
            "payload": {"id": "0199-a", "cwd": "/w", "timestamp": TIME},
        }
    ],
    records=[
        {"timestamp": TIME, "type": "response_item", "payload": payload}
        for payload in [
            {"type": "message", "role": "developer", "content": [_text("Be brief.")]},
            {"type": "message", "role": "user", "content": [_text("Look."), _IMAGE], **_TURN},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [_text("Hm.", "summary_text"), _text("So.", "summary_text")],
                "content": [_text("Deep.", "reasoning_text")],
                "encrypted_content": "gAAA",
                "metadata": {"turn_id": "t1"},
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "phase": "commentary",
                "content": [
                    _text("I look.", "output_text", annotations=[{"url": "u", "end": 1}]),
                    _text("Now.", "output_text", annotations=[], logprobs=[]),
                ],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "look",
                "namespace": "mcp__eyes",
                "arguments": '{"at":1}',
            },
            {
                "type": "custom_tool_call",
                "call_id": "c2",
                "name": "patch",
                "input": "*** Begin",
                "status": "completed",
            },
            {
                "type": "local_shell_call",
                "call_id": "c3",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls", "-l"], "timeout_ms": 5},
            },
            {
                "type": "tool_search_call",
                "call_id": "c4",
                "execution": "client",
                "arguments": {"query": "q", "limit": 3},
            },
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [_text("A door."), _IMAGE],
            },
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done."},
            {"type": "function_call_output", "call_id": "c3", "output": "a\nb", "name": "sh"},
            {
                "type": "tool_search_output",
                "call_id": "c4",
                "status": "completed",
                "execution": "client",
                "tools": [{"name": "look", "id": "x", "parameters": {"type": "object"}}],
            },
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "doors"},
                **_TURN,
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [_text("A door.", "output_text")],
            },
            {"role": "user", "content": [_text("Thanks.")]},
        ]
    ],
    content=lambda record: [("payload",)],
    bookkeeping=[
        "id",
        "call_id",
        "status",
        "phase",
        "encrypted_content",
        "metadata.turn_id",
        f"{PASSTHROUGH}.*",
    ],
)


def _gemini(id_: str, kind: str, content: Any, **members: Any) -> Record:
    return {"id": id_, "timestamp": TIME, "type": kind, "content": content, **members}


_GEMINI_IMAGE = {"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a.png"}}
_THOUGHT = {"subject": "Plan", "description": "I look.", "timestamp": TIME}


def _gemini_call(id_: str, result: Any, **members: Any) -> Record:
    call = {
        "id": id_,
        "name": "look",
        "args": {"at": [1, None], "deep": {"a": 1}},
        "status": "success",
    }
    display = {"displayName": "Look", "description": "Looks.", "resultDisplay": "seen"}
    return {**call, "timestamp": TIME, "result": result, **display, **members}


def _response(id_: str, **response: Any) -> Record:
    return {"functionResponse": {"id": id_, "name": "look", "response": response}}


GEMINI = Sample(
    native=gemini_cli.NATIVE,
    head=[{"sessionId": "0199-a", "projectHash": "f" * 64, "startTime": TIME, "kind": "main"}],
    records=[
        _gemini("a", "user", "Look.", displayContent="Look"),
        _gemini(
            "b",
            "gemini",
            "I look.",
            thoughts=[_THOUGHT, {"subject": "", "description": "Hm.", "timestamp": TIME}],
            toolCalls=[
                _gemini_call("c1", [_response("c1", output="seen", code=1), _GEMINI_IMAGE]),
                _gemini_call("c2", [_response("c2", doors=[1, {"open": None}])]),
                _gemini_call("c3", [_response("c3", output="odd")], status="error"),
                _gemini_call("c4", "plain", agentId="x", renderOutputAsMarkdown=True),
            ],
            tokens={"input": 10, "output": 2},
            model="gemini-2.5-pro",
        ),
        _gemini("d", "user", [{"text": "And?"}, _GEMINI_IMAGE, {"fileData": {"fileUri": "u"}}]),
        _gemini(
            "e",
            "gemini",
            [
                {"text": "**Plan** I look.", "thought": True, "thoughtSignature": "c2ln"},
                {"text": "Again:", "thoughtSignature": "c2ln"},
                {
                    "functionCall": {"id": "c5", "name": "look", "args": {"at": 1}},
                    "thoughtSignature": "c2ln",
                },
                {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
            ],
            toolCalls=[
                {
                    "id": "c5",
                    "name": "look",
                    "args": {"at": 1},
                    "result": [_response("c5", error="no")],
                }
            ],
        ),
        _gemini("f", "gemini", "Nothing."),
    ],
    content=lambda record: [()],
    bookkeeping=[
        "id",
        "timestamp",
        "displayContent",
        "model",
        "tokens.*",
        "thoughts.*.timestamp",
        *(
            f"toolCalls.*.{name}"
            for name in (
                "id",
                "status",
                "timestamp",
                "agentId",
                "displayName",
                "description",
                "resultDisplay",
                "renderOutputAsMarkdown",
                "result.*.functionResponse.id",
                "result.*.functionResponse.name",
            )
        ),
        "content.*.thoughtSignature",
    ],
    names=["content.*.functionCall.id"],
)


def _claude(uuid: str, parent: str | None, role: str, content: Any, **body: Any) -> Record:
    names = {f"{n}0000000-0000-4000-8000-00000000000{n}": n for n in "12345678"}
    by_number = {number: name for name, number in names.items()}
    return {
        "type": role,
        "uuid": by_number[uuid],
        "parentUuid": by_number[parent] if parent else None,
        "sessionId": "5e551011-0000-4000-8000-000000000001",
        "timestamp": TIME,
        "message": {"role": role, "content": content, **body},
    }


_ANSWER = {"id": "msg_1", "model": "claude-opus-5-5", "type": "message", "stop_reason": None}
_CLAUDE_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
CLAUDE = Sample(
    native=claude_code.NATIVE,
    head=[],
    records=[
        _claude("1", None, "user", [{"type": "text", "text": "Look."}, _CLAUDE_IMAGE]),
        _claude(
            "2",
            "1",
            "assistant",
            [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}],
            **_ANSWER,
        ),
        _claude(
            "3",
            "2",
            "assistant",
            [{"type": "text", "text": "I look.", "citations": [{"url": "u", "n": None}]}],
            **_ANSWER,
        ),
        _claude(
            "4",
            "3",
            "assistant",
            [
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Look",
                    "input": {"at": [1, None]},
                    "caller": {"type": "direct"},
                }
            ],
            **_ANSWER,
        ),
        _claude(
            "5",
            "4",
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "A door."}, _CLAUDE_IMAGE],
                }
            ],
        ),
        _claude(
            "6",
            "5",
            "assistant",
            [{"type": "text", "text": "A door."}],
            **{**_ANSWER, "id": "msg_2"},
        ),
    ],
    content=lambda record: [("message", "content")],
    bookkeeping=["*.id", "*.signature", "*.tool_use_id", "*.caller.*"],
)
SAMPLES = {"codex": CODEX, "gemini": GEMINI, "claude": CLAUDE}
