"""The records of an interaction log: logged messages, and the rows of threads.

Written as JSON they have the names of the specification (`positionInContext`); what is absent is
left out. Times are RFC 3339 in UTC with microseconds, however they were given.

Source: spec [S3] "Data Structures"; docs/formats/interactions.md.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from harken.core.clock import normalize_rfc3339


class MessageRole(StrEnum):
    """Who says a logged message; a call of a tool is a message of its own."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL_CALL = "TOOL_CALL"
    TOOL_RESULT = "TOOL_RESULT"


class ThreadEventType(StrEnum):
    """What a row of a thread says."""

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
    """What was done with a memory."""

    READ = "READ"
    WRITE = "WRITE"
    QUERY = "QUERY"


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What all records share: values, by the names of the specification in JSON."""


class MessageMetadata(_Record, frozen=True, kw_only=True):
    """What is known of a message beside its content."""

    model: str | None = None
    """The model that said it, where it was said first."""
    tool_name: str | None = None
    token_count: int | None = None
    """Estimated."""
    thinking_content: str | None = None
    """What the model thought before it said it."""


class LoggedMessage(_Record, frozen=True, kw_only=True):
    """A message, stored once however often and wherever it is said.

    `id` follows from role, content, tool name (of a call) and thinking, and from nothing else: it
    may be left out. Content that is no text (an image, several parts of a result) is JSON.
    """

    id: str = ""
    timestamp: str = ""
    """When it was said first, as far as that is known."""
    role: MessageRole
    content: str
    metadata: MessageMetadata | None = None

    def __post_init__(self) -> None:
        """Write the time as all times are written. Raises ValueError where it is none."""
        _set_time(self, self.timestamp)


class ContextSnapshot(_Record, frozen=True, kw_only=True):
    """How large a context was, and for whom."""

    total_messages: int
    """How many positions it had."""
    estimated_tokens: int | None = None
    model_used: str | None = None


class MemoryOperationRecord(_Record, frozen=True, kw_only=True):
    """One use of a memory."""

    memory_type: MemoryType
    operation: MemoryOpType
    file_path: str | None = None
    query: str | None = None
    result_count: int | None = None
    content_preview: str | None = None


class ThreadEntry(_Record, frozen=True, kw_only=True):
    """A row of a thread: a message at a position of a context, or a use of memory."""

    timestamp: str = ""
    """Empty: now, as the logger's clock has it."""
    message_id: str | None = None
    position_in_context: int | None = None
    """From 0. None for what a memory did."""
    event_type: ThreadEventType
    context_snapshot: ContextSnapshot | None = None
    memory_operation: MemoryOperationRecord | None = None

    def __post_init__(self) -> None:
        """Write the time as all times are written. Raises ValueError where it is none."""
        _set_time(self, self.timestamp)


class ThreadSummary(_Record, frozen=True, kw_only=True):
    """A thread, as a list of threads shows it."""

    thread_id: str
    """`<session>/<agent>`."""
    session_id: str
    agent_id: str
    name: str | None = None
    """What the agent is called."""
    model: str | None = None
    """The last one that was asked."""
    started_at: str = ""
    updated_at: str = ""
    """When the agent last heard, said or asked something."""
    messages: int = 0
    """How many entered its transcript; one that stands at several positions counts once."""
    requests: int = 0
    title: str = ""
    """The beginning of the first thing that it was told."""


def _set_time(record: LoggedMessage | ThreadEntry, time: str) -> None:
    if time:
        msgspec.structs.force_setattr(record, "timestamp", _normal(time))


@lru_cache(maxsize=1024)  # the rows of a request have the same time
def _normal(time: str) -> str:
    try:
        return normalize_rfc3339(time)
    except (ValueError, OverflowError) as error:
        shown = time[:40]
        raise ValueError(f"{shown!r} is no time such as 2026-01-31T12:00:00Z: {error}") from None
