"""Files of other runtimes for tests: made in memory, and read."""

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


def lines(*records: dict[str, Any] | bytes) -> bytes:
    """Return records as lines; bytes stand as they are."""
    return b"".join(
        (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in records
    )


def source_of(data: bytes | Path, *, piece: int = 1 << 16) -> SessionFile:
    """Return a source of these bytes, which come in pieces."""
    whole = data if isinstance(data, bytes) else data.read_bytes()
    name = "test" if isinstance(data, bytes) else str(data)
    return SessionFile(name, lambda: (whole[at : at + piece] for at in range(0, len(whole), piece)))


def read(native: RuntimeFormat, data: bytes | Path) -> tuple[list[ImportStep], ReadReport]:
    """Read a file to its end, and check what holds of all: a step's parent came before it."""
    reading = ReadReport()
    steps: list[ImportStep] = []
    known: set[str | None] = {None}
    for step in native.steps(source_of(data), reading):
        assert step.parent in known
        assert step.id not in known
        known.add(step.id)
        steps.append(step)
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values()) + len(
        reading.bad
    )
    assert set(reading.tips.values()) <= known
    assert {step for _, step in reading.branches} <= known
    return steps, reading


def context(steps: Iterable[ImportStep], tip: str | None) -> list[ConversationEntry]:
    """Return what is read at a step, oldest first, as materializing it does."""
    by_id = {step.id: step for step in steps}
    found: list[ConversationEntry] = []
    while tip is not None:
        step = by_id[tip]
        found[:0] = step.entries
        tip = step.parent if step.type == "delta" else None
    return found


def said(entries: Sequence[ConversationEntry]) -> list[tuple[str, object]]:
    """Return the roles and contents of entries."""
    return [(entry.message.role, entry.message.content) for entry in entries]


def stored(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    """Return entries as a store gives them back."""
    found = []
    for one in entries:
        entry, objects = encode_entry(one.message, time=one.time, source=one.source)
        found.append(ConversationEntry(decode_entry(entry, objects), entry.time, entry.source))
    return found


def survives(native: RuntimeFormat, data: bytes) -> bool:
    """Whether a file is read, without any error but that it is none."""
    try:
        read(native, data)
    except FormatError:
        return False
    return True
