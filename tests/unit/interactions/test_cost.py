"""The size of an interaction log, and its use by time travel and statistics."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from harken.capture.resume.mock_provider import run_mock_provider
from harken.core.events import LlmRequest, LlmResponse
from harken.core.messages import text_of
from harken.index.session_index import SessionIndex
from harken.interactions.logger import InteractionLogger
from harken.session.verify import verify
from harken.views.viewer import SessionViewer
from tests.unit.interactions.kit import HI, KIND, SYSTEM, brief, logger

KB = 1000


def texts() -> Iterator[str]:
    """Yield distinct texts of 500 bytes, of a few thousand different words."""
    chance = random.Random(7)
    words = [
        "".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(2, 9))) for _ in range(3000)
    ]
    while True:
        yield " ".join(chance.choices(words, k=120))[:500]


def typical(log: InteractionLogger, thread: str, prose: Iterator[str], system: str) -> None:
    """Log a typical session: 50 messages of 500 bytes, 200 rows."""
    context: list[Any] = [{"role": "system", "content": system}]
    for message_count in (8, 8, 9, 9, 8, 1):
        context += [{"role": "user", "content": next(prose)} for _ in range(message_count)]
        with log.call(thread, context, model="claude-sonnet") as call:
            context.append({"role": "assistant", "content": call.answer(next(prose))})


@pytest.mark.req("S3-23")
def test_typical_session_is_small_and_shares_objects(tmp_path: Path) -> None:
    prose = texts()
    prompt = " ".join(next(prose) for _ in range(40))  # the prompt of an agent with tools

    def grown(name: str) -> int:
        """Log one more session. Return the growth of the store."""
        with logger(tmp_path) as log:
            before = log.open_store().stats().raw_bytes
            typical(log, log.start_thread(name), prose, prompt)
            return log.open_store().stats().raw_bytes - before

    with logger(tmp_path) as log:
        log.open_store()
    before = (tmp_path / "store.db").stat().st_size
    with logger(tmp_path) as log:
        thread = log.start_thread("one")
        typical(log, thread, prose, next(prose))
        [summary] = log.list_threads()
        assert (summary.messages, len(log.get_thread(thread))) == (50, 201)
    assert (tmp_path / "sessions" / "one.jsonl").stat().st_size <= 55 * KB
    assert (tmp_path / "store.db").stat().st_size - before <= 30 * KB
    first, second = grown("two"), grown("three")
    assert 0.5 * first <= second <= 0.7 * first


@pytest.mark.req("S3-18")
def test_log_grows_by_new_messages(tmp_path: Path) -> None:
    """A request has a constant size for a context of constant length."""
    with logger(tmp_path) as log:
        thread = log.start_thread("one")
        path = log.sessions_folder / "one.jsonl"
        context: list[Any] = [SYSTEM]
        sizes = []
        for n in range(200):
            context.append({"role": "user", "content": f"message {n:04}"})
            with log.call(thread, context, model="m") as call:
                context.append({"role": "assistant", "content": call.answer(f"answer {n:04}")})
            sizes.append(path.stat().st_size)
        assert sizes[199] - sizes[149] <= 1.1 * (sizes[60] - sizes[10])
    assert verify(path) == []


@pytest.mark.req("S3-17")
def test_context_of_every_request_can_be_rebuilt(tmp_path: Path) -> None:
    contexts = [
        ["You are Jack.", "Hi"],
        ["You are Jack.", "Hi", "Hello.", "And now?"],
        ["You are Jack.", "So far: we met.", "What else?"],
        ["You are Jill.", "Hi", "So far: we met."],
    ]
    with logger(tmp_path) as log:
        thread = log.start_thread("one")
        for index, context in enumerate(contexts):
            if index == 2:
                log.log_context_state(thread, context, KIND.CONTEXT_COMPACTED)
            with log.call(thread, context) as call:
                call.answer("Hello.")
    viewer = SessionViewer(tmp_path / "sessions" / "one.jsonl")
    request_ids = [event.message_id for event in viewer.events if isinstance(event, LlmRequest)]
    views = [viewer.context(id_) for id_ in request_ids]
    assert [[text_of(row.message.content) for row in view.messages] for view in views] == contexts
    assert all(view.verified for view in views)


@pytest.mark.req("S3-33")
def test_tokens_cost_and_time_of_logged_calls_are_counted(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("one")
        with log.call(thread, [HI], model="m") as call:
            call.answer("Hello.", usage={"input_tokens": 7, "output_tokens": 2}, cost_usd=0.5)
        with closing(SessionIndex(None)) as facts:
            facts.update(None, None, log.logs())
            query = "SELECT model, input_tokens, output_tokens, cost_usd FROM requests"
            assert facts.database.execute(query).fetchall() == [("m", 7, 2, 0.5)]
    events = SessionViewer(tmp_path / "sessions" / "one.jsonl").events
    [latency] = [event.latency_s for event in events if isinstance(event, LlmResponse)]
    assert latency is not None
    assert latency > 0


@pytest.mark.req("S3-20")
def test_wrapped_client_logs_into_the_folder(tmp_path: Path) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with logger(tmp_path) as log, run_mock_provider() as provider, httpx.Client() as client:
        wrapped = log.wrap(client)
        assert log.wrap(wrapped) is wrapped
        answer = wrapped.post(f"{provider.url}/v1/messages", json=body)
        assert answer.status_code == 200
        log.close()
        [thread] = log.list_threads()
        kinds = [kind for kind, _, _ in brief(log, thread.thread_id)]
        assert kinds[-2:] == ["LLM_REQUEST", "LLM_RESPONSE"]
        with pytest.raises(TypeError):
            log.wrap("no client")
    with logger(tmp_path, enabled=False) as log, httpx.Client() as client:
        assert log.wrap(client) is client
