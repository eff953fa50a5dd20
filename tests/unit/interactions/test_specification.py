"""The code of the specification of the interaction log, in Python, and the records' arguments."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from harken.errors import FormatError
from harken.interactions import InteractionLogger, InteractionLoggingConfig
from harken.interactions.records import (
    ContextSnapshot,
    LoggedMessage,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    MessageMetadata,
    MessageRole,
    ThreadEntry,
    ThreadEventType,
)
from tests.unit.interactions.kit import logger

any_value: Any = lambda value: value  # noqa: E731 - a caller without types
NOON = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
TEXT = "2024-01-15T10:30:00.000000Z"


@pytest.mark.req("S3-08", "S3-12", "S3-14", "S3-15")
@pytest.mark.parametrize("is_enum", [True, False], ids=["enums", "strings"])
@pytest.mark.parametrize("time", [NOON, "2024-01-15T10:30:00Z"], ids=["datetime", "text"])
def test_records_are_made_in_the_order_of_the_specification(*, is_enum: bool, time: Any) -> None:
    def name(member: Any) -> Any:
        return member if is_enum else member.value

    message = LoggedMessage(
        "", time, name(MessageRole.ASSISTANT), "Tea.", MessageMetadata("m", None, 1, "Hm.")
    )
    assert (message.role, message.timestamp) == (MessageRole.ASSISTANT, TEXT)
    assert isinstance(message.role, MessageRole)
    snapshot = ContextSnapshot(3, 12, "m")
    request = ThreadEntry(time, "abc", 2, name(ThreadEventType.LLM_REQUEST), snapshot, None)
    assert request.event_type is ThreadEventType.LLM_REQUEST
    assert (request.timestamp, request.position_in_context) == (TEXT, 2)
    operation = MemoryOperationRecord(
        name(MemoryType.LTM), name(MemoryOpType.QUERY), "notes.md", "tea", 2, "Green."
    )
    assert (operation.memory_type, operation.operation) == (MemoryType.LTM, MemoryOpType.QUERY)
    read = ThreadEntry(time, None, None, name(ThreadEventType.MEMORY_READ), None, operation)
    assert read.memory_operation is operation


@pytest.mark.req("S3-24", "S3-25", "S3-26", "S3-27")
def test_configuration_has_the_members_and_defaults_of_the_specification() -> None:
    config = InteractionLoggingConfig()
    assert config == InteractionLoggingConfig(
        True, Path("logs/interactions"), None, True, True, False
    )
    assert [field.name for field in dataclasses.fields(config)][:6] == [
        *("enabled", "log_directory", "retention_days", "log_context_on_every_request"),
        *("include_token_estimates", "shard_messages"),
    ]


@pytest.mark.req("S3-01", "S3-02", "S3-03", "S3-04", "S3-05", "S3-06", "S3-07")
@pytest.mark.parametrize("is_enum", [True, False], ids=["enums", "strings"])
def test_operations_of_the_specification_run_as_it_writes_them(
    tmp_path: Path, *, is_enum: bool
) -> None:
    def name(member: Any) -> Any:
        return member if is_enum else member.value

    config = InteractionLoggingConfig(True, tmp_path / "logs", None, True, True, False)
    with InteractionLogger(config) as log:
        message = LoggedMessage("", any_value(NOON), name(MessageRole.USER), "Hi", None)
        id_ = log.log_message(message)
        first = log.get_message(id_)
        assert first is not None
        assert (first.timestamp, first.role) == (TEXT, MessageRole.USER)
        thread = log.start_thread("session-2024-01-15T10-30-00")
        added = name(ThreadEventType.MESSAGE_ADDED)
        log.log_thread_entry(thread, ThreadEntry(any_value(NOON), id_, 0, added, None, None))
        context = [{"role": "user", "content": "Hi"}]
        log.log_context_state(thread, context, name(ThreadEventType.LLM_REQUEST))
        log.log_context_state(
            thread,
            [*context, {"role": "assistant", "content": "Ho"}],
            name(ThreadEventType.LLM_RESPONSE),
        )
        memory, read = name(MemoryType.LTM), name(MemoryOpType.READ)
        log.log_memory_operation(thread, memory, read, "notes.md", None, 1, "Green.")
        kinds = [row.event_type.value for row in log.get_thread(thread)]
        assert kinds == [
            *("MESSAGE_ADDED", "CONTEXT_REPLAYED", "LLM_REQUEST", "LLM_RESPONSE"),
            "MEMORY_READ",
        ]
        assert [summary.thread_id for summary in log.list_threads(100)] == [thread]
        assert [found.content for found in log.search_messages("Hi")] == ["Hi"]


@pytest.mark.req("S3-13")
def test_every_event_type_can_be_logged_and_is_returned(tmp_path: Path) -> None:
    operation = MemoryOperationRecord(any_value("STM"), any_value("WRITE"))
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        id_ = log.log_message(LoggedMessage(role=any_value("USER"), content="Hi"))
        rows = [
            ThreadEntry(TEXT, None, None, kind, None, operation)
            if kind.startswith("MEMORY_")
            else ThreadEntry(TEXT, id_, 0, kind, ContextSnapshot(1), None)
            for kind in ThreadEventType
        ]
        assert [row.event_type.value for row in rows] == [
            *("MESSAGE_ADDED", "CONTEXT_REPLAYED", "CONTEXT_COMPACTED", "LLM_REQUEST"),
            *("LLM_RESPONSE", "MEMORY_READ", "MEMORY_WRITE", "MEMORY_QUERY"),
        ]
        for row in rows:
            log.log_thread_entry(thread, row)
        assert log.get_thread(thread) == rows


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("role", lambda: LoggedMessage("", TEXT, any_value("user"), "Hi"), ValueError, "USER"),
    ("no role", lambda: LoggedMessage(content="Hi"), TypeError, "role is required"),
    ("no content", lambda: LoggedMessage(role=MessageRole.USER), TypeError, "content is required"),
    ("content", lambda: LoggedMessage("", TEXT, MessageRole.USER, any_value(7)), TypeError, "str"),
    ("time", lambda: LoggedMessage("", any_value(7), MessageRole.USER, ""), TypeError, "datetime"),
    ("day", lambda: LoggedMessage("", "today", MessageRole.USER, ""), ValueError, "not a time"),
    ("type", lambda: ThreadEntry(event_type=any_value("LLM")), ValueError, "LLM_REQUEST"),
    ("no type", lambda: ThreadEntry(TEXT, "abc", 0), TypeError, "event_type is required"),
    (
        "position",
        lambda: ThreadEntry(TEXT, "abc", any_value("0"), ThreadEventType.LLM_REQUEST),
        TypeError,
        "position_in_context",
    ),
    (
        "memory",
        lambda: MemoryOperationRecord(any_value("RAM"), MemoryOpType.READ),
        ValueError,
        "STM",
    ),
    ("count", lambda: ContextSnapshot(any_value("3")), TypeError, "total_messages"),
    ("tokens", lambda: MessageMetadata(None, None, any_value("3")), TypeError, "token_count"),
]


@pytest.mark.parametrize(
    ("make", "kind", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_invalid_value_is_refused_where_it_is_given(
    make: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_invalid_event_type_is_refused_by_the_call(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        with pytest.raises(ValueError, match="did you mean 'LLM_REQUEST'"):
            log.log_context_state(thread, [], any_value("LLM_REQUESTS"))
        with pytest.raises(ValueError, match="existing values: STM, LTM"):
            log.log_memory_operation(thread, any_value("RAM"), any_value("READ"))
        assert log.get_thread(thread) == []


def test_time_is_converted_from_any_zone() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=2)))
    local = NOON.astimezone().replace(tzinfo=None)
    for time in (east, local):
        assert ThreadEntry(any_value(time), event_type=any_value("LLM_REQUEST")).timestamp == TEXT


@pytest.mark.req("S3-10")
def test_id_of_the_specification_is_understood_and_another_refused(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        plain = log.log_message(LoggedMessage(role=MessageRole.USER, content="Hi"))
        spec_id = sha256(b"Hi").hexdigest()
        assert log.log_message(LoggedMessage(spec_id, TEXT, MessageRole.USER, "Hi")) == plain
        with pytest.raises(FormatError, match="abc123"):
            log.log_message(LoggedMessage("abc123", TEXT, MessageRole.USER, "Hi"))
