"""Read the beginning or the end of a session file, without parsing the whole file.

A client writes the prompt before it waits for the answer. A file that ends with a prompt would be
imported as a step without an answer, and again when the answer is there. The last records show this
state (`ending_of`).

The file of a subagent names its parent in one of its first records (`spawned_in`). The parent's
file may not contain the spawn yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from harken.formats.json_records import Record, get_object, get_text
from harken.formats.providers.openai_responses import ITEM_TYPES, is_answer
from harken.formats.runtimes.compressed import read_beginning
from harken.formats.runtimes.registry import CHECKED_BYTES
from harken.formats.tool_calls import parse_json_object

SpawnKey = tuple[str, str, str]
"""Runtime, session of the parent, and agent: the key of a spawn in the catalogue."""
_MAX_START_RECORDS = 20


def read_spawned(path: Path) -> SpawnKey | None:
    """Return the subagent of a file, from its first records.

    Return None if it is not a subagent's file.
    """
    try:
        beginning = read_beginning(path, CHECKED_BYTES)
    except OSError:
        return None
    for line in beginning.split(b"\n")[:_MAX_START_RECORDS]:
        spawned = _parse_spawned(parse_json_object(line.decode("utf-8", "replace")) or {})
        if spawned is not None:
            return spawned
    return None


def _parse_spawned(record: Record) -> SpawnKey | None:
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
"""The end of a file: a model's answer, a message to the model, an incomplete line, or unknown."""
_TAIL_BYTES = 256 * 1024
_MAX_END_RECORDS = 100


def read_ending(path: Path) -> Ending:
    """Return how a file ends, from its last 256 KiB."""
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
    for line in reversed(tail.split(b"\n")[-_MAX_END_RECORDS:]):
        record = parse_json_object(line.decode("utf-8", "replace")) or {}
        ending = _classify_record(record)
        if ending is not None:
            return ending
    return "unknown"


def _classify_record(record: Record) -> Ending | None:
    """Return whether a record is an answer or a question. Return None if it is neither."""
    payload, kind = get_object(record, "payload"), get_text(record, "type")
    if kind == "compacted":
        return "answer"
    if kind == "response_item" and get_text(payload, "type") in ITEM_TYPES:
        is_final = is_answer(payload) and get_text(payload, "type") != "reasoning"
        return "answer" if is_final else "question"
    match get_text(get_object(record, "message"), "role"):
        case "assistant":
            return "answer"
        case "user" | "tool" | "toolResult":
            return "question"
    return None
