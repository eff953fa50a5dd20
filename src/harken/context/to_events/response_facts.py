"""Facts about an answer that its entry has from the runtime that it came from.

One idea: whatever stands there is foreign: what is not as it should be is not known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harken.core.events import Usage
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic_stream import usage_of
from harken.formats.tool_calls import MAX_COUNT

UNKNOWN = "unknown"
"""The model of an answer of which nobody says who gave it."""
_CACHES = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})
"""Who counts these counts in `input_tokens` only what is in neither."""


def is_answer(entry: ConversationEntry) -> bool:
    """Whether a model was asked for this, also where it failed."""
    return entry.message.role == "assistant" and _source(entry).get("kind") != "client"


def response_of(entry: ConversationEntry) -> str | None:
    """Return the id of the response that this is all of, from its provider; None: nobody says it.

    It is the same where a file was read at several moments, the last of which has all of it.
    """
    return _text(entry, "id") if _source(entry).get("kind") == "response" else None


def is_failure(entry: ConversationEntry) -> bool:
    """Whether this tells that a model call failed."""
    return _source(entry).get("kind") == "error"


def is_summary(entry: ConversationEntry) -> bool:
    """Whether this stands for what was compacted."""
    source = _source(entry)
    return source.get("summary") is True or source.get("subkind") == "compaction"


def model_of(entry: ConversationEntry) -> str | None:
    """Return which model answered."""
    return None if is_failure(entry) else _text(entry, "model")


def stop_reason_of(entry: ConversationEntry) -> str | None:
    """Return why a model stopped."""
    return "error" if is_failure(entry) else _text(entry, "stop_reason")


def usage_in(entry: ConversationEntry) -> Usage | None:
    """Return what an answer used, the cached part counted in the input."""
    given = _source(entry).get("usage")
    if not isinstance(given, dict) or is_failure(entry):
        return None
    counts = {name: n for name, n in given.items() if _is_count(n)}
    if not _CACHES.isdisjoint(counts):
        return usage_of(counts)
    known = {name: counts[name] for name in Usage.__struct_fields__ if name in counts}
    return msgspec.convert(known, Usage) if known else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT


def _source(entry: ConversationEntry) -> dict[str, Any]:
    return entry.source or {}


def _text(entry: ConversationEntry, name: str) -> str | None:
    value = _source(entry).get(name)
    return value if isinstance(value, str) and value else None
