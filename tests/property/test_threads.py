"""Threads: whatever is logged by hand comes back, whatever is called is seen."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.interactions.logger import InteractionLogger
from harken.interactions.records import (
    ContextSnapshot,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    ThreadEntry,
    ThreadEventType,
)
from harken.session.verify import verify
from harken.store.memory import MemoryStore
from tests.unit.interactions.kit import KIND, ROLE, brief, logger, message_record

RECORDS = [
    message_record(ROLE.SYSTEM, "You are Jack."),
    message_record(ROLE.USER, "Hi"),
    message_record(ROLE.ASSISTANT, "Hello.", thinking_content="Hm."),
    message_record(ROLE.TOOL_CALL, "{}", tool_name="look"),
    message_record(ROLE.TOOL_RESULT, "a door", tool_name="look"),
]
SNAPSHOTS = st.none() | st.builds(
    ContextSnapshot,
    total_messages=st.integers(0, 9),
    estimated_tokens=st.none() | st.integers(0, 99),
    model_used=st.sampled_from([None, "m"]),
)
OPERATIONS = st.none() | st.builds(
    MemoryOperationRecord,
    memory_type=st.sampled_from(MemoryType),
    operation=st.sampled_from(MemoryOpType),
    file_path=st.sampled_from([None, "a.md"]),
    query=st.sampled_from([None, "tea"]),
    result_count=st.none() | st.integers(0, 3),
)
ROWS = st.fixed_dictionaries(
    {
        "event_type": st.sampled_from(ThreadEventType),
        "message": st.none() | st.integers(0, len(RECORDS) - 1),
        "position_in_context": st.none() | st.integers(0, 5),
        "context_snapshot": SNAPSHOTS,
        "memory_operation": OPERATIONS,
        "second": st.integers(0, 59),
    }
)
TIDY = st.lists(
    st.one_of(
        ROWS,
        st.fixed_dictionaries(
            {
                "event_type": st.sampled_from([KIND.MESSAGE_ADDED, KIND.CONTEXT_REPLAYED]),
                "message": st.integers(0, len(RECORDS) - 1),
                "position_in_context": st.integers(0, 3),
                "second": st.just(7),
            }
        ),
        st.just({"event_type": KIND.LLM_REQUEST, "second": 8}),
    ),
    max_size=12,
)


@pytest.mark.req("S3-04")
@settings(max_examples=50)
@given(TIDY)
def test_thread_rows_round_trip_and_the_log_verifies(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder, logger(Path(folder), MemoryStore()) as log:
        ids = [log.log_message(record) for record in RECORDS]
        thread = log.start_thread("s")
        entries = [_entry(row, ids) for row in rows]
        for index, entry in enumerate(entries):
            log.log_thread_entry(thread, entry)
            if index == len(entries) // 2:
                log.close()  # and go on with it
        assert log.get_thread(thread) == entries
        assert verify(Path(folder) / "sessions" / "s.jsonl") == []


def _entry(row: dict[str, Any], ids: list[str]) -> ThreadEntry:
    members = dict(row)
    message = members.pop("message", None)
    return ThreadEntry(
        timestamp=f"2024-01-15T10:30:{members.pop('second'):02d}Z",
        message_id=None if message is None else ids[message],
        **members,
    )


@pytest.mark.req("S3-16", "S3-17", "S3-18")
@settings(max_examples=40)
@given(st.data())
def test_thread_rows_of_a_request_equal_its_context(data: st.DataObject) -> None:
    """With messages that are dropped, come back, are doubled and summed up."""
    numbers = count()
    context: list[str] = ["You are Jack."]
    contexts: list[list[str]] = []
    with TemporaryDirectory() as folder, logger(Path(folder)) as log:
        thread = log.start_thread("s")
        for _ in range(data.draw(st.integers(1, 6))):
            change = data.draw(st.sampled_from(["more", "drop", "compact", "twice", "again"]))
            if change == "drop" and len(context) > 1:
                del context[data.draw(st.integers(0, len(context) - 2))]
            elif change == "compact":
                context = [context[0], f"summary {next(numbers)}", *context[-1:]]
            elif change == "twice":
                context = [*context, context[0]]
            elif change == "again" and contexts:
                context = list(contexts[data.draw(st.integers(0, len(contexts) - 1))])
            context = [*context, f"m {next(numbers)}"]
            contexts.append(list(context))
            with log.call(thread, context) as call:
                answer = call.answer(f"a {next(numbers)}")
            context = [*context, answer]
            context[-1:] = []  # who asked writes it down as something else
        assert _requests(log, thread) == contexts


def _requests(log: InteractionLogger, thread: str) -> list[list[str | None]]:
    """Return what stood in the context at each request, by the rows alone."""
    contexts: list[list[str | None]] = []
    now: dict[int | None, str | None] = {}
    for kind, content, position in brief(log, thread):
        if kind in ("MESSAGE_ADDED", "CONTEXT_REPLAYED"):
            now[position] = content
        elif kind == "LLM_REQUEST":
            contexts.append([now[index] for index in range(len(now))])
            now = {}
    return contexts
