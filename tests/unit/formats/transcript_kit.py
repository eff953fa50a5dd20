"""Claude Code transcripts, built record by record, and the result of reading them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ImportStep, ReadReport, SessionFile
from harken.formats.runtimes.claude_code import reader as claude_code

Block = dict[str, Any]
MODEL = "claude-opus-4-5-20251101"
ABOVE = "(the record above)"


def text_block(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking_block(words: str, signature: str = "c2ln") -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def tool_use_block(id: str, name: str = "Bash", **arguments: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def tool_result_block(id: str, content: Any, **options: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **options}


@dataclass
class Transcript:
    """Records, each a child of the previous one unless it names another parent."""

    session: str = "5e551011-0000-4000-8000-000000000001"
    records: list[dict[str, Any]] = field(default_factory=list)
    shared: dict[str, Any] = field(default_factory=dict)
    """The common members of all records."""
    _last: str | None = None

    def add(self, kind: str, *, parent: str | None = ABOVE, **options: Any) -> str:
        """Add a record. Return its uuid."""
        number = len(self.records) + 1
        uuid = f"{self.session[:8]}-0000-4000-8000-{number:012d}"
        record = {
            "parentUuid": self._last if parent is ABOVE else parent,
            "isSidechain": False,
            "cwd": "/home/jill/cafe",
            "sessionId": self.session,
            "version": "2.1.42",
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-01-31T12:{number // 60:02d}:{number % 60:02d}.000Z",
        }
        self.records.append({**record, **self.shared, **options})
        self._last = uuid
        return uuid

    def user(self, content: Any, **options: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **options)

    def result(self, id: str, content: Any, *, parent: str | None = ABOVE, **options: Any) -> str:
        return self.user([tool_result_block(id, content, **options)], parent=parent)

    def answer(self, *blocks: Block, id: str = "", model: str = MODEL, **options: Any) -> str:
        """Add one record of a response. Records with the same `id` are one response."""
        body = {
            "id": id or f"msg_{len(self.records) + 1}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [*blocks],
            "stop_reason": None,
            "usage": {"input_tokens": 10, "output_tokens": len(self.records)},
        }
        return self.add("assistant", message=body, requestId=f"req_{body['id']}", **options)

    def boundary(self, logical: str, *, kept: Sequence[str] = ()) -> str:
        metadata = {"trigger": "auto", "preservedMessages": {"uuids": [*kept]}}
        return self.add(
            "system",
            parent=None,
            logicalParentUuid=logical,
            subtype="compact_boundary",
            content="Conversation compacted",
            compactMetadata=metadata,
        )

    def summary(self, words: str = "They spoke of tea.") -> str:
        begins = "This session is being continued from a previous conversation"
        return self.user(f"{begins}. {words}", isCompactSummary=True)

    @property
    def data(self) -> bytes:
        return encode_lines(self.records)


def encode_lines(records: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@dataclass(frozen=True)
class ReadTranscript:
    """The steps and entries read from a file."""

    steps: list[ImportStep]
    reading: ReadReport

    @property
    def by_id(self) -> dict[str, ImportStep]:
        return {step.id: step for step in self.steps}

    def path(self, agent: str = "") -> list[ImportStep]:
        """Return the steps that lead to the position of an agent, oldest first."""
        collected = []
        record_id = self.reading.tips.get(agent)
        while record_id is not None:
            collected.append(self.by_id[record_id])
            record_id = self.by_id[record_id].parent
        return collected[::-1]

    def entries(self, agent: str = "") -> list[ConversationEntry]:
        return [entry for step in self.path(agent) for entry in step.entries]

    def texts(self, agent: str = "") -> list[str]:
        """Return the messages as `role: text`, with the ids of calls."""
        return [format_entry(entry) for entry in self.entries(agent)]


def format_entry(entry: ConversationEntry) -> str:
    message = entry.message
    calls = "".join(f" [{call.id}]" for call in message.tool_calls or ())
    of = f" of {message.tool_call_id}" if message.tool_call_id else ""
    return f"{message.role}{of}: {text_of(message.content)}{calls}"


def read_transcript(data: bytes | Transcript) -> ReadTranscript:
    """Read a transcript. Each line is counted, and parents precede children."""
    source = data.data if isinstance(data, Transcript) else data
    reading = ReadReport()
    steps = list(claude_code.iter_steps(SessionFile("a transcript", lambda: [source]), reading))
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values()) + len(
        reading.bad
    )
    visited: set[str] = set()
    for step in steps:
        assert step.parent is None or step.parent in visited
        assert step.id not in visited
        visited.add(step.id)
    assert {*reading.tips.values(), *(step for _, step in reading.branches)} <= visited
    return ReadTranscript(steps, reading)
