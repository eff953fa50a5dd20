"""Files of subagents: who spawned whose conversation is in a file of its own.

One idea: where it begins is said in the file of its parent, which may not say it yet. Its first
record tells who the parent is.
"""

from __future__ import annotations

from pathlib import Path

from harken.formats.calls import as_object
from harken.formats.compressed import beginning_of
from harken.formats.natives import LOOKED_AT_BYTES
from harken.formats.records import Record, inner, text

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
    meta = inner(record, "payload")
    spawn = inner(inner(inner(meta, "source"), "subagent"), "thread_spawn")
    parent = text(spawn, "parent_thread_id")
    if text(record, "type") == "session_meta" and parent:
        return "codex", text(meta, "forked_from_id") or parent, text(meta, "id")
    agent = text(record, "agentId")
    if record.get("isSidechain") is True and agent:
        return "claude", text(record, "sessionId"), agent
    return None
