"""How a file of lines ends: whether the model has spoken, or is about to.

One idea: a client writes down what goes to the model, then waits for it. A file that ends so would
be read as a step that lacks its answer, and again when that is there. Its last records say it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from harken.formats.calls import as_object
from harken.formats.records import Record, inner, text
from harken.formats.responses import ITEMS, is_answer

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
    payload, kind = inner(record, "payload"), text(record, "type")
    if kind == "compacted":
        return "answer"
    if kind == "response_item" and text(payload, "type") in ITEMS:
        is_whole = is_answer(payload) and text(payload, "type") != "reasoning"
        return "answer" if is_whole else "question"
    match text(inner(record, "message"), "role"):
        case "assistant":
            return "answer"
        case "user" | "tool" | "toolResult":
            return "question"
    return None
