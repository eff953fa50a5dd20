"""The records of an interaction log: logged messages, and the rows of threads.

Their JSON members have the names of the specification (`positionInContext`); absent values are
omitted. Times are normalized to RFC 3339 in UTC with microseconds.

Source: spec [S3] "Data Structures"; docs/formats/interactions.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from harken.core.arguments import check_fields, format_existing
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


_REQUIRED: Any = msgspec.UNSET
"""The default of a field without which a record cannot be made, after fields that are optional."""
_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_NUMBER = (int, type(None))
Member = TypeVar("Member", bound=StrEnum)


class _Record(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Base of all records: frozen, with camel-case names in JSON.

    The fields have the order of the specification, and may be given by position.
    """


class MessageMetadata(_Record, frozen=True):
    """Metadata of a message besides its content."""

    model: str | None = None
    """The model that first wrote the message."""
    tool_name: str | None = None
    token_count: int | None = None
    """An estimate."""
    thinking_content: str | None = None
    """Thoughts of the model before the message."""
    extras: tuple[str | None, ...] | None = None
    """The `extra` of each part of the message, if a part has one."""

    def __post_init__(self) -> None:
        """Raise TypeError for a value of a wrong type."""
        check_fields(self)


class LoggedMessage(_Record, frozen=True):
    """A message, stored once however often it occurs.

    The `id` is derived only from role, content, tool name (of a call) and thinking, and may be
    omitted. Content that is not text (an image, several parts of a result) is JSON. The role may be
    given as a string, and the time as a `datetime`.
    """

    id: str = ""
    timestamp: str = ""
    """Time of the first occurrence, as far as it is known."""
    role: MessageRole = _REQUIRED
    content: str = _REQUIRED
    metadata: MessageMetadata | None = None

    def __post_init__(self) -> None:
        """Normalize time and role. Raises ValueError, TypeError for an invalid value."""
        _require(self, "role", "content")
        _set_time(self, self.timestamp)
        _set_enum(self, "role", MessageRole)
        if not _is_text(self.id, self.content) or self.metadata is not None:
            check_fields(self)


class ContextSnapshot(_Record, frozen=True):
    """Size of a context, and the model that received it."""

    total_messages: int
    """Number of positions in the context."""
    estimated_tokens: int | None = None
    model_used: str | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for a value of a wrong type."""
        if type(self.total_messages) is not int or self.model_used.__class__ not in _OPTIONAL_TEXT:
            check_fields(self)


class MemoryOperationRecord(_Record, frozen=True):
    """An operation on a memory."""

    memory_type: MemoryType
    operation: MemoryOpType
    file_path: str | None = None
    query: str | None = None
    result_count: int | None = None
    content_preview: str | None = None

    def __post_init__(self) -> None:
        """Normalize the types. Raises ValueError, TypeError for an invalid value."""
        _set_enum(self, "memory_type", MemoryType)
        _set_enum(self, "operation", MemoryOpType)
        check_fields(self)


class ThreadEntry(_Record, frozen=True):
    """A row of a thread: a message at a position of a context, or a use of memory.

    The type may be given as a string, and the time as a `datetime`.
    """

    timestamp: str = ""
    """If empty, the current time of the logger's clock."""
    message_id: str | None = None
    position_in_context: int | None = None
    """Starts at 0. None for memory operations."""
    event_type: ThreadEventType = _REQUIRED
    context_snapshot: ContextSnapshot | None = None
    memory_operation: MemoryOperationRecord | None = None
    evidence: Evidence | None = None
    """For a request that was not recorded as it was made: how it is known."""

    def __post_init__(self) -> None:
        """Normalize time and type. Raises ValueError, TypeError for an invalid value."""
        _require(self, "event_type")
        _set_time(self, self.timestamp)
        _set_enum(self, "event_type", ThreadEventType)
        if (
            self.message_id.__class__ not in _OPTIONAL_TEXT
            or self.position_in_context.__class__ not in _OPTIONAL_NUMBER
            or self.context_snapshot is not None
            or self.memory_operation is not None
            or self.evidence is not None
        ):
            check_fields(self)


class ThreadSummary(_Record, frozen=True):
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


def parse_member(name: str, value: object, kind: type[Member]) -> Member:
    """Return the member of an enumeration that a caller named by a string or by itself.

    Raises ValueError with the possible names.

    >>> parse_member("role", "USER", MessageRole)
    <MessageRole.USER: 'USER'>
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in kind.__members__:
        return kind[value]
    names = list(kind.__members__)
    raise ValueError(f"{name}: {value!r:.60}{format_existing(names, 'values', typed=value)}")


def _require(record: object, *names: str) -> None:
    for name in names:
        if getattr(record, name) is _REQUIRED:
            raise TypeError(f"{type(record).__name__}: {name} is required")


def _set_enum(record: msgspec.Struct, name: str, kind: type[Member]) -> None:
    value = getattr(record, name)
    if value.__class__ is not kind:
        label = f"{type(record).__name__}.{name}"
        msgspec.structs.force_setattr(record, name, parse_member(label, value, kind))


def _is_text(*values: object) -> bool:
    return all(value.__class__ is str for value in values)


def _set_time(record: LoggedMessage | ThreadEntry, time: object) -> None:
    if isinstance(time, datetime):  # Without a zone it is local time, as everywhere in Python.
        time = time.astimezone(UTC).isoformat()
    elif not isinstance(time, str):
        label = f"{type(record).__name__}.timestamp"
        raise TypeError(f"{label} must be a str or a datetime, not {time!r:.60}")
    if time:
        msgspec.structs.force_setattr(record, "timestamp", _normalize_time(time))


@lru_cache(maxsize=1024)  # the rows of a request have the same time
def _normalize_time(time: str) -> str:
    try:
        return normalize_rfc3339(time)
    except (ValueError, OverflowError) as error:
        excerpt = time[:40]
        raise ValueError(
            f"{excerpt!r} is not a time such as 2026-01-31T12:00:00Z: {error}"
        ) from None
