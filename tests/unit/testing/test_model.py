"""The suite for models finds what a model does wrong, each by the test that says so."""

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


class Streaming:
    """A model that is an asynchronous generator."""

    def __init__(self, stream: Stream, name: str = "streaming") -> None:
        self.stream, self.name = stream, name


def complaints(
    make: Callable[[], Model],
    failing: tuple[Model, ModelRequest] | None = None,
    *,
    deterministic: bool = True,
) -> dict[str, str]:
    """Return which tests such a model fails, and what they say."""

    class Suite(ModelSuite):
        def model(self) -> Model:
            return make()

        def failing(self) -> tuple[Model, ModelRequest] | None:
            return failing

    suite, found = Suite(), {}
    suite.deterministic = deterministic
    for name in TESTS:
        try:
            getattr(suite, name)()
        except AssertionError as error:
            found[name] = str(error)
        except unittest.SkipTest:
            pass
    return found


def says(*chunks: Chunk) -> Callable[[], Model]:
    return lambda: FunctionModel(lambda _: chunks)


def calls(*ids: str) -> Callable[[], Model]:
    made = [ToolCallDelta(at, "{}", id_, "look") for at, id_ in enumerate(ids)]
    return says(*made, Finish(stop_reason="tool_use"))


def streams(stream: Stream) -> Callable[[], Model]:
    return lambda: Streaming(stream)


def test_a_good_model_is_not_complained_of() -> None:
    assert complaints(lambda: FunctionModel(lambda _: "Hello, you there.")) == {}
    assert complaints(says(END)) == {}
    assert complaints(calls("a", "b")) == {}


@pytest.mark.parametrize(
    ("model", "found_by", "saying"),
    [
        (says(), "test_a_stream_ends_with_its_only_finish", "not one Finish, at the end"),
        (
            says(TextDelta("a")),
            "test_a_stream_ends_with_its_only_finish",
            "not one Finish, at the end",
        ),
        (
            says(END, TextDelta("a")),
            "test_a_stream_ends_with_its_only_finish",
            "not one Finish, at the end",
        ),
        (says(END, END), "test_a_stream_ends_with_its_only_finish", "not one Finish, at the end"),
        (calls("a", ""), "test_call_ids_are_there_and_unique", "without an id"),
        (calls("a", "a"), "test_call_ids_are_there_and_unique", "'a', 'a'"),
        (
            says(TextDelta("a"), PartDelta(ToolCallSlot("x")), END),
            "test_an_answer_can_be_logged_and_read_again",
            "cannot be logged",
        ),
    ],
)
def test_a_wrong_answer_is_found(model: Callable[[], Model], found_by: str, saying: str) -> None:
    assert saying in complaints(model)[found_by]


def test_what_is_no_chunk_is_found() -> None:
    odd: Any = "a plain text"

    class Suite(ModelSuite):
        def model(self) -> Model:
            return says(odd, END)()

    with pytest.raises(AssertionError, match="no chunks: .'a plain text'"):
        Suite().test_a_stream_ends_with_its_only_finish()


def test_an_id_of_an_open_call_is_taken_and_that_of_an_answered_one_free() -> None:
    made = Message("assistant", None, [ToolCall("a", FunctionCall("look", "{}"))])
    result = Message("tool", "Jill", tool_call_id="a", name="look")

    class Suite(ModelSuite):
        asked = request_of("Look.", made)

        def model(self) -> Model:
            return calls("a")()

        def requests(self) -> list[ModelRequest]:
            return [self.asked]

    suite = Suite()
    with pytest.raises(AssertionError, match="open are"):
        suite.test_call_ids_are_there_and_unique()
    suite.asked = request_of("Look.", made, result)
    suite.test_call_ids_are_there_and_unique()


def test_a_model_that_remembers_is_found_unless_it_is_said_to_do_so() -> None:
    def counting() -> Model:
        numbers = count()
        return FunctionModel(lambda _: f"answer {next(numbers)}")

    found = complaints(counting)
    assert [*found] == ["test_equal_requests_get_equal_answers"]
    assert "asked again" in found["test_equal_requests_get_equal_answers"]
    assert complaints(counting, deterministic=False) == {}


