"""Conformance tests of models, for Harken's models and for third-party ones.

Source: docs/how-to/test-a-model.md.
"""

from __future__ import annotations

import asyncio
import copy
import unittest
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, get_args

from harken.core import messages as ms
from harken.core.events import TranscriptEntry
from harken.core.stream import Chunk, Finish, StreamAccumulator
from harken.errors import ModelError
from harken.llm.base import Model, ModelRequest, ToolSchema, tools_hash
from harken.session.log.reader import iter_events
from harken.session.session import Session, SessionOptions, build_entry
from harken.testing.fakes import ticking

T = TypeVar("T")


def request_of(
    *messages: ms.ChatMessage | str,
    agent: str = "main",
    tools: Sequence[ToolSchema] = (),
    parameters: Mapping[str, Any] | None = None,
) -> ModelRequest:
    """Return the request of an agent with this context. A str stands for a user message."""
    context = [ms.Message("user", m) if isinstance(m, str) else m for m in messages]
    return ModelRequest(
        agent=agent,
        messages=context,
        tools=tools,
        parameters=parameters or {},
        context_hash=reduce(ms.extend_context_hash, context, ""),
        tools_hash=tools_hash(tools) if tools else None,
    )


class ModelSuite:
    """The tests of a model. Inherit from it in a class `Test...`, and override `model`."""

    deterministic = True
    """Whether equal requests get equal answers. Set False for most remote models."""
    timeout_s = 30.0
    """The timeout of a test."""

    def model(self) -> Model:
        """Return a new model. Each test creates its own, in its own event loop."""
        raise NotImplementedError(f"{type(self).__name__} must say how its model is made")

    def requests(self) -> Sequence[ModelRequest]:
        """Return at least one request. The model must have an answer to each."""
        place = {"type": "object", "properties": {"at": {"type": "string"}}}
        look = {"name": "look", "description": "Look at a place.", "parameters": place}
        call = ms.ToolCall("call_1", ms.FunctionCall("look", '{"at":"the door"}'))
        acted = ms.Message("assistant", None, [call])
        result = ms.Message("tool", "Jill", tool_call_id="call_1", name="look")
        return [
            request_of(ms.Message("system", "You are Jack."), "Introduce yourself."),
            request_of("Look at the door and at the window, at once.", tools=[look]),
            request_of("Who is at the door?", acted, result, tools=[look]),
        ]

    def failing(self) -> tuple[Model, ModelRequest] | None:
        """Return a model and a request that it cannot answer. Return None to skip the test."""
        return None

    def test_a_stream_ends_with_its_only_finish(self) -> None:
        for _, chunks in self._run(self._answers()):
            ends = [
                position for position, chunk in enumerate(chunks, 1) if isinstance(chunk, Finish)
            ]
            assert ends == [len(chunks)], f"not one Finish, at the end: {chunks}"
            invalid = [chunk for chunk in chunks if not isinstance(chunk, get_args(Chunk))]
            assert not invalid, f"no chunks: {invalid}"

    def test_an_answer_can_be_logged_and_read_again(self) -> None:
        for _, chunks in self._run(self._answers()):
            answer, _ = _join_chunks(chunks)
            try:
                entry = _log_and_read(answer)
                same = ms.split_occurrence(entry) == ms.split_occurrence(answer)
            except (ValueError, TypeError) as error:
                raise AssertionError(f"{answer} cannot be logged: {error}") from error
            assert same, f"{answer} is read as {entry}"

    def test_call_ids_are_there_and_unique(self) -> None:
        for request, chunks in self._run(self._answers()):
            ids = [call.id for call in _join_chunks(chunks)[0].tool_calls or ()]
            call_ids = {
                call.id for message in request.messages for call in message.tool_calls or ()
            }
            open_ids = call_ids - {message.tool_call_id for message in request.messages}
            assert all(ids), f"a call without an id: {ids}"
            assert len(open_ids.union(ids)) == len(open_ids) + len(ids), (
                f"{ids}; open are {open_ids}"
            )

    def test_equal_requests_get_equal_answers(self) -> None:
        """An answer depends only on the request, also with another instance of the model."""
        if not self.deterministic:
            raise unittest.SkipTest("the model is said not to be deterministic")

        async def ask() -> list[list[tuple[ms.Message, Finish | None]]]:
            model, second_model = self.model(), self.model()
            rounds = [await self._answers(instance) for instance in (model, model, second_model)]
            return [[_join_chunks(chunks) for _, chunks in answers] for answers in rounds]

        first, repeated, second = self._run(ask())
        assert first == repeated, f"asked again, it says {repeated}, not {first}"
        assert first == second, f"another such model says {second}, not {first}"

    def test_a_request_is_not_changed(self) -> None:
        before = [*copy.deepcopy(self.requests())]
        after = [request for request, _ in self._run(self._answers())]
        assert after == before, f"{before} became {after}"

    def test_a_call_can_be_cancelled_at_any_time(self) -> None:
        """A cancelled call leaves no tasks behind, and the model can be called again."""

        async def cancel() -> None:
            model, request = self.model(), self.requests()[0]
            chunk_count = len(await _read(model, request))
            usual = asyncio.all_tasks()  # A connection pool may have tasks.
            for index in sorted({0, 1, chunk_count // 2}):
                for inside in (True, False):
                    outcome = await _outcome_of(
                        _read(model, request, cancel_at=index, inside=inside)
                    )
                    where = f"after {index} chunks, in the {'model' if inside else 'reader'}"
                    cancelled = isinstance(outcome, asyncio.CancelledError)
                    assert cancelled, f"cancelled {where}, it ends with {outcome!r}"
            remaining = asyncio.all_tasks() - usual
            if remaining:
                _, remaining = await asyncio.wait(remaining, timeout=1)
            assert not remaining, f"cancelled calls left tasks behind: {remaining}"
            _, finish = _join_chunks(await _read(model, request))
            assert finish, "asked again after a cancelled call, it does not finish"

        self._run(cancel())

    def test_a_failure_is_a_model_error(self) -> None:
        async def fail() -> object:
            case = self.failing()
            if case is None:
                raise unittest.SkipTest("`failing` gives no example")
            return await _outcome_of(_read(*case))

        end = self._run(fail())
        assert isinstance(end, ModelError), f"no ModelError, but {end!r}"
        assert str(end).strip(), "a ModelError must say what failed"

    async def _answers(self, model: Model | None = None) -> list[tuple[ModelRequest, list[Chunk]]]:
        model = model or self.model()
        return [(request, await _read(model, request)) for request in self.requests()]

    def _run(self, test: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(asyncio.wait_for(test, self.timeout_s))


async def _read(
    model: Model, request: ModelRequest, *, cancel_at: int | None = None, inside: bool = True
) -> list[Chunk]:
    """Read an answer. After `cancel_at` chunks the reading task is cancelled.

    The cancellation is raised where the task waits next: `inside` the model, else in this function.
    """
    task, chunks = asyncio.current_task(), list[Chunk]()
    assert task is not None
    stream = model.stream(request)
    try:
        while True:
            if len(chunks) == cancel_at:
                task.cancel()
                if not inside:
                    await asyncio.sleep(0)
            chunk = await anext(stream, None)
            if chunk is None:
                break
            chunks.append(chunk)
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if cancel_at is not None and len(chunks) < cancel_at:
        task.cancel()
    await asyncio.sleep(0)  # A model that never waits is cancelled only here.
    return chunks


async def _outcome_of(reading: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine in a separate task. Return its result or its exception."""
    [end] = await asyncio.gather(asyncio.create_task(reading), return_exceptions=True)
    return end


def _join_chunks(chunks: Sequence[Chunk]) -> tuple[ms.Message, Finish | None]:
    draft = StreamAccumulator()
    for chunk in chunks:
        draft.add(chunk)
    return draft.message(), draft.finish


def _log_and_read(message: ms.Message) -> TranscriptEntry:
    """Log an agent's message in a new session. Return the entry that is read from its log."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        with Session(log, options=SessionOptions(durability="none", clock=ticking())) as session:
            agent = session.allocate_agent_id()
            session.log_agent_created(agent)
            session.append(build_entry(agent, message))
        return next(event for event in iter_events(log) if isinstance(event, TranscriptEntry))
