"""Session files of other runtimes, created in memory and read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harken.core.commits import decode_entry, encode_entry
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile

HOSTILE = [
    b"",
    b"\0" * 100,
    b"\xff\xfe{\0}\0",
    b"[]\n{}\nnull\n5\n",
    b'{"type":',
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"type":"message","type":5,"payload":[],"message":{},"data":7,"id":[]}\n' * 3,
    json.dumps({"type": "\ud800", "id": "../../etc", "payload": {"type": {}}}).encode(),
    b'{"sessionId":' + b"9" * 30 + b',"messages":[1,[],{"type":[]}]}',
]


def encode_lines(*records: dict[str, Any] | bytes) -> bytes:
    """Return records as lines. Bytes are written unchanged."""
    return b"".join(
        (record if isinstance(record, bytes) else json.dumps(record).encode()) + b"\n"
        for record in records
    )


def open_source(data: bytes | Path, *, piece: int = 1 << 16) -> SessionFile:
    """Return a source that returns these bytes in chunks."""
    document = data if isinstance(data, bytes) else data.read_bytes()
    name = "test" if isinstance(data, bytes) else str(data)
    return SessionFile(
        name, lambda: (document[index : index + piece] for index in range(0, len(document), piece))
    )


def read_steps(native: RuntimeFormat, data: bytes | Path) -> tuple[list[ImportStep], ReadReport]:
    """Read a file to its end and check that each parent precedes its steps."""
    reading = ReadReport()
    steps: list[ImportStep] = []
    visited: set[str | None] = {None}
    for step in native.steps(open_source(data), reading):
        assert step.parent in visited
        assert step.id not in visited
        visited.add(step.id)
        steps.append(step)
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values()) + len(
        reading.bad
    )
    assert set(reading.tips.values()) <= visited
    assert {step for _, step in reading.branches} <= visited
    return steps, reading


def read_context(steps: Iterable[ImportStep], tip: str | None) -> list[ConversationEntry]:
    """Return the entries at a step, oldest first, as materializing does."""
    by_id = {step.id: step for step in steps}
    collected: list[ConversationEntry] = []
    while tip is not None:
        step = by_id[tip]
        collected[:0] = step.entries
        tip = step.parent if step.type == "delta" else None
    return collected


def texts_of_entries(entries: Sequence[ConversationEntry]) -> list[tuple[str, object]]:
    """Return the roles and contents of entries."""
    return [(entry.message.role, entry.message.content) for entry in entries]


def store_and_load(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    """Return entries as a store returns them."""
    collected = []
    for item in entries:
        entry, objects = encode_entry(item.message, time=item.time, source=item.source)
        collected.append(ConversationEntry(decode_entry(entry, objects), entry.time, entry.source))
    return collected


def reads_without_error(native: RuntimeFormat, data: bytes) -> bool:
    """Whether a file is read without any error except its rejection."""
    try:
        read_steps(native, data)
    except FormatError:
        return False
    return True
