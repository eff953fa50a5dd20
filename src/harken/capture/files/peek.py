"""How a file of lines ends: whether the model has spoken, or is about to.

One idea: a client writes down what goes to the model, then waits for it. A file that ends so would
be read as a step that lacks its answer, and again when that is there. Its last records say it.

Files of subagents: who spawned whose conversation is in a file of its own.

One idea: where it begins is said in the file of its parent, which may not say it yet. Its first
record tells who the parent is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from harken.formats.json_records import Record, get_object, get_text
from harken.formats.providers.openai_responses import ITEMS, is_answer
from harken.formats.runtimes.compressed import beginning_of
from harken.formats.runtimes.registry import LOOKED_AT_BYTES
from harken.formats.tool_calls import as_object

Spawned = tuple[str, str, str]
"""Runtime, session of the parent, and agent: as the catalogue knows who was spawned."""


_MAX_START_RECORDS = 20


def spawned_in(path: Path) -> Spawned | None:
    """Return who is spawned in a file, as far as its beginning says it; None: nobody."""
    try:
        beginning = beginning_of(path, LOOKED_AT_BYTES)
    except OSError:
        return None
    for line in beginning.split(b"\n")[:_MAX_START_RECORDS]:
        found = _spawned(as_object(line.decode("utf-8", "replace")) or {})
        if found is not None:
            return found
    return None


def _spawned(record: Record) -> Spawned | None:
    meta = get_object(record, "payload")
    spawn = get_object(get_object(get_object(meta, "source"), "subagent"), "thread_spawn")
    parent = get_text(spawn, "parent_thread_id")
    if get_text(record, "type") == "session_meta" and parent:
        return "codex", get_text(meta, "forked_from_id") or parent, get_text(meta, "id")
    agent = get_text(record, "agentId")
    if record.get("isSidechain") is True and agent:
        return "claude", get_text(record, "sessionId"), agent
    return None


Ending: TypeAlias = Literal["answer", "question", "torn", "unknown"]
"""What a model said; what it was told; a line without its end; anything else."""
_TAIL_BYTES = 256 * 1024
_MOST_RECORDS = 100


def ending_of(path: Path) -> Ending:
    """Return how a file ends, as far as its last quarter of a megabyte says it."""
    if path.suffix != ".jsonl":
        return "unknown"
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return "unknown"
    if tail and not tail.endswith(b"\n"):
        return "torn"
    for line in reversed(tail.split(b"\n")[-_MOST_RECORDS:]):
        record = as_object(line.decode("utf-8", "replace")) or {}
        said = _said(record)
        if said is not None:
            return said
    return "unknown"


def _said(record: Record) -> Ending | None:
    """Return who speaks in a record; None: nobody does."""
    payload, kind = get_object(record, "payload"), get_text(record, "type")
    if kind == "compacted":
        return "answer"
    if kind == "response_item" and get_text(payload, "type") in ITEMS:
        is_whole = is_answer(payload) and get_text(payload, "type") != "reasoning"
        return "answer" if is_whole else "question"
    match get_text(get_object(record, "message"), "role"):
        case "assistant":
            return "answer"
        case "user" | "tool" | "toolResult":
            return "question"
    return None
