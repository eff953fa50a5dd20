"""Run the conformance suite for models on the models of remote providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.llm.base import Model, ModelRequest
from harken.testing import ModelSuite, request_of
from tests.provider.server import Answer, Provider, ReceivedRequest
from tests.provider.wire import ANTHROPIC, OPENAI, Wire

LOOKS = [ToolCall(id_, FunctionCall("look", f'{{"at":"{id_}"}}')) for id_ in ("c1", "c2")]


class RemoteSuite(ModelSuite):
    """The common part of both suites: a provider on loopback and its answers."""

    wire: Wire

    @pytest.fixture(autouse=True)
    def served(self) -> Iterator[None]:
        with Provider(self.answer) as self.provider:
            yield

    def answer(self, received: ReceivedRequest) -> Answer:
        texts: Any = "It is Jill, who is late."
        if "broken" in str(received.body["messages"]):
            return self.wire.error(529, "Overloaded", "overloaded_error")
        if "window" in str(received.body["messages"]):
            thought = ThinkingPart("Both at once.", {"signature": "s"})
            texts = Message("assistant", [thought, TextPart("I look.")], LOOKS)
        return self.wire.answer(texts)

    def model(self) -> Model:
        return self.wire.model(self.provider)

    def failing(self) -> tuple[Model, ModelRequest]:
        return self.model(), request_of("broken")


class TestAnthropicModel(RemoteSuite):
    wire = ANTHROPIC


class TestOpenAIModel(RemoteSuite):
    wire = OPENAI
