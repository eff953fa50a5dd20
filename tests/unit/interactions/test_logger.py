"""`InteractionLogger`: the operations of the specification."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from harken.core.events import LlmResponse
from harken.errors import ConfigError, FormatError, LogLocked, NameNotFound
from harken.interactions.logger import InteractionLogger
from harken.interactions.records import (
    ContextSnapshot,
    LoggedMessage,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    ThreadEntry,
)
from harken.session.log.reader import iter_events
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message
from tests.unit.interactions.kit import (
    DOOR,
    HI,
    KIND,
    LOOK,
    ROLE,
    SYSTEM,
    brief,
    logger,
    message_record,
    row,
)


def converse(log: InteractionLogger, thread: str) -> None:
    """Log two requests with a tool between them."""
    messages: list[Any] = [SYSTEM, HI]
    with log.call(thread, messages, model="m") as call:
        messages += [call.answer(LOOK), DOOR]
    with log.call(thread, messages, model="m") as call:
        call.answer("A door.")


@pytest.mark.req("S3-01")
def test_message_is_stored_once(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        first = log.log_message(message_record(ROLE.USER, "Hi"))
        object_count = log.open_store().stats().objects
        assert log.log_message(message_record(ROLE.USER, "Hi")) == first
        assert log.open_store().stats().objects == object_count
    with logger(tmp_path) as second_log:
        assert second_log.log_message(message_record(ROLE.USER, "Hi")) == first
        assert second_log.open_store().stats().objects == object_count
        assert second_log.log_message(message_record(ROLE.SYSTEM, "Hi")) != first


@pytest.mark.req("S3-02", "S3-08")
def test_message_is_returned_as_first_logged(tmp_path: Path) -> None:
    record = message_record(ROLE.ASSISTANT, "Tea.", model="m", thinking_content="Hm.")
    with logger(tmp_path) as log:
        id_ = log.log_message(record)
        log.log_message(
            message_record(ROLE.ASSISTANT, "Tea.", model="other", thinking_content="Hm.")
        )
    with logger(tmp_path) as log:
        record_found = log.get_message(id_)
        assert record_found is not None
        assert (record_found.id, record_found.timestamp) == (id_, "2026-01-01T00:00:00.000000Z")
        assert (record_found.role, record_found.content) == (ROLE.ASSISTANT, "Tea.")
        assert record_found.metadata is not None
        assert (record_found.metadata.model, record_found.metadata.thinking_content) == ("m", "Hm.")
        assert record_found.metadata.token_count == 2
        assert log.get_message("0" * 64) is None
        assert log.get_message("no id") is None


def test_message_with_the_id_of_another_is_refused(tmp_path: Path) -> None:
    with logger(tmp_path) as log, pytest.raises(FormatError):
        log.log_message(LoggedMessage(id="1" * 64, role=ROLE.USER, content="Hi"))


@pytest.mark.req("S3-03")
def test_thread_is_a_session_of_one_agent(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        first = log.start_thread()
        assert first == "session_20260101_000000/agent_001"
        named_thread = log.start_thread("cafe")
        assert named_thread == "cafe/agent_001"
        assert log.start_thread("cafe") == named_thread
        assert log.start_thread("cafe", name="Explore") == "cafe/agent_002"
        log.end_thread("cafe/agent_002")
        log.end_thread(named_thread, "the user left")
        assert log.start_thread("cafe") == named_thread
    session = Session.load(tmp_path / "sessions" / "cafe.jsonl")
    with session:
        assert session.agent("agent_002").parent == "agent_001"
        assert not session.state.is_live(session.agent("agent_002").id)


def test_threads_started_in_one_second_are_distinct(tmp_path: Path) -> None:
    new_logger = InteractionLogger(folder=tmp_path, clock=lambda: 0, durability="none")
    with new_logger as log:
        assert [log.start_thread() for _ in range(2)] == [
            "session_19700101_000000/agent_001",
            "session_19700101_000000-2/agent_001",
        ]


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", ".hidden", "x\ny", "y" * 200])
def test_session_name_is_no_path(tmp_path: Path, name: str) -> None:
    with logger(tmp_path) as log:
        with pytest.raises(ConfigError):
            log.start_thread(name)
        if "/" not in name:
            with pytest.raises(NameNotFound):
                log.get_thread(f"{name}/agent_001")
    assert not (tmp_path / "sessions").exists()


@pytest.mark.req("S3-05", "S3-09", "S3-12", "S3-16")
def test_each_request_lists_replayed_and_added_messages(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        converse(log, thread)
        look = '{"at": 1}'
        assert brief(log, thread) == [
            ("MESSAGE_ADDED", "You are Jack.", 0),
            ("MESSAGE_ADDED", "Hi", 1),
            ("LLM_REQUEST", "Hi", 1),
            ("LLM_RESPONSE", "I look.", 2),
            ("LLM_RESPONSE", look, 3),
            ("CONTEXT_REPLAYED", "You are Jack.", 0),
            ("CONTEXT_REPLAYED", "Hi", 1),
            ("MESSAGE_ADDED", "I look.", 2),
            ("MESSAGE_ADDED", look, 3),
            ("MESSAGE_ADDED", "a door", 4),
            ("LLM_REQUEST", "a door", 4),
            ("LLM_RESPONSE", "A door.", 5),
        ]


@pytest.mark.req("S3-14")
def test_rows_have_the_context_size(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        with log.call(thread, [SYSTEM, HI], model="m") as call:
            call.answer("Hello.", model="m-2026")
        snapshots = [
            row_read.context_snapshot
            for row_read in log.get_thread(thread)
            if row_read.context_snapshot
        ]
        assert snapshots == [
            ContextSnapshot(total_messages=2, estimated_tokens=5, model_used="m"),
            ContextSnapshot(total_messages=3, estimated_tokens=7, model_used="m-2026"),
        ]


@pytest.mark.req("S3-05")
def test_context_is_logged_unchanged(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        log.log_context_state(thread, [SYSTEM, HI], KIND.MESSAGE_ADDED)
        log.log_context_state(thread, [SYSTEM, HI], KIND.CONTEXT_REPLAYED)
        log.log_context_state(thread, [SYSTEM, HI], KIND.LLM_REQUEST, model="m")
        answer = {"role": "assistant", "content": "Hello."}
        log.log_context_state(thread, [SYSTEM, HI, answer], KIND.LLM_RESPONSE)
        assert brief(log, thread) == [
            ("MESSAGE_ADDED", "You are Jack.", 0),
            ("MESSAGE_ADDED", "Hi", 1),
            ("CONTEXT_REPLAYED", "You are Jack.", 0),
            ("CONTEXT_REPLAYED", "Hi", 1),
            ("LLM_REQUEST", "Hi", 1),
            ("LLM_RESPONSE", "Hello.", 2),
        ]
        with pytest.raises(ValueError, match="log_memory_operation"):
            log.log_context_state(thread, [HI], KIND.MEMORY_READ)


@pytest.mark.req("S3-13")
def test_compaction_is_detected(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        converse(log, thread)
        short: list[Any] = [SYSTEM, "So far: a door.", "And now?"]
        log.log_context_state(thread, short, KIND.CONTEXT_COMPACTED)
        with log.call(thread, short) as call:
            call.answer("Nothing.")
        assert brief(log, thread)[12:] == [
            ("CONTEXT_COMPACTED", "So far: a door.", 1),
            ("CONTEXT_REPLAYED", "You are Jack.", 0),
            ("MESSAGE_ADDED", "So far: a door.", 1),
            ("MESSAGE_ADDED", "And now?", 2),
            ("LLM_REQUEST", "And now?", 2),
            ("LLM_RESPONSE", "Nothing.", 3),
        ]


@pytest.mark.req("S3-06", "S3-12", "S3-13", "S3-15")
def test_memory_operations_are_rows(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        stm, ltm = MemoryType.STM, MemoryType.LTM
        log.log_memory_operation(thread, ltm, MemoryOpType.READ, file_path="a.md")
        log.log_memory_operation(thread, ltm, MemoryOpType.WRITE, content_preview="tea " * 100)
        log.log_memory_operation(thread, stm, MemoryOpType.QUERY, query="tea", result_count=2)
        read_row, wrote, request_row = log.get_thread(thread)
        kinds = [row_read.event_type for row_read in (read_row, wrote, request_row)]
        assert kinds == [KIND.MEMORY_READ, KIND.MEMORY_WRITE, KIND.MEMORY_QUERY]
        assert (read_row.message_id, read_row.position_in_context) == (None, None)
        assert wrote.memory_operation is not None
        assert len(wrote.memory_operation.content_preview or "") == 100
        assert request_row.memory_operation == MemoryOperationRecord(
            memory_type=stm, operation=MemoryOpType.QUERY, query="tea", result_count=2
        )


@pytest.mark.req("S3-07")
def test_threads_are_sorted_last_written_first(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        for name in ("one", "two", "three"):
            log.start_thread(name)
        converse(log, "one/agent_001")
        threads = log.list_threads()
        assert [thread_info.session_id for thread_info in threads] == ["one", "three", "two"]
        assert [thread_info.session_id for thread_info in log.list_threads(limit=1)] == ["one"]
        first = threads[0]
        assert (first.name, first.model, first.title) == ("main", "m", "Hi")
        assert (first.messages, first.requests) == (5, 2)
        assert first.started_at < first.updated_at


@pytest.mark.req("S3-07", "S3-32")
def test_messages_are_searchable(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        converse(log, log.start_thread())
        matches = log.search_messages("door")
        assert [(match.role, match.content) for match in matches] == [
            (ROLE.ASSISTANT, "A door."),
            (ROLE.TOOL_RESULT, "a door"),
        ]
        assert matches[0].metadata is not None
        assert matches[0].metadata.model == "m"
        [call] = log.search_messages("at")
        assert call.role is ROLE.TOOL_CALL
        assert len(log.search_messages("door", limit=1)) == 1
        assert log.search_messages("nowhere") == []
        with pytest.raises(ConfigError):
            log.search_messages("  ")


@pytest.mark.req("S3-11")
def test_varying_metadata_is_stored_with_the_reference(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        for model in ("one", "two"):
            with log.call(thread, [HI], model=model) as call:
                call.answer("Hello.")
        rows = [
            row_read
            for row_read in log.get_thread(thread)
            if row_read.event_type is KIND.LLM_RESPONSE
        ]
        assert len({row_read.message_id for row_read in rows}) == 1
        assert [
            row_read.context_snapshot and row_read.context_snapshot.model_used for row_read in rows
        ] == [
            "one",
            "two",
        ]


@pytest.mark.req("S3-24")
def test_disabled_logger_writes_nothing_and_returns_values(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    with logger(folder, enabled=False) as log:
        thread = log.start_thread("cafe")
        assert thread == "cafe/agent_001"
        with log.call(thread, [HI]) as call:
            assert call.answer("Hello.") == "Hello."
        id_ = log.log_message(message_record(ROLE.USER, "Hi"))
        log.log_thread_entry(thread, row(KIND.MESSAGE_ADDED, id_, 0))
        log.log_context_state(thread, [HI], KIND.LLM_REQUEST)
        log.log_memory_operation(thread, MemoryType.LTM, MemoryOpType.READ)
        log.end_thread(thread)
        assert log.get_thread(thread) == []
        assert log.get_message(id_) is None
        assert (log.list_threads(), log.search_messages("Hi")) == ([], [])
    assert not folder.exists()
    with logger(tmp_path) as second_log:
        assert second_log.log_message(message_record(ROLE.USER, "Hi")) == id_


@pytest.mark.req("S3-24")
def test_disabled_logger_can_read(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        converse(log, thread)
        rows = log.get_thread(thread)
    before = sorted(tmp_path.rglob("*"))
    with logger(tmp_path, enabled=False) as log:
        assert log.get_thread(thread) == rows
        assert log.get_message(rows[0].message_id or "") is not None
        assert [thread_info.thread_id for thread_info in log.list_threads()] == [thread]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.req("S3-27")
def test_request_without_context_keeps_only_new_messages(tmp_path: Path) -> None:
    with logger(tmp_path, log_context_on_every_request=False) as log:
        thread = log.start_thread()
        converse(log, thread)
        assert [kind for kind, _, _ in brief(log, thread)] == [
            "MESSAGE_ADDED",
            "MESSAGE_ADDED",
            "LLM_REQUEST",
            "LLM_RESPONSE",
            "LLM_RESPONSE",
            "MESSAGE_ADDED",
            "LLM_REQUEST",
            "LLM_RESPONSE",
        ]


@pytest.mark.req("S3-27")
def test_estimates_can_be_disabled(tmp_path: Path) -> None:
    with logger(tmp_path, include_token_estimates=False) as log:
        thread = log.start_thread()
        converse(log, thread)
        rows = log.get_thread(thread)
        assert {
            row_read.context_snapshot.estimated_tokens
            for row_read in rows
            if row_read.context_snapshot
        } == {None}
        message = log.get_message(rows[0].message_id or "")
        assert message is not None
        assert message.metadata is None


@pytest.mark.req("S3-20")
def test_failed_call_is_logged_and_the_thread_continues(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        with pytest.raises(ZeroDivisionError), log.call(thread, [HI], model="m"):
            raise ZeroDivisionError("by zero")
        with log.call(thread, [HI]):
            pass
        log.close()
        ends = list(iter_events(tmp_path / "sessions" / "cafe.jsonl"))
        endings = [(e.stop_reason, e.error) for e in ends if isinstance(e, LlmResponse)]
        assert endings == [("error", "ZeroDivisionError: by zero"), ("interrupted", None)]
        assert [kind for kind, _, _ in brief(log, thread)].count("LLM_RESPONSE") == 0


def test_call_has_one_answer_message(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        with log.call(thread, [HI]) as call:
            call.answer("Hello.", usage={"input_tokens": 3, "output_tokens": 1})
            with pytest.raises(ValueError, match="has an answer already"):
                call.answer("Again.")


def test_session_of_a_harken_run_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    with Session(tmp_path / "sessions" / "own.jsonl") as session:
        agent = create_agent(session, name="main")
        log_user_message(session, agent, "Hi")
    with logger(tmp_path) as log:
        assert brief(log, "own") == [("MESSAGE_ADDED", "Hi", 0)]
        with pytest.raises(ConfigError, match="is run by Harken"):
            log.start_thread("own")
        with pytest.raises(ConfigError, match="is run by Harken"):
            log.log_context_state("own/agent_001", [HI], KIND.LLM_REQUEST)


def test_session_is_exclusive_to_one_logger(tmp_path: Path) -> None:
    with logger(tmp_path) as log, logger(tmp_path) as second_log:
        log.start_thread("cafe")
        with pytest.raises(LogLocked):
            second_log.start_thread("cafe")
        assert second_log.start_thread("tea") == "tea/agent_001"


@pytest.mark.req("S3-21")
def test_index_can_be_deleted_at_any_time(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        converse(log, thread)
        rows, threads = log.get_thread(thread), log.list_threads()
        records = [log.get_message(row_read.message_id or "") for row_read in rows]
    (tmp_path / "interactions.db").unlink()
    with logger(tmp_path) as log:
        assert [log.get_message(row_read.message_id or "") for row_read in rows] == records
        assert log.list_threads() == threads
    (tmp_path / "interactions.db").write_bytes(b"no database " * 1000)
    with logger(tmp_path) as log:
        assert log.list_threads() == threads


def test_message_is_readable_after_its_first_log_is_deleted(
    tmp_path: Path,
) -> None:
    with logger(tmp_path) as log:
        for name in ("one", "two"):
            log.log_context_state(log.start_thread(name), [SYSTEM], KIND.MESSAGE_ADDED)
        id_ = log.get_thread("one")[0].message_id or ""
        assert log.get_message(id_) is not None
        log.close()
        (tmp_path / "sessions" / "one.jsonl").unlink()
        record_found = log.get_message(id_)
        assert record_found is not None
        assert record_found.timestamp == log.get_thread("two")[0].timestamp


def test_logger_is_thread_safe(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        names = [log.start_thread(f"s{n}") for n in range(4)]

        def talk(thread: str) -> None:
            for n in range(5):
                with log.call(thread, [HI, f"{thread} {n}"]) as call:
                    call.answer("Yes.")
                assert log.get_message(log.get_thread(thread)[0].message_id or "")

        workers = [threading.Thread(target=talk, args=(name,)) for name in names]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert all(len(log.get_thread(name)) > 15 for name in names)


def test_logger_works_in_async_code(tmp_path: Path) -> None:
    async def run() -> str:
        async with logger(tmp_path) as log:
            return log.start_thread()

    assert asyncio.run(run()).endswith("/agent_001")


def test_more_sessions_than_open_files_can_be_written(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        names = [log.start_thread(f"s{n}") for n in range(70)]
        for name in names:
            log.log_context_state(name, [HI], KIND.MESSAGE_ADDED)
        assert {len(log.get_thread(name)) for name in names} == {1}


def test_rows_have_the_ids_of_their_log_entries(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        converse(log, thread)
        rows = list(log.thread_rows(thread))
        ids = {event.message_id for event in iter_events(tmp_path / "sessions" / "cafe.jsonl")}
        assert {row_read.source_id for row_read in rows} <= ids
        assert all(isinstance(row_read.entry, ThreadEntry) for row_read in rows)
