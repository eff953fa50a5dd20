"""Elicitation forms: answers of the user become valid values or are rejected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from harken.world.mcp.elicitation import ElicitationForm
from tests.unit.world.permissions.user_kit import ScriptedUser


def fill_form(person: ScriptedUser, schema: Any, message: str = "Tell me.") -> ElicitResult:
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return asyncio.run(ElicitationForm("docs", "main", person).fill(params))


def fill_field(schema: dict[str, Any], *answers: str, required: bool = True) -> Any:
    """Return the value for a form of one field, or the action alone."""
    form = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}
    result = fill_form(ScriptedUser([*answers]), form)
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
def test_answer_is_parsed_by_its_schema(
    schema: dict[str, Any], answers: list[str], value: Any
) -> None:
    assert fill_field(schema, *answers) == value


def test_optional_field_may_be_omitted() -> None:
    assert fill_field({"type": "integer"}, "leave it out", required=False) == "left out"
    assert fill_field({"type": "integer", "default": 7}, "leave it out", required=False) == 7
    assert fill_field({"type": "string"}, "leave it out", "tea") == "tea"


def test_form_without_fields_is_a_yes_or_no_question() -> None:
    assert (
        fill_form(ScriptedUser(["accept"]), {"type": "object", "properties": {}}).action == "accept"
    )
    assert fill_form(ScriptedUser(["hm"]), {"type": "object", "properties": {}}).action == "decline"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"properties": {"x": 5}},
        {"properties": {f"x{n}": {"type": "string"} for n in range(21)}},
    ],
)
def test_unsupported_form_is_not_shown(schema: Any) -> None:
    person = ScriptedUser([])
    assert fill_form(person, schema).action == "cancel"
    assert person.questions == []


def test_server_text_is_truncated_and_stripped_of_control_characters() -> None:
    person = ScriptedUser(["tea"])
    schema = {"properties": {"x": {"type": "string", "title": "\x1b[2Jdrink"}}}
    fill_form(person, schema, "\x1b]0;title\x07" + "m" * 10_000)
    [request] = person.questions
    assert "\x1b" not in request.question
    assert len(request.question) < 2300


@pytest.mark.parametrize(
    ("url", "answers", "action", "is_shown"),
    [
        ("https://example.org/pay", ["accept"], "accept", True),
        ("https://example.org/pay", ["why?"], "decline", True),
        ("file:///etc/passwd", [], "decline", False),
        ("javascript:alert(1)", [], "decline", False),
    ],
)
def test_url_is_shown_and_never_opened(
    url: str, answers: list[str], action: str, is_shown: bool
) -> None:
    person = ScriptedUser([*answers])
    params = ElicitRequestURLParams(message="Pay here.", url=url, elicitation_id="1")
    assert asyncio.run(ElicitationForm("docs", "main", person).fill(params)).action == action
    assert [url in request.question for request in person.questions] == ([True] if is_shown else [])
