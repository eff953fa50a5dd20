"""Typed answers: a tool with the schema of a type, which the model calls with its answer.

Types are those of msgspec (structs, dataclasses, lists, dicts, literals, ...) and models of
pydantic. An answer that does not fit is an error that the model reads, so that it can correct it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from harken.agents import texts
from harken.core.ids import AgentId
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, schema_of

T = TypeVar("T")
TOOL_NAME = "final_answer"
REQUEST = texts.ANSWER_TOOL_REQUEST.format(TOOL_NAME)
_DESCRIPTION = "Give your final answer. Call this once, when you know the answer."


class _Arguments(msgspec.Struct):
    answer: Any


class TypedAnswer(Generic[T]):
    """Collects the answer of one agent as a value of a type."""

    def __init__(self, output: type[T], agent_id: AgentId) -> None:
        """Raise TypeError if there is no JSON schema of the type."""
        self._agent_id = agent_id
        self._convert, parameters = _converter(output)
        self.name = getattr(output, "__name__", str(output))
        self.values: list[T] = []
        """The valid answers, oldest first."""
        self.problem = texts.ANSWER_MISSING.format(TOOL_NAME)
        """Why there is no valid answer."""
        self.tool = Tool(
            name=TOOL_NAME,
            description=_DESCRIPTION,
            parameters=parameters,
            function=self._accept,
            arguments=_Arguments,
            idempotent=True,
            caller="caller",
        )
        """The tool that the model calls with its answer."""

    async def _accept(self, answer: Any, caller: ToolContext) -> str:
        if caller.agent.agent_id != self._agent_id:
            raise ToolError(f"{TOOL_NAME} is for the agent that the user asked")
        try:
            self.values.append(self._convert(answer))
        except ValueError as error:  # the base class of msgspec's and of pydantic's errors
            self.problem = texts.ANSWER_INVALID.format(self.name, error)
            raise ToolError(self.problem) from None
        return texts.ANSWER_ACCEPTED


def _converter(output: type[T]) -> tuple[Callable[[Any], T], dict[str, Any]]:
    """Return the function that makes a value of JSON values, and the parameters of the tool."""
    if not hasattr(output, "model_validate"):
        arguments = msgspec.defstruct("FinalAnswer", [("answer", output)])
        return partial(msgspec.convert, type=output), schema_of(arguments)
    from pydantic import TypeAdapter  # noqa: PLC0415 - only for programs that use it

    adapter = TypeAdapter(output)
    schema = adapter.json_schema()
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    properties = {"properties": {"answer": schema}, "required": ["answer"]}
    return adapter.validate_python, {"type": "object", **properties, **definitions}
