"""A row is a fact: where no response came, no LLM_RESPONSE is derived."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.interactions.logger import InteractionLogger
from harken.interactions.records import ThreadEntry
from tests.unit.interactions.kit import KIND, logger

ONE: dict[str, Any] = {"role": "user", "content": "one"}
TWO: dict[str, Any] = {"role": "user", "content": "two"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "answer"}


def two_requests(log: InteractionLogger, thread: str) -> None:
    log.log_context_state(thread, [ONE], KIND.LLM_REQUEST)
    log.log_context_state(thread, [ONE, TWO], KIND.LLM_REQUEST)


def retry(log: InteractionLogger, thread: str) -> None:
    log.log_context_state(thread, [ONE], KIND.LLM_REQUEST)
    log.log_context_state(thread, [ONE], KIND.LLM_REQUEST)
    log.log_context_state(thread, [ONE, ANSWER], KIND.LLM_RESPONSE)


def failed_call(log: InteractionLogger, thread: str) -> None:
    with pytest.raises(OSError, match="refused"), log.call(thread, [ONE]):
        raise OSError("refused")
    with log.call(thread, [ONE]) as call:
        call.answer("answer")


def call_without_answer(log: InteractionLogger, thread: str) -> None:
    with log.call(thread, [ONE]) as call:
        call.fail("no credit")


def overlapping_calls(log: InteractionLogger, thread: str) -> None:
    with log.call(thread, [ONE]), log.call(thread, [ONE]) as call:
        call.answer("answer")


CASES: list[tuple[Callable[[InteractionLogger, str], None], int, int]] = [
    (two_requests, 2, 0),
    (retry, 2, 1),
    (failed_call, 2, 1),
    (call_without_answer, 1, 0),
    (overlapping_calls, 2, 1),
]


@pytest.mark.req("S3-13")
@pytest.mark.parametrize("with_contexts", [True, False], ids=["contexts", "no contexts"])
@pytest.mark.parametrize(("run", "requests", "responses"), CASES)
def test_call_without_response_has_no_response_row(
    tmp_path: Path,
    run: Callable[[InteractionLogger, str], None],
    requests: int,
    responses: int,
    *,
    with_contexts: bool,
) -> None:
    with logger(tmp_path, log_context_on_every_request=with_contexts) as log:
        thread = log.start_thread("cafe")
        run(log, thread)
        rows = log.get_thread(thread)
    counts = [
        sum(row.event_type is kind for row in rows)
        for kind in (KIND.LLM_REQUEST, KIND.LLM_RESPONSE)
    ]
    assert counts == [requests, responses]
    assert all(row.message_id for row in rows if row.event_type is KIND.LLM_RESPONSE)


def test_empty_response_is_a_response(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        log.log_context_state(thread, [ONE], KIND.LLM_REQUEST)
        log.log_context_state(thread, [ONE], KIND.LLM_RESPONSE)
        assert [row.event_type for row in log.get_thread(thread)][-1] is KIND.LLM_RESPONSE


def test_logged_response_without_a_message_is_returned(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        log.log_context_state(thread, [ONE], KIND.LLM_REQUEST)
        row = ThreadEntry("2026-01-31T12:00:00Z", event_type=KIND.LLM_RESPONSE)
        log.log_thread_entry(thread, row)
        assert log.get_thread(thread)[-1] == row
