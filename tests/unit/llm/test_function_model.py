"""Python functions as models."""

from __future__ import annotations

import asyncio

import pytest

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.core.stream import Chunk, Finish, TextDelta
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from harken.llm.scripted import FunctionModel
from tests.unit.llm.model_kit import accumulate, collect_chunks, get_answer, request


def test_function_may_return_a_text() -> None:
    model = FunctionModel(lambda received: f"I am {received.agent}")
    assert collect_chunks(model, request("Hi")) == [
        TextDelta("I "),
        TextDelta("am "),
        TextDelta("Jack"),
        Finish(stop_reason="end_turn"),
    ]


def test_function_may_return_a_message() -> None:
    message = Message("assistant", None, [ToolCall("c1", FunctionCall("look", "{}"))])
    answer = accumulate(FunctionModel(lambda _: message, name="looker"), request("Hi"))
    assert (answer.message(), answer.finish) == (message, Finish(stop_reason="tool_use"))


def test_function_may_return_chunks_without_finish() -> None:
    pieces: list[Chunk] = [TextDelta("half an ans")]
    assert collect_chunks(FunctionModel(lambda _: pieces), request("Hi")) == pieces


def test_function_may_be_asynchronous() -> None:
    async def think(model_request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return f"{len(model_request.messages)}"

    assert get_answer(FunctionModel(think), request("Hi")).content == "1"


def test_function_may_fail() -> None:
    def fail(_: ModelRequest) -> str:
        raise ModelError("no route to host")

    with pytest.raises(ModelError, match="no route"):
        collect_chunks(FunctionModel(fail), request("Hi"))
