"""Run the conformance suite for models on the built-in local models."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.errors import ModelError
from harken.llm.base import Model, ModelRequest
from harken.llm.replay import ReplayModel
from harken.llm.scripted import FunctionModel, ScriptedModel
from harken.session.session import build_entry
from harken.testing import ModelSuite, request_of
from tests.unit.llm.model_kit import SessionRecorder

RULES: list[dict[str, Any]] = [
    {"pattern": "Introduce", "thinking": "Who am I?", "answer": "Hi, I am Jack."},
    {"pattern": "window", "answer": "I look.", "calls": [{"look": {}}, {"look": {"at": "it"}}]},
    {"pattern": "Jill", "answer": "It is Jill."},
    {"pattern": "broken", "answer": "I was about to", "error": "the server is overloaded"},
]


def look(id_: str) -> ToolCall:
    return ToolCall(id_, FunctionCall("look", '{"at":"the door"}'))


class TestScriptedModel(ModelSuite):
    def model(self) -> Model:
        return ScriptedModel(RULES)

    def failing(self) -> tuple[Model, ModelRequest]:
        return self.model(), request_of("broken")


class TestSlowScriptedModel(ModelSuite):
    def model(self) -> Model:
        return ScriptedModel([{"answer": "slowly, word by word", "delay_s": 0.01}])

    def failing(self) -> tuple[Model, ModelRequest]:
        return ScriptedModel(RULES), request_of("What else?")


class TestReplayModel(ModelSuite):
    @pytest.fixture(autouse=True)
    def recorded(self, tmp_path: Path) -> None:
        self.log = tmp_path / "recorded.jsonl"
        recorder = SessionRecorder.create(self.log)
        root = recorder.create_agent("main")
        thought = Message("assistant", [ThinkingPart("Hm."), TextPart("Hi.")])
        acted = Message("assistant", None, [look("c1"), look("c2")])
        answers = [thought, acted, Message("assistant", "It is Jill.")]
        for request, answer in zip(self.requests(), answers, strict=True):
            agent = recorder.create_agent("Jack", recorder.session.agent(root).birth)
            for message in request.messages:
                recorder.session.append(build_entry(agent, message))
            recorder.add_response(agent, recorder.add_request(agent, tools=request.tools), answer)
        recorder.session.close()

    def model(self) -> Model:
        return ReplayModel.load(self.log)

    def failing(self) -> tuple[Model, ModelRequest]:
        return self.model(), request_of("What nobody asked.")


class TestFunctionModel(ModelSuite):
    def model(self) -> Model:
        return FunctionModel(self.answer)

    def failing(self) -> tuple[Model, ModelRequest]:
        return self.model(), request_of("")

    @staticmethod
    async def answer(request: ModelRequest) -> str | Message:
        await asyncio.sleep(0)
        if request.messages[-1].content == "":
            raise ModelError("no route to host")
        return Message("assistant", "I look.", [look("c1")]) if request.tools else "Hello, you."
