"""The conformance suite for models reports each defect of a model by the matching test."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import unittest
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any, TypeAlias

import pytest

from harken.core.messages import FunctionCall, Message, ToolCall, ToolCallSlot
from harken.core.stream import Chunk, Finish, PartDelta, TextDelta, ToolCallDelta
from harken.errors import ModelError
from harken.llm.base import Model, ModelRequest
from harken.llm.scripted import FunctionModel
from harken.testing import ModelSuite, request_of

Stream: TypeAlias = Callable[[ModelRequest], AsyncIterator[Chunk]]

END = Finish(stop_reason="end_turn")
TESTS = [name for name in dir(ModelSuite) if name.startswith("test_")]


class StreamingModel:
    """A model that is an asynchronous generator."""

    def __init__(self, stream: Stream, name: str = "streaming") -> None:
        self.stream, self.name = stream, name


def failed_tests(
    make: Callable[[], Model],
    failing: tuple[Model, ModelRequest] | None = None,
    *,
    deterministic: bool = True,
) -> dict[str, str]:
    """Return the tests of the suite that the model fails, with their messages."""

    class Suite(ModelSuite):
        def model(self) -> Model:
            return make()

        def failing(self) -> tuple[Model, ModelRequest] | None:
            return failing

    suite, result = Suite(), {}
    suite.deterministic = deterministic
    for name in TESTS:
        try:
            getattr(suite, name)()
        except AssertionError as error:
            result[name] = str(error)
        except unittest.SkipTest:
            pass
    return result


def text_stream(*chunks: Chunk) -> Callable[[], Model]:
    return lambda: FunctionModel(lambda _: chunks)


def call_stream(*ids: str) -> Callable[[], Model]:
    tool_calls = [ToolCallDelta(index, "{}", id_, "look") for index, id_ in enumerate(ids)]
    return text_stream(*tool_calls, Finish(stop_reason="tool_use"))


def streams(stream: Stream) -> Callable[[], Model]:
    return lambda: StreamingModel(stream)


def test_suite_accepts_a_correct_model() -> None:
    assert failed_tests(lambda: FunctionModel(lambda _: "Hello, you there.")) == {}
    assert failed_tests(text_stream(END)) == {}
    assert failed_tests(call_stream("a", "b")) == {}


@pytest.mark.parametrize(
    ("model", "found_by", "saying"),
    [
        (text_stream(), "test_a_stream_ends_with_its_only_finish", "not one Finish, at the end"),
        (
            text_stream(TextDelta("a")),
            "test_a_stream_ends_with_its_only_finish",
            "not one Finish, at the end",
        ),
        (
            text_stream(END, TextDelta("a")),
            "test_a_stream_ends_with_its_only_finish",
            "not one Finish, at the end",
        ),
        (
            text_stream(END, END),
            "test_a_stream_ends_with_its_only_finish",
            "not one Finish, at the end",
        ),
        (call_stream("a", ""), "test_call_ids_are_there_and_unique", "without an id"),
        (call_stream("a", "a"), "test_call_ids_are_there_and_unique", "'a', 'a'"),
        (
            text_stream(TextDelta("a"), PartDelta(ToolCallSlot("x")), END),
            "test_an_answer_can_be_logged_and_read_again",
            "cannot be logged",
        ),
    ],
)
def test_suite_reports_a_wrong_answer(
    model: Callable[[], Model], found_by: str, saying: str
) -> None:
    assert saying in failed_tests(model)[found_by]


def test_suite_reports_an_invalid_chunk() -> None:
    unusual: Any = "a plain text"

    class Suite(ModelSuite):
        def model(self) -> Model:
            return text_stream(unusual, END)()

    with pytest.raises(AssertionError, match="no chunks: .'a plain text'"):
        Suite().test_a_stream_ends_with_its_only_finish()


def test_suite_rejects_the_id_of_an_open_call_and_accepts_that_of_an_answered_one() -> None:
    message = Message("assistant", None, [ToolCall("a", FunctionCall("look", "{}"))])
    result = Message("tool", "Jill", tool_call_id="a", name="look")

    class Suite(ModelSuite):
        asked = request_of("Look.", message)

        def model(self) -> Model:
            return call_stream("a")()

        def requests(self) -> list[ModelRequest]:
            return [self.asked]

    suite = Suite()
    with pytest.raises(AssertionError, match="open are"):
        suite.test_call_ids_are_there_and_unique()
    suite.asked = request_of("Look.", message, result)
    suite.test_call_ids_are_there_and_unique()


def test_suite_reports_a_model_with_memory_unless_declared() -> None:
    def counting() -> Model:
        numbers = count()
        return FunctionModel(lambda _: f"answer {next(numbers)}")

    failures = failed_tests(counting)
    assert [*failures] == ["test_equal_requests_get_equal_answers"]
    assert "asked again" in failures["test_equal_requests_get_equal_answers"]
    assert failed_tests(counting, deterministic=False) == {}


def test_suite_reports_two_models_that_differ() -> None:
    numbers = count()

    def numbered() -> Model:
        number = next(numbers)
        return FunctionModel(lambda _: f"I am number {number}")

    assert "another such model" in failed_tests(numbered)["test_equal_requests_get_equal_answers"]


def test_suite_reports_a_model_that_changes_its_request() -> None:
    def greedy(request: ModelRequest) -> str:
        assert isinstance(request.messages, list)
        del request.messages[1:]
        return "Hi."

    assert "test_a_request_is_not_changed" in failed_tests(lambda: FunctionModel(greedy))


async def swallows_cancellation(request: ModelRequest) -> AsyncIterator[Chunk]:
    try:
        yield TextDelta("a")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    yield END


async def renames_call(request: ModelRequest) -> AsyncIterator[Chunk]:
    try:
        yield TextDelta("a")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        raise ModelError("cancelled") from None
    yield END


async def continues_after_close(request: ModelRequest) -> AsyncIterator[Chunk]:
    try:
        yield TextDelta("a")
    except GeneratorExit:
        yield TextDelta("b")
    yield END


async def leaves_a_task(request: ModelRequest) -> AsyncIterator[Chunk]:
    task = asyncio.create_task(asyncio.sleep(60))
    yield TextDelta("a")
    await asyncio.sleep(0)
    task.cancel()
    yield END


def breaking_model() -> Model:
    """Make a model that fails after a cancelled call."""
    broken = False

    async def stream(request: ModelRequest) -> AsyncIterator[Chunk]:
        nonlocal broken
        try:
            yield TextDelta("a")
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            broken = True
            raise
        if not broken:
            yield END

    return StreamingModel(stream)


@pytest.mark.parametrize(
    ("model", "saying"),
    [
        (
            streams(swallows_cancellation),
            "cancelled after 0 chunks, in the model, it ends with [TextDelta",
        ),
        (streams(renames_call), "it ends with ModelError"),
        (streams(continues_after_close), "in the reader, it ends with RuntimeError"),
        (streams(leaves_a_task), "left tasks behind"),
        (breaking_model, "it does not finish"),
    ],
)
def test_suite_reports_a_call_that_cannot_be_cancelled(
    model: Callable[[], Model], saying: str
) -> None:
    failures = failed_tests(model)
    assert [*failures] == ["test_a_call_can_be_cancelled_at_any_time"]
    assert saying in failures["test_a_call_can_be_cancelled_at_any_time"]


@pytest.mark.filterwarnings("error")
def test_suite_accepts_permanent_tasks_of_a_model() -> None:
    def pooled() -> Model:
        pool: list[asyncio.Task[None]] = []

        async def stream(request: ModelRequest) -> AsyncIterator[Chunk]:
            if not pool:
                pool.append(asyncio.create_task(asyncio.sleep(60)))
            yield END

        return StreamingModel(stream)

    assert failed_tests(pooled) == {}


def raising_stream(error: Exception) -> tuple[Model, ModelRequest]:
    def fail(request: ModelRequest) -> str:
        raise error

    return FunctionModel(fail), request_of("Hi.")


@pytest.mark.parametrize(
    ("failing", "saying"),
    [
        (raising_stream(OSError("no route to host")), "no ModelError, but OSError"),
        (raising_stream(ModelError("")), "must say what failed"),
        ((text_stream(END)(), request_of("Hi.")), "no ModelError, but [Finish"),
    ],
)
def test_suite_reports_a_failure_other_than_model_error(
    failing: tuple[Model, ModelRequest], saying: str
) -> None:
    failures = failed_tests(text_stream(END), failing)
    assert [*failures] == ["test_a_failure_is_a_model_error"]
    assert saying in failures["test_a_failure_is_a_model_error"]


def test_suite_reports_a_model_that_hangs() -> None:
    async def hang(request: ModelRequest) -> str:
        await asyncio.sleep(60)
        return "too late"

    class Suite(ModelSuite):
        timeout_s = 0.01

        def model(self) -> Model:
            return FunctionModel(hang)

    with pytest.raises(TimeoutError):
        Suite().test_a_request_is_not_changed()


def test_suite_without_a_model_factory_raises_with_instructions() -> None:
    with pytest.raises(NotImplementedError, match="ModelSuite must say how its model is made"):
        ModelSuite().test_a_request_is_not_changed()


def test_suite_runs_under_unittest() -> None:
    class Suite(ModelSuite, unittest.TestCase):
        def model(self) -> Model:
            return text_stream(END)()

    ran = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Suite).run(ran)
    assert (ran.testsRun, len(ran.skipped), ran.wasSuccessful()) == (len(TESTS), 1, True)


def test_testing_package_needs_no_test_runner() -> None:
    code = "import harken.testing, sys; print('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
