"""A scripted agent of pydantic-ai, and runs with it."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from harken.adapters.pydantic_ai import HarkenHistory


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Repeat the last text of the user, or read the weather if it is asked for."""
    last: Any = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"It is {last.content}.")])
    if "weather" in str(last.content):
        return ModelResponse(
            parts=[ToolCallPart("weather", {"place": "Rome"}, f"call-{len(messages)}")]
        )
    return ModelResponse(parts=[TextPart(f"echo {last.content}")])


def weather(place: str) -> str:
    """Return the weather of a place."""
    return f"sunny in {place}"


def make_agent(**options: Any) -> Agent[None, str]:
    """Return an agent with the scripted model."""
    return Agent(FunctionModel(answer), tools=[weather], name="Ann", **options)


async def say(history: HarkenHistory, text: str) -> str:
    """Run an agent with a text, and return its answer."""
    result = await make_agent().run(text, message_history=await history.load())
    await history.add(result.new_messages())
    return result.output
