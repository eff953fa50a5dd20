"""The records of an interaction log: logged messages, and the rows of threads.

Their JSON members have the names of the specification (`positionInContext`); absent values are
omitted. Times are normalized to RFC 3339 in UTC with microseconds.

Source: spec [S3] "Data Structures"; docs/formats/interactions.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from harken.core.clock import normalize_rfc3339
from harken.core.events import Evidence


class MessageRole(StrEnum):
    """Role of a logged message. A tool call is a message of its own."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL_CALL = "TOOL_CALL"
    TOOL_RESULT = "TOOL_RESULT"


class ThreadEventType(StrEnum):
    """Type of a thread row."""

    MESSAGE_ADDED = "MESSAGE_ADDED"
    CONTEXT_REPLAYED = "CONTEXT_REPLAYED"
    CONTEXT_COMPACTED = "CONTEXT_COMPACTED"
    LLM_REQUEST = "LLM_REQUEST"
    LLM_RESPONSE = "LLM_RESPONSE"
    MEMORY_READ = "MEMORY_READ"
    MEMORY_WRITE = "MEMORY_WRITE"
    MEMORY_QUERY = "MEMORY_QUERY"


class MemoryType(StrEnum):
    """Short-term: of this session; long-term: beyond it."""

    STM = "STM"
    LTM = "LTM"


class MemoryOpType(StrEnum):
    """Operation on a memory."""

    READ = "READ"
    WRITE = "WRITE"
    QUERY = "QUERY"


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all records: frozen, with camel-case names in JSON."""


class MessageMetadata(_Record, frozen=True, kw_only=True):
    """Metadata of a message besides its content."""

    model: str | None = None
    """The model that first wrote the message."""
    tool_name: str | None = None
    token_count: int | None = None
    """An estimate."""
    thinking_content: str | None = None
    """Thoughts of the model before the message."""


class LoggedMessage(_Record, frozen=True, kw_only=True):
    """A message, stored once however often it occurs.

    The `id` is derived only from role, content, tool name (of a call) and thinking, and may be
    omitted. Content that is not text (an image, several parts of a result) is JSON.
    """

    id: str = ""
    timestamp: str = ""
    """Time of the first occurrence, as far as it is known."""
    role: MessageRole
    content: str
    metadata: MessageMetadata | None = None

    def __post_init__(self) -> None:
        """Normalize the time. Raises ValueError if it is invalid."""
        _set_time(self, self.timestamp)


class ContextSnapshot(_Record, frozen=True, kw_only=True):
    """Size of a context, and the model that received it."""

    total_messages: int
    """Number of positions in the context."""
    estimated_tokens: int | None = None
    model_used: str | None = None


class MemoryOperationRecord(_Record, frozen=True, kw_only=True):
    """An operation on a memory."""

    memory_type: MemoryType
    operation: MemoryOpType
    file_path: str | None = None
    query: str | None = None
    result_count: int | None = None
    content_preview: str | None = None


class ThreadEntry(_Record, frozen=True, kw_only=True):
    """A row of a thread: a message at a position of a context, or a use of memory."""

    timestamp: str = ""
    """If empty, the current time of the logger's clock."""
    message_id: str | None = None
    position_in_context: int | None = None
    """Starts at 0. None for memory operations."""
    event_type: ThreadEventType
    context_snapshot: ContextSnapshot | None = None
    memory_operation: MemoryOperationRecord | None = None
    evidence: Evidence | None = None
    """For a request that was not recorded as it was made: how it is known."""

    def __post_init__(self) -> None:
        """Normalize the time. Raises ValueError if it is invalid."""
        _set_time(self, self.timestamp)


class ThreadSummary(_Record, frozen=True, kw_only=True):
    """A thread in a list of threads."""

    thread_id: str
    """`<session>/<agent>`."""
    session_id: str
    agent_id: str
    name: str | None = None
    """Name of the agent."""
    model: str | None = None
    """The model of the last request."""
    started_at: str = ""
    updated_at: str = ""
    """Time of the agent's last message or request."""
    messages: int = 0
    """Number of messages in the transcript; one that occurs at several positions counts once."""
    requests: int = 0
    title: str = ""
    """The beginning of the first message to the agent."""
    evidence: Evidence | None = None
    """How its requests are known, if any of them was not recorded as it was made."""


def weakest_evidence(all_evidence: Iterable[Evidence | None]) -> Evidence | None:
    """Return the weakest evidence of some requests. Return None if all were recorded.

    >>> weakest_evidence([None, "rebuilt", "partial"])
    'rebuilt'
    """
    ranked: tuple[Evidence, ...] = ("rebuilt", "partial")
    values = set(all_evidence)
    return next((evidence for evidence in ranked if evidence in values), None)


def _set_time(record: LoggedMessage | ThreadEntry, time: str) -> None:
    if time:
        msgspec.structs.force_setattr(record, "timestamp", _normalize_time(time))


@lru_cache(maxsize=1024)  # the rows of a request have the same time
def _normalize_time(time: str) -> str:
    try:
        return normalize_rfc3339(time)
    except (ValueError, OverflowError) as error:
        shown = time[:40]
        raise ValueError(f"{shown!r} is not a time such as 2026-01-31T12:00:00Z: {error}") from None
