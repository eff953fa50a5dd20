"""`harken.agent`: an agent and its session in one object."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import harken
from harken.core.stream import TextDelta
from harken.errors import ModelError
from harken.llm.base import Model
from harken.llm.scripted import ScriptedModel


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"It rains in {city}."


def scripted(*rules: dict[str, Any]) -> Model:
    return ScriptedModel([*rules])


def answering(answer: object) -> dict[str, Any]:
    return {"pattern": "Oslo", "calls": [{"final_answer": {"answer": answer}}]}


@dataclass
class City:
    name: str
    people: int


class CityStruct(msgspec.Struct):
    name: str
    people: int


class CityModel(pydantic.BaseModel):
    name: str
    people: int


def test_it_answers_with_a_tool_and_resumes(tmp_path: Path) -> None:
    model = scripted(
        {"pattern": "Will it rain", "calls": [{"weather": {"city": "Oslo"}}]},
        {"pattern": "It rains", "answer": "Take an umbrella."},
        {"pattern": "And now", "answer": "Still."},
    )
    log = tmp_path / "tea.jsonl"
    with harken.agent(model, tools=[weather], session=log) as agent:
        assert agent.run_sync("Will it rain in Oslo?") == "Take an umbrella."
    with harken.agent(model, tools=[weather], session=log) as agent:
        assert agent.run_sync("And now?") == "Still."
        heard = [message.role for message in agent.session.context(agent.root.agent_id)]
        assert heard == ["user", "assistant", "tool", "assistant", "user", "assistant"]


@pytest.mark.parametrize("type_", [City, CityStruct, CityModel])
def test_an_answer_has_the_type_that_was_asked_for(tmp_path: Path, type_: type[Any]) -> None:
    model = scripted(
        answering({"name": "Oslo", "people": 700_000}), {"pattern": "Accepted", "answer": "Done."}
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        city = agent.run_sync("Tell me of Oslo.", output=type_)
    assert isinstance(city, type_)
    assert (city.name, city.people) == ("Oslo", 700_000)


def test_types_without_fields_are_answers_too(tmp_path: Path) -> None:
    model = scripted(answering([1, 2]), {"pattern": "Accepted", "answer": "Done."})
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        assert agent.run_sync("Oslo?", output=list[int]) == [1, 2]


def test_an_invalid_answer_is_corrected(tmp_path: Path) -> None:
    model = scripted(
        answering({"name": "Oslo", "people": "many"}),
        {
            "pattern": "no valid City",
            "calls": [{"final_answer": {"answer": {"name": "Oslo", "people": 1}}}],
        },
        {"pattern": "Accepted", "answer": "Done."},
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        assert agent.run_sync("Tell me of Oslo.", output=City) == City("Oslo", 1)


def test_who_does_not_answer_by_the_tool_is_asked_once_more(tmp_path: Path) -> None:
    model = scripted(
        {"pattern": "did not call final_answer", "answer": "I will not."},
        {"pattern": "Oslo", "answer": "A city."},
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        with pytest.raises(ModelError, match="no answer of type City: the model did not call"):
            agent.run_sync("Tell me of Oslo.", output=City)
        assert "final_answer" not in agent.root.runtime.world.tools
        context = agent.session.context(agent.root.agent_id)
        assert [message.role for message in context].count("user") == 2


def test_an_answer_streams(tmp_path: Path) -> None:
    async def texts() -> str:
        with harken.agent(
            scripted({"answer": "Tea, please."}), session=tmp_path / "s.jsonl"
        ) as agent:
            chunks = [chunk async for chunk in agent.stream("Tea or coffee?")]
        return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))

    assert asyncio.run(texts()) == "Tea, please."


def test_a_failing_model_fails_the_stream(tmp_path: Path) -> None:
    async def read() -> None:
        model = scripted({"pattern": "nothing that is said", "answer": "x"})
        with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
            async for _ in agent.stream("Tea or coffee?"):
                pass

    with pytest.raises(ModelError):
        asyncio.run(read())
