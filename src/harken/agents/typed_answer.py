"""Typed answers: a tool with the schema of a type, which the model calls with its answer.

Types are those of msgspec (structs, dataclasses, lists, dicts, literals, ...) and models of
pydantic. An answer that does not fit is an error that the model reads, so that it can correct it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from harken.world.result import ToolError
from harken.world.tool import Tool

T = TypeVar("T")
TOOL_NAME = "final_answer"
REQUEST = f"Call the tool `{TOOL_NAME}` with your answer."
_DESCRIPTION = "Give your final answer. Call this once, when you know the answer."


class _Arguments(msgspec.Struct):
    answer: Any


class TypedAnswer(Generic[T]):
    """Collects one answer of a type."""

    def __init__(self, output: type[T]) -> None:
        """Raises TypeError if the type has no JSON schema."""
        self.output = output
        self.values: list[T] = []
        """The valid answers, oldest first."""
        self.problem = f"the model did not call {TOOL_NAME}"
        """Why there is no valid answer."""

    @property
    def tool(self) -> Tool:
        """The tool that the model calls with its answer."""
        return Tool(
            name=TOOL_NAME,
            description=_DESCRIPTION,
            parameters=self._schema(),
            function=self._take,
            arguments=_Arguments,
            idempotent=True,
        )

    def _schema(self) -> dict[str, Any]:
        schema = dict(_adapter(self.output).json_schema()) if _is_pydantic(self.output) else None
        if schema is None:
            schema = msgspec.json.schema(self.output)
        definitions: Mapping[str, Any] = schema.pop("$defs", {})
        return {
            "type": "object",
            "properties": {"answer": schema},
            "required": ["answer"],
            **({"$defs": definitions} if definitions else {}),
        }

    async def _take(self, answer: Any) -> str:
        try:
            if _is_pydantic(self.output):
                value = _adapter(self.output).validate_python(answer)
            else:
                value = msgspec.convert(answer, self.output)
        except (
            ValueError
        ) as error:  # msgspec's and pydantic's errors of validation are of this type
            self.problem = f"the answer is no valid {self.output.__name__}: {error}"
            raise ToolError(self.problem) from None
        self.values.append(value)
        return "Accepted."


def _is_pydantic(type_: type) -> bool:
    return hasattr(type_, "model_validate") and hasattr(type_, "model_json_schema")


def _adapter(type_: type) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - only for programs that use it

    return TypeAdapter(type_)
