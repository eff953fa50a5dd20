"""`harken.agent`: an agent and its session in one object."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import harken
from harken.core.stream import TextDelta
from harken.errors import AgentBusy, ModelError
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
            "pattern": "not a valid City",
            "calls": [{"final_answer": {"answer": {"name": "Oslo", "people": 1}}}],
        },
        {"pattern": "Accepted", "answer": "Done."},
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        assert agent.run_sync("Tell me of Oslo.", output=City) == City("Oslo", 1)


def test_who_does_not_answer_by_the_tool_is_asked_once_more(tmp_path: Path) -> None:
    model = scripted(
        {"pattern": "was not called with an answer", "answer": "I will not."},
        {"pattern": "Oslo", "answer": "A city."},
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        with pytest.raises(ModelError, match="no answer of type City: final_answer was not called"):
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


def test_a_type_without_a_schema_is_refused_before_the_model_is_asked(tmp_path: Path) -> None:
    with harken.agent(scripted({"answer": "x"}), session=tmp_path / "s.jsonl") as agent:
        with pytest.raises(TypeError):
            agent.run_sync("Hello.", output=type("Odd", (), {"__init__": lambda self, x: None}))
        assert agent.session.context(agent.root.agent_id) == []


def test_a_subagent_does_not_answer_for_the_agent(tmp_path: Path) -> None:
    answer = {"final_answer": {"answer": {"name": "Bergen", "people": 1}}}
    task = {"task": {"name": "Ann", "prompt": "Name a city."}}
    model = scripted(
        {"agent": "Ann", "pattern": "Name a city", "calls": [answer]},
        {"agent": "Ann", "pattern": "is for the agent", "answer": "Bergen, then."},
        {"agent": "main", "pattern": "Oslo", "calls": [task]},
        {"agent": "main", "answer": "I do not know."},
    )
    with harken.agent(model, session=tmp_path / "s.jsonl") as agent:
        with pytest.raises(ModelError, match="was not called with an answer"):
            agent.run_sync("Oslo or another?", output=City)
        assert "Bergen, then." in agent.session.path.read_text()


def test_a_second_turn_at_the_same_time_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    refused: list[object] = []

    async def ask_again() -> str:
        """Ask the agent something in the midst of its turn."""
        turns = (agent.run("And now?", output=City), anext(agent.stream("And now?")))
        refused.extend(await asyncio.gather(*turns, return_exceptions=True))
        return "Asked."

    async def read() -> str:
        chunks = [chunk async for chunk in agent.stream("Tea or coffee?")]
        return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))

    model = scripted(
        {"pattern": "Tea or coffee", "calls": [{"ask_again": {}}]},
        {"pattern": "Asked", "answer": "Tea, please."},
    )
    with harken.agent(model, tools=[ask_again], session=tmp_path / "s.jsonl") as agent:
        assert asyncio.run(read()) == "Tea, please."
    assert [type(error) for error in refused] == [AgentBusy, AgentBusy]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": 3}, "agent: model must be Model"),
        ({"session": None}, "agent: session must be str or Path"),
        ({"tools": weather}, "agent: tools must be Iterable"),
        ({"sesion": "s.jsonl"}, "did you mean 'session'"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path: Path, arguments: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"model": scripted(), "session": tmp_path / "s.jsonl", **arguments}
    with pytest.raises(TypeError, match=text):
        harken.agent(**given)


KILLED = """
import os, signal, sys, harken
def weather(city: str) -> str:
    "Tell the weather of a city."
    os.kill(os.getpid(), signal.SIGKILL)
rules = [{"pattern": "Oslo", "calls": [{"weather": {"city": "Oslo"}}]}]
harken.agent(harken.ScriptedModel(rules), tools=[weather], session=sys.argv[1]).run_sync("Oslo?")
"""


def test_a_killed_program_goes_on_with_its_session(tmp_path: Path) -> None:
    log = tmp_path / "s.jsonl"
    ran = subprocess.run([sys.executable, "-c", KILLED, str(log)], check=False)
    assert ran.returncode == -signal.SIGKILL
    model = scripted({"pattern": "Again", "answer": "It rains."})
    with harken.agent(model, tools=[weather], session=log) as agent:
        assert agent.run_sync("Again.") == "It rains."
        roles = [message.role for message in agent.session.context(agent.root.agent_id)]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
