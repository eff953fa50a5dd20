"""Transcripts of Claude Code, written record by record, and what is read of them."""

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


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thought(words: str, signature: str = "c2ln") -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def use(id: str, name: str = "Bash", **given: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, content: Any, **more: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


@dataclass
class Transcript:
    """Records, each the child of the one above unless it says otherwise."""

    session: str = "5e551011-0000-4000-8000-000000000001"
    records: list[dict[str, Any]] = field(default_factory=list)
    shared: dict[str, Any] = field(default_factory=dict)
    """What every record says."""
    _last: str | None = None

    def add(self, kind: str, *, parent: str | None = ABOVE, **more: Any) -> str:
        """Add a record; return its uuid."""
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
        self.records.append({**record, **self.shared, **more})
        self._last = uuid
        return uuid

    def user(self, content: Any, **more: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **more)

    def result(self, id: str, content: Any, *, parent: str | None = ABOVE, **more: Any) -> str:
        return self.user([result(id, content, **more)], parent=parent)

    def answer(self, *blocks: Block, id: str = "", model: str = MODEL, **more: Any) -> str:
        """Add one record of a response; those with one `id` are one response."""
        body = {
            "id": id or f"msg_{len(self.records) + 1}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [*blocks],
            "stop_reason": None,
            "usage": {"input_tokens": 10, "output_tokens": len(self.records)},
        }
        return self.add("assistant", message=body, requestId=f"req_{body['id']}", **more)

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
        return lines(self.records)


def lines(records: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@dataclass(frozen=True)
class Read:
    """What was read of a file."""

    steps: list[ImportStep]
    reading: ReadReport

    @property
    def by_id(self) -> dict[str, ImportStep]:
        return {step.id: step for step in self.steps}

    def path(self, agent: str = "") -> list[ImportStep]:
        """Return the steps that lead to where an agent is, oldest first."""
        found = []
        at = self.reading.tips.get(agent)
        while at is not None:
            found.append(self.by_id[at])
            at = self.by_id[at].parent
        return found[::-1]

    def entries(self, agent: str = "") -> list[ConversationEntry]:
        return [entry for step in self.path(agent) for entry in step.entries]

    def said(self, agent: str = "") -> list[str]:
        """Return what was said, as `role: text`, with the ids of calls."""
        return [spoken(entry) for entry in self.entries(agent)]


def spoken(entry: ConversationEntry) -> str:
    message = entry.message
    calls = "".join(f" [{call.id}]" for call in message.tool_calls or ())
    of = f" of {message.tool_call_id}" if message.tool_call_id else ""
    return f"{message.role}{of}: {text_of(message.content)}{calls}"


def read(data: bytes | Transcript) -> Read:
    """Read a transcript; every line is accounted for, and parents come first."""
    given = data.data if isinstance(data, Transcript) else data
    reading = ReadReport()
    steps = list(claude_code.iter_steps(SessionFile("a transcript", lambda: [given]), reading))
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values()) + len(
        reading.bad
    )
    seen: set[str] = set()
    for step in steps:
        assert step.parent is None or step.parent in seen
        assert step.id not in seen
        seen.add(step.id)
    assert {*reading.tips.values(), *(step for _, step in reading.branches)} <= seen
    return Read(steps, reading)