def test_two_models_that_differ_are_found() -> None:
    numbers = count()

    def numbered() -> Model:
        number = next(numbers)
        return FunctionModel(lambda _: f"I am number {number}")

    assert "another such model" in complaints(numbered)["test_equal_requests_get_equal_answers"]


def test_a_model_that_changes_its_request_is_found() -> None:
    def greedy(request: ModelRequest) -> str:
        assert isinstance(request.messages, list)
        del request.messages[1:]
        return "Hi."

    assert "test_a_request_is_not_changed" in complaints(lambda: FunctionModel(greedy))


async def swallows(request: ModelRequest) -> AsyncIterator[Chunk]:
    try:
        yield TextDelta("a")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    yield END


async def renames(request: ModelRequest) -> AsyncIterator[Chunk]:
    try:
        yield TextDelta("a")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        raise ModelError("cancelled") from None
    yield END


async def goes_on_when_left(request: ModelRequest) -> AsyncIterator[Chunk]:
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


def breaks() -> Model:
    """Make a model that is of no use after a cancelled call."""
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

    return Streaming(stream)


@pytest.mark.parametrize(
    ("model", "saying"),
    [
        (streams(swallows), "cancelled after 0 chunks, in the model, it ends with [TextDelta"),
        (streams(renames), "it ends with ModelError"),
        (streams(goes_on_when_left), "in the reader, it ends with RuntimeError"),
        (streams(leaves_a_task), "left tasks behind"),
        (breaks, "it does not finish"),
    ],
)
def test_a_call_that_cannot_be_cancelled_cleanly_is_found(
    model: Callable[[], Model], saying: str
) -> None:
    found = complaints(model)
    assert [*found] == ["test_a_call_can_be_cancelled_at_any_time"]
    assert saying in found["test_a_call_can_be_cancelled_at_any_time"]


@pytest.mark.filterwarnings("error")
def test_tasks_that_a_model_always_keeps_are_its_own_affair() -> None:
    def pooled() -> Model:
        pool: list[asyncio.Task[None]] = []

        async def stream(request: ModelRequest) -> AsyncIterator[Chunk]:
            if not pool:
                pool.append(asyncio.create_task(asyncio.sleep(60)))
            yield END

        return Streaming(stream)

    assert complaints(pooled) == {}


def raises(error: Exception) -> tuple[Model, ModelRequest]:
    def fail(request: ModelRequest) -> str:
        raise error

    return FunctionModel(fail), request_of("Hi.")


@pytest.mark.parametrize(
    ("failing", "saying"),
    [
        (raises(OSError("no route to host")), "no ModelError, but OSError"),
        (raises(ModelError("")), "must say what failed"),
        ((says(END)(), request_of("Hi.")), "no ModelError, but [Finish"),
    ],
)
def test_a_failure_that_is_no_model_error_is_found(
    failing: tuple[Model, ModelRequest], saying: str
) -> None:
    found = complaints(says(END), failing)
    assert [*found] == ["test_a_failure_is_a_model_error"]
    assert saying in found["test_a_failure_is_a_model_error"]


def test_a_model_that_hangs_is_found() -> None:
    async def hang(request: ModelRequest) -> str:
        await asyncio.sleep(60)
        return "too late"

    class Suite(ModelSuite):
        timeout_s = 0.01

        def model(self) -> Model:
            return FunctionModel(hang)

    with pytest.raises(TimeoutError):
        Suite().test_a_request_is_not_changed()


def test_who_forgets_to_say_how_the_model_is_made_is_told() -> None:
    with pytest.raises(NotImplementedError, match="ModelSuite must say how its model is made"):
        ModelSuite().test_a_request_is_not_changed()


def test_unittest_runs_the_suite_too() -> None:
    class Suite(ModelSuite, unittest.TestCase):
        def model(self) -> Model:
            return says(END)()

    ran = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Suite).run(ran)
    assert (ran.testsRun, len(ran.skipped), ran.wasSuccessful()) == (len(TESTS), 1, True)


def test_the_kit_needs_no_test_runner() -> None:
    code = "import harken.testing, sys; print('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
