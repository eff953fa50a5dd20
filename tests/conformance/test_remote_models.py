"""Models behind a network do what every model must do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.llm.base import Model, ModelRequest
from harken.testing import ModelSuite, request_of
from tests.provider.server import Answer, Asked, Provider
from tests.provider.wire import ANTHROPIC, OPENAI, Wire

LOOKS = [ToolCall(id_, FunctionCall("look", f'{{"at":"{id_}"}}')) for id_ in ("c1", "c2")]


class RemoteSuite(ModelSuite):
    """What both have in common: a provider on loopback, and what it answers."""

    wire: Wire

    @pytest.fixture(autouse=True)
    def served(self) -> Iterator[None]:
        with Provider(self.answer) as self.provider:
            yield

    def answer(self, asked: Asked) -> Answer:
        said: Any = "It is Jill, who is late."
        if "broken" in str(asked.body["messages"]):
            return self.wire.error(529, "Overloaded", "overloaded_error")
        if "window" in str(asked.body["messages"]):
            thought = ThinkingPart("Both at once.", {"signature": "s"})
            said = Message("assistant", [thought, TextPart("I look.")], LOOKS)
        return self.wire.answer(said)

    def model(self) -> Model:
        return self.wire.model(self.provider)

    def failing(self) -> tuple[Model, ModelRequest]:
        return self.model(), request_of("broken")


class TestAnthropicModel(RemoteSuite):
    wire = ANTHROPIC


class TestOpenAIModel(RemoteSuite):
    wire = OPENAI
