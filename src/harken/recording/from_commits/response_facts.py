"""Facts about an answer, from the metadata of the runtime that recorded it.

The metadata is foreign: invalid values are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harken.core.events import Usage
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic_stream import build_usage
from harken.formats.tool_calls import TOKEN_COUNT_LIMIT

UNKNOWN = "unknown"
"""The model of an answer without a recorded model."""
_CACHES = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})
"""A provider with these counts excludes them from `input_tokens`."""


def is_answer(entry: ConversationEntry) -> bool:
    """Whether this is the response of a model call, also of a failed one."""
    return entry.message.role == "assistant" and _source(entry).get("kind") != "client"


def find_response_id(entry: ConversationEntry) -> str | None:
    """Return the provider's id of the complete response in this entry, or None.

    The id repeats if a file was read several times; the last entry with it is complete.
    """
    return _text(entry, "id") if _source(entry).get("kind") == "response" else None


def is_failure(entry: ConversationEntry) -> bool:
    """Whether this records a failed model call."""
    return _source(entry).get("kind") == "error"


def is_summary(entry: ConversationEntry) -> bool:
    """Whether this is the summary of a compaction."""
    source = _source(entry)
    return source.get("summary") is True or source.get("subkind") == "compaction"


def find_model(entry: ConversationEntry) -> str | None:
    """Return the model of an answer."""
    return None if is_failure(entry) else _text(entry, "model")


def find_stop_reason(entry: ConversationEntry) -> str | None:
    """Return the stop reason of an answer."""
    return "error" if is_failure(entry) else _text(entry, "stop_reason")


def parse_usage(entry: ConversationEntry) -> Usage | None:
    """Return the token usage of an answer, with cached tokens counted as input."""
    usage = _source(entry).get("usage")
    if not isinstance(usage, dict) or is_failure(entry):
        return None
    counts = {name: n for name, n in usage.items() if _is_count(n)}
    if not _CACHES.isdisjoint(counts):
        return build_usage(counts)
    fields = {name: counts[name] for name in Usage.__struct_fields__ if name in counts}
    return msgspec.convert(fields, Usage) if fields else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKEN_COUNT_LIMIT


def _source(entry: ConversationEntry) -> dict[str, Any]:
    return entry.source or {}


def _text(entry: ConversationEntry, name: str) -> str | None:
    value = _source(entry).get(name)
    return value if isinstance(value, str) and value else None
