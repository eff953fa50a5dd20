"""A scripted model of the OpenAI Agents SDK, and runs with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from harken.adapters.openai_agents import HarkenSession


class EchoModel(Model):
    """A model that repeats the last text of the user, and reads the weather if it is asked for."""

    def __init__(self) -> None:
        self.inputs: list[list[Any]] = []

    async def get_response(
        self, system_instructions: str | None, input: Any, *_: Any, **options: Any
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else [*input]
        self.inputs.append(items)
        last = items[-1]
        if last.get("type") == "function_call_output":
            output: Any = _answer(f"It is {last['output']}.")
        elif "weather" in str(last["content"]):
            output = ResponseFunctionToolCall(
                arguments='{"place": "Rome"}',
                call_id=f"call-{len(items)}",
                name="weather",
                type="function_call",
            )
        else:
            output = _answer(f"echo {last['content']}")
        return ModelResponse([output], Usage(requests=1, input_tokens=5, output_tokens=2), None)

    def stream_response(self, *_: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _answer(text: str) -> ResponseOutputMessage:
    content = {"type": "output_text", "text": text, "annotations": []}
    members = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    return ResponseOutputMessage.model_validate({**members, "content": [content]})


@function_tool
def weather(place: str) -> str:
    """Return the weather of a place."""
    return f"sunny in {place}"


@function_tool(needs_approval=True)
def ask_weather(place: str) -> str:
    """Return the weather of a place, if the user approves."""
    return f"sunny in {place}"


async def say(session: HarkenSession, text: str, model: EchoModel | None = None) -> str:
    """Run an agent with a text, and return its answer."""
    agent = Agent("Ann", model=model or EchoModel(), tools=[weather])
    config = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, text, session=session, run_config=config)
    return str(result.final_output)
