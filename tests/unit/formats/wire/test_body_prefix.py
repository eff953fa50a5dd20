"""A body that begins like an earlier one is parsed as if it were alone."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.errors import FormatError
from harken.formats.wire.base import ParsedRequest, Piece, Protocol
from harken.formats.wire.piece_cache import MAX_PREFIXES, PieceCache
from harken.formats.wire.registry import WIRE_PROTOCOLS

ARRAYS = {
    "anthropic-messages": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
PATHS = {"gemini": "/v1beta/models/gemini-2.5-pro:generateContent"}


class CountingCache(PieceCache):
    looked_up: int = 0

    def find(self, data: bytes) -> Piece | None:
        self.looked_up += 1
        return super().find(data)


def message(name: str, number: int) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    if name == "gemini":
        return {"role": "model" if number % 2 else "user", "parts": [{"text": f"text {number}"}]}
    return {"role": role, "content": f'text {number} "messages":["x"] \\ é'}


def describe(parsed: ParsedRequest) -> object:
    """Return all that a parsed request consists of."""
    pieces = [(piece.data, piece.key) for piece in parsed.pieces]
    marks = [(list(path), value) for path, value in parsed.marks]
    return parsed.model, pieces, [*parsed.tools], dict(parsed.parameters), parsed.shape, marks


def parse(protocol: Protocol, body: bytes, cache: PieceCache | None) -> object:
    try:
        path = PATHS.get(protocol.name, "/v1")
        return describe(protocol.parse_request(path, body, cache))
    except FormatError as error:
        return str(error)


def change(dice: Random, name: str, messages: list[dict[str, Any]]) -> None:
    kind = dice.random()
    if kind < 0.1 and messages:
        del messages[dice.randrange(len(messages)) :]
    elif kind < 0.2 and messages:
        messages[dice.randrange(len(messages))] = message(name, dice.randrange(1_000))
    count = dice.choice([0, 1, 2, 2, 5, 30])
    messages += [message(name, len(messages) + number) for number in range(count)]


def write(dice: Random, name: str, messages: list[dict[str, Any]]) -> bytes:
    """Return a body as clients write it, or may write it."""
    marked = json.loads(json.dumps(messages))
    for marked_message in marked[-dice.randrange(4) :] if name == "anthropic-messages" else ():
        marked_message["cache_control"] = {"type": "ephemeral"}
    if marked and name == "anthropic-messages":
        marked[0]["cache_control"] = {"type": "ephemeral"}
    before: dict[str, Any] = {"model": "m"}
    after: dict[str, Any] = {"tools": [{"name": "f", "input_schema": {}}], "top_p": 1}
    if dice.random() < 0.3:
        (before if dice.random() < 0.5 else after)["metadata"] = {ARRAYS[name]: marked[:20]}
    body = before | {ARRAYS[name]: marked} | after
    separators = dice.choice([(",", ":"), (",", ":"), (", ", ": ")])
    text = json.dumps(body, separators=separators, indent=dice.choice([None] * 5 + [1]))
    if dice.random() < 0.1:  # The last of equal members counts.
        escaped = dice.choice([ARRAYS[name], f"\\u{ord(ARRAYS[name][0]):04x}{ARRAYS[name][1:]}"])
        text = f'{text[:-1]}, "{escaped}": {json.dumps(marked[:3])}}}'
    data = text.encode()
    return data[: dice.randrange(len(data))] if dice.random() < 0.05 else data


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(min_value=0), name=st.sampled_from([*ARRAYS]))
def test_any_sequence_of_bodies_is_parsed_as_each_alone(seed: int, name: str) -> None:
    dice, protocol, cache = Random(seed), WIRE_PROTOCOLS[name], PieceCache()
    conversations: list[list[dict[str, Any]]] = [[], []]
    for _ in range(12):
        messages = dice.choice(conversations)
        change(dice, name, messages)
        body = write(dice, name, messages)
        assert parse(protocol, body, cache) == parse(protocol, body, None)
        assert parse(protocol, body, cache) == parse(protocol, body, PieceCache())


@pytest.mark.parametrize("name", ARRAYS)
def test_only_elements_near_the_end_are_looked_up(name: str) -> None:
    protocol, cache = WIRE_PROTOCOLS[name], CountingCache()
    messages: list[dict[str, Any]] = []
    for number in range(400):
        messages.append(message(name, number))
        body = json.dumps({"model": "m", ARRAYS[name]: messages}).encode()
        cache.looked_up = 0
        parse(protocol, body, cache)
        assert cache.looked_up <= (25 if number < 25 else 5)


@pytest.mark.parametrize(
    "end",
    [
        b'x{"role":"user"}]}',
        b",]}",
        b"}",
        b"]",
        b"",
        b',{"role":"user","content":"\xff"}]}',
        b"] }",
    ],
)
def test_known_beginning_with_any_end_is_parsed_as_alone(end: bytes) -> None:
    protocol, cache = WIRE_PROTOCOLS["openai-chat"], PieceCache()
    body = json.dumps({"messages": [message("openai-chat", number) for number in range(40)]})
    parse(protocol, body.encode(), cache)
    beginning = body.encode()[:-2]
    for data in (beginning + end, beginning[: beginning.rindex(b", {")] + end):
        assert parse(protocol, data, cache) == parse(protocol, data, None)


def test_array_of_the_same_name_inside_of_another_member_is_not_taken_for_it() -> None:
    protocol, cache = WIRE_PROTOCOLS["openai-chat"], PieceCache()
    messages = [message("openai-chat", number) for number in range(40)]
    for count in (30, 31, 32, 40):
        equal = {"model": "m", "metadata": {"messages": messages[:count]}}
        for body in (equal | {"messages": messages[:count]}, equal | {"messages": messages[:30]}):
            data = json.dumps(body).encode()
            assert parse(protocol, data, cache) == parse(protocol, data, None)


def test_number_of_cached_bodies_is_limited() -> None:
    protocol, cache = WIRE_PROTOCOLS["openai-chat"], PieceCache(max_bytes=100_000)
    for conversation in range(3 * MAX_PREFIXES):
        messages = [{"role": "user", "content": f"{conversation} {n}"} for n in range(30)]
        parse(protocol, json.dumps({"messages": messages}).encode(), cache)
        assert len(cache._prefixes) <= MAX_PREFIXES
    large = [{"role": "user", "content": "x" * 5_000} for _ in range(30)]
    parse(protocol, json.dumps({"messages": large}).encode(), cache)
    assert sum(len(prefix.body) for prefix in cache._prefixes) <= 50_000
