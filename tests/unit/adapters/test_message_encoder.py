"""`MessageEncoder`: only messages that changed are encoded again, wherever they changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from harken.adapters.pydantic_ai.message_encoder import MessageEncoder
from harken.adapters.pydantic_ai.message_log import encode_messages

_TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Weather(BaseModel):
    """A result of a tool whose content the encoder does not compare."""

    degrees: int


def build_messages() -> list[Any]:
    return [
        ModelRequest([UserPromptPart(["look", BinaryContent(b"png", media_type="image/png")])]),
        ModelResponse(
            [TextPart("I call."), ToolCallPart("weather", {"place": ["Bern", {"days": 1}]}, "c1")],
            usage=RequestUsage(details={"cached": 1}),
            timestamp=_TIME,
        ),
        ModelRequest([ToolReturnPart("weather", Weather(degrees=7), "c1")]),
    ]


def rename_key(messages: list[Any]) -> None:
    place = messages[1].parts[1].args
    place["town"] = place.pop("place")


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "a member": lambda m: setattr(m[0], "instructions", "Be brief."),
    "a part": lambda m: setattr(m[1].parts[0], "content", "I wait."),
    "a new part": lambda m: m[1].parts.append(TextPart("And more.")),
    "a nested argument": lambda m: m[1].parts[1].args["place"][1].update(days=2),
    "a type": lambda m: m[1].parts[1].args["place"][1].update(days=True),
    "a key": rename_key,
    "usage": lambda m: m[1].usage.details.update(cached=2),
    "content in a prompt": lambda m: m[0].parts[0].content.pop(),
    "a result of an unknown kind": lambda m: setattr(m[2].parts[0].content, "degrees", 8),
    "another message": lambda m: m.__setitem__(1, replace(m[1], model_name="m")),
    "one less": lambda m: m.pop(),
    "one in front": lambda m: m.insert(0, ModelResponse([TextPart("Hello")], timestamp=_TIME)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_in_place_is_encoded(change: Callable[[list[Any]], object]) -> None:
    encoder, messages = MessageEncoder(), build_messages()
    before = encoder.encode(messages)
    change(messages)
    after = encoder.encode(messages)
    assert after == encode_messages(messages) != before
    assert encoder.encode(messages) == after


def test_a_message_that_did_not_change_keeps_its_line() -> None:
    messages: list[ModelMessage] = build_messages()[:2]
    encoder = MessageEncoder()
    before = encoder.encode(messages)
    after = encoder.encode([*messages, *build_messages()])
    assert all(new is old for new, old in zip(after, before, strict=False))


@pydantic_dataclass(config=ConfigDict(validate_assignment=True))
class Board:
    """A result of a tool that pydantic encodes, and of which an assignment replaces the members."""

    moves: int


def test_a_change_of_a_dataclass_of_the_program_is_encoded() -> None:
    board = Board(1)
    encoder, messages = MessageEncoder(), [ModelRequest([ToolReturnPart("play", board, "c1")])]
    encoder.encode([*messages])
    board.moves = 2
    assert encoder.encode([*messages]) == encode_messages([*messages])


def test_members_that_are_replaced_as_a_whole_are_encoded() -> None:
    part = TextPart("I call.")
    encoder, messages = MessageEncoder(), [ModelResponse([part], timestamp=_TIME)]
    encoder.encode([*messages])
    part.__dict__ = {**part.__dict__, "content": "I wait."}
    assert encoder.encode([*messages]) == encode_messages([*messages])
