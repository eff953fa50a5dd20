"""Manually logged rows round-trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.errors import NameNotFound
from harken.interactions.records import (
    ContextSnapshot,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
)
from harken.session.verify import verify
from tests.unit.interactions.kit import KIND, ROLE, brief, logger, message_record, row


@pytest.mark.req("S3-04")
def test_logged_rows_round_trip(tmp_path: Path) -> None:
    """The example of the specification and unusual rows."""
    with logger(tmp_path) as log:
        thread = log.start_thread()
        abc, def_, ghi = (
            log.log_message(message_record(ROLE.USER, text)) for text in ("abc", "def", "ghi")
        )
        call = log.log_message(message_record(ROLE.TOOL_CALL, "{}", tool_name="look"))
        result = log.log_message(message_record(ROLE.TOOL_RESULT, "a door", tool_name="look"))
        second: dict[str, Any] = {"timestamp": "2024-01-15T10:30:01.000000Z"}
        size = ContextSnapshot(total_messages=9, estimated_tokens=None, model_used="m")
        memory_record = MemoryOperationRecord(
            memory_type=MemoryType.STM, operation=MemoryOpType.READ
        )
        logged_rows = [
            row(KIND.MESSAGE_ADDED, abc, 0, timestamp="2024-01-15T10:30:00Z"),
            row(KIND.MESSAGE_ADDED, def_, 1, timestamp="2024-01-15T10:30:00Z"),
            row(KIND.CONTEXT_REPLAYED, abc, 0, **second),
            row(KIND.CONTEXT_REPLAYED, def_, 1, **second),
            row(KIND.MESSAGE_ADDED, ghi, 2, **second),
            row(KIND.LLM_REQUEST, ghi, 2, context_snapshot=size, **second),
            row(KIND.LLM_RESPONSE, call, 3, **second),
            row(KIND.MEMORY_READ, None, None, memory_operation=memory_record, **second),
            row(KIND.MESSAGE_ADDED, result, 7, **second),
            row(KIND.LLM_REQUEST, **second),
            row(KIND.LLM_RESPONSE, context_snapshot=size, **second),
            row(KIND.LLM_RESPONSE, abc, 4, **second),
            row(KIND.CONTEXT_COMPACTED, ghi, 0, **second),
            row(KIND.MEMORY_WRITE, abc, 1, **second),
            row(KIND.CONTEXT_REPLAYED, None, 2, **second),
        ]
        for logged_row in logged_rows:
            log.log_thread_entry(thread, logged_row)
        assert log.get_thread(thread) == logged_rows
        assert verify(tmp_path / "sessions" / f"{thread.split('/')[0]}.jsonl") == []


def test_row_without_time_has_the_current_time(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        id_ = log.log_message(message_record(ROLE.USER, "Hi"))
        log.log_thread_entry(thread, row(KIND.MESSAGE_ADDED, id_, 0))
        [thread_row] = log.get_thread(thread)
        assert thread_row.timestamp > "2026-01-01T00:00:00.000000Z"


def test_manual_rows_and_full_contexts_can_be_mixed(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        hi = log.log_message(message_record(ROLE.USER, "Hi"))
        log.log_thread_entry(thread, row(KIND.MESSAGE_ADDED, hi, 0))
        log.log_context_state(thread, ["Hi", "Bye"], KIND.CONTEXT_REPLAYED)
        with log.call(thread, ["Hi", "Bye"]) as call:
            call.answer("Bye, then.")
        assert brief(log, thread) == [
            ("MESSAGE_ADDED", "Hi", 0),
            ("CONTEXT_REPLAYED", "Hi", 0),
            ("MESSAGE_ADDED", "Bye", 1),
            ("LLM_REQUEST", "Bye", 1),
            ("LLM_RESPONSE", "Bye, then.", 2),
        ]


def test_rows_of_a_missing_thread_are_an_error(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        log.start_thread("cafe")
        with pytest.raises(NameNotFound, match="existing threads: cafe"):
            log.get_thread("tea/agent_001")
        with pytest.raises(NameNotFound, match="existing threads: cafe/agent_001"):
            log.get_thread("cafe/agent_007")
        with pytest.raises(NameNotFound, match="logged message"):
            log.log_thread_entry("cafe/agent_001", row(KIND.MESSAGE_ADDED, "0" * 64, 0))
        for thread in ("tea/agent_001", "cafe/agent_007"):
            with pytest.raises(NameNotFound):
                log.log_thread_entry(thread, row(KIND.LLM_REQUEST))
