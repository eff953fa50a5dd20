"""Forms: what a user answers becomes values that fit, or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from harken.world.mcp.elicitation import ElicitationForm
from tests.unit.world.permissions.people import Person


def filled(person: Person, schema: Any, message: str = "Tell me.") -> ElicitResult:
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return asyncio.run(ElicitationForm("docs", "main", person).fill(params))


def field(schema: dict[str, Any], *answers: str, required: bool = True) -> Any:
    """Return what comes of answers to a form of one field; the action where that is all."""
    form = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}
    result = filled(Person([*answers]), form)
    return result.action if result.content is None else result.content.get("x", "left out")


@pytest.mark.parametrize(
    ("schema", "answers", "value"),
    [
        ({"type": "string"}, ["tea"], "tea"),
        ({"type": "string", "maxLength": 3}, ["coffee", "tea"], "tea"),
        ({"type": "string", "format": "email"}, ["me", "me@example.org"], "me@example.org"),
        ({"type": "string", "format": "uri"}, ["here", "https://x.org"], "https://x.org"),
        ({"type": "string", "format": "date"}, ["1.2.", "2026-01-02"], "2026-01-02"),
        (
            {"type": "string", "format": "date-time"},
            ["2026-01-02T03:04:05Z"],
            "2026-01-02T03:04:05Z",
        ),
        ({"type": "integer"}, ["1.5", "2"], 2),
        ({"type": "integer", "minimum": 3, "maximum": 5}, ["2", "6", "4"], 4),
        ({"type": "number"}, ["nan", "1.5"], 1.5),
        ({"type": "boolean"}, ["maybe", "yes"], True),
        ({"type": "boolean"}, ["no"], False),
        ({"type": "string", "enum": ["a", "b"]}, ["c", "B"], "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ann", "Bob"]}, ["Bob"], "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "Ann"}]}, ["Ann"], "a"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a, b"], ["a", "b"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A!"}]}}, ["A!"], ["a"]),
        ({"type": "array", "minItems": 1, "items": {"enum": ["a"]}}, [",", "a"], ["a"]),
        ({"type": "string", "default": "tea"}, [""], "tea"),
        ({"type": "string"}, ["", "decline"], ""),
        ({"type": "integer"}, ["x", "y", "z"], "cancel"),
        ({"type": "integer"}, ["Decline"], "decline"),
    ],
)
def test_an_answer_is_read_by_its_schema(
    schema: dict[str, Any], answers: list[str], value: Any
) -> None:
    assert field(schema, *answers) == value


def test_what_is_not_needed_may_be_left_out() -> None:
    assert field({"type": "integer"}, "leave it out", required=False) == "left out"
    assert field({"type": "integer", "default": 7}, "leave it out", required=False) == 7
    assert field({"type": "string"}, "leave it out", "tea") == "tea"


def test_a_form_without_fields_is_a_question_of_yes_or_no() -> None:
    assert filled(Person(["accept"]), {"type": "object", "properties": {}}).action == "accept"
    assert filled(Person(["hm"]), {"type": "object", "properties": {}}).action == "decline"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"properties": {"x": 5}},
        {"properties": {f"x{n}": {"type": "string"} for n in range(21)}},
    ],
)
def test_a_form_that_nobody_could_fill_in_is_not_shown(schema: Any) -> None:
    person = Person([])
    assert filled(person, schema).action == "cancel"
    assert person.asked == []


def test_what_a_server_writes_cannot_steer_a_terminal_nor_fill_it() -> None:
    person = Person(["tea"])
    schema = {"properties": {"x": {"type": "string", "title": "\x1b[2Jdrink"}}}
    filled(person, schema, "\x1b]0;title\x07" + "m" * 10_000)
    [asked] = person.asked
    assert "\x1b" not in asked.question
    assert len(asked.question) < 2300


@pytest.mark.parametrize(
    ("url", "answers", "action", "is_shown"),
    [
        ("https://example.org/pay", ["accept"], "accept", True),
        ("https://example.org/pay", ["why?"], "decline", True),
        ("file:///etc/passwd", [], "decline", False),
        ("javascript:alert(1)", [], "decline", False),
    ],
)
def test_a_page_is_shown_and_never_opened(
    url: str, answers: list[str], action: str, is_shown: bool
) -> None:
    person = Person([*answers])
    params = ElicitRequestURLParams(message="Pay here.", url=url, elicitation_id="1")
    assert asyncio.run(ElicitationForm("docs", "main", person).fill(params)).action == action
    assert [url in asked.question for asked in person.asked] == ([True] if is_shown else [])
