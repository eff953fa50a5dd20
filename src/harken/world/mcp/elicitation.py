"""Elicitation: a form of a server that the user fills in, field by field.

The user sees which server asks. An invalid answer is reported and asked again, a few times. If no
user is available or the user declines, the server is informed.

Source: the protocol's "Elicitation", revisions 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from harken.world.shell.output import readable
from harken.world.user import User, UserQuestion, UserUnavailable

DECLINE = "decline"
ACCEPT = "accept"
LEAVE_OUT = "leave it out"
TRIES = 3
MAX_FIELDS = 20
MAX_CHARACTERS = 2000
MAX_OPTIONS = 50

Value: TypeAlias = str | int | float | bool | list[str] | None
_EMAIL_PATTERN = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class _Declined(Exception):
    """The user declines to answer."""


class _InvalidAnswer(Exception):
    """An invalid answer; the text describes a valid one."""


class ElicitationForm(msgspec.Struct, frozen=True):
    """Asks a user for the values of a form of a server."""

    server: str
    agent: str
    """The agent with the call that caused the form."""
    user: User | None

    async def fill(self, params: ElicitRequestParams) -> ElicitResult:
        """Return the answers of the user."""
        try:
            if self.user is None:
                raise UserUnavailable
            if isinstance(params, ElicitRequestFormParams):
                return await self._ask_fields(params)
            return await self._ask_about_page(params.message, params.url)
        except UserUnavailable:
            return ElicitResult(action="cancel")
        except _Declined:
            return ElicitResult(action="decline")

    async def _ask_about_page(self, message: str, url: str) -> ElicitResult:
        """Show a URL. It is never opened here, because it may be malicious."""
        if urlsplit(url).scheme not in ("http", "https"):
            return ElicitResult(action="decline")
        text = f"{_truncate(message)}\nPage (open it yourself if you trust it): {url!r}"
        answer = await self._ask(text, [ACCEPT, DECLINE])
        return ElicitResult(action="accept" if answer.lower() == ACCEPT else "decline")

    async def _ask_fields(self, params: ElicitRequestFormParams) -> ElicitResult:
        fields = _parse_fields(params.requested_schema)
        if fields is None:
            return ElicitResult(action="cancel")
        if not fields:
            answer = await self._ask(_truncate(params.message), [ACCEPT, DECLINE])
            return ElicitResult(action="accept" if answer.lower() == ACCEPT else "decline")
        content: dict[str, Value] = {}
        for number, field in enumerate(fields):
            message = f"{_truncate(params.message)}\n" if number == 0 else ""
            value = await self._ask_field(message, field)
            if value is not _OMITTED:
                content[field.name] = value
        return ElicitResult(action="accept", content=content)

    async def _ask_field(self, message: str, field: Field) -> Any:
        """Ask for a field and return its value. Raises UserUnavailable if no answer is valid."""
        error_text = ""
        for _ in range(TRIES):
            answer = await self._ask(f"{message}{error_text}{field.question}", field.options)
            if answer.strip().lower() == DECLINE:
                raise _Declined
            try:
                return field.read(answer.strip())
            except _InvalidAnswer as error:
                error_text = f"{answer[:80]!r} is not valid: {error}.\n"
        raise UserUnavailable

    async def _ask(self, text: str, options: Sequence[str]) -> str:
        assert self.user is not None
        question = f"MCP server {self.server} asks: {text}"
        return str(
            await self.user.ask(UserQuestion(agent=self.agent, question=question, options=options))
        )


_OMITTED = object()
"""Stands for the value of a field that is left out."""


class Field(msgspec.Struct, frozen=True):
    """A field of a form."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def choices(self) -> dict[str, str]:
        """The allowed values by their displayed names; empty if any value is allowed."""
        inner = self.schema.get("items")
        schema = inner if self.is_list and isinstance(inner, Mapping) else self.schema
        titled_options = schema.get("oneOf") or schema.get("anyOf")
        if isinstance(titled_options, list):
            options = [
                option
                for option in titled_options
                if isinstance(option, Mapping) and "const" in option
            ]
            return {
                str(option.get("title", option["const"])): str(option["const"])
                for option in options
            }
        values, names = schema.get("enum"), schema.get("enumNames")
        values = values if isinstance(values, list) else []
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return {str(name): str(value) for name, value in zip(names, values, strict=True)}

    @property
    def is_list(self) -> bool:
        """Whether several values may be selected."""
        return self.schema.get("type") == "array"

    @property
    def options(self) -> list[str]:
        """The options for the user."""
        names = list(self.choices)[:MAX_OPTIONS]
        if self.schema.get("type") == "boolean":
            names = ["yes", "no"]
        return [*names, *([] if self.required else [LEAVE_OUT]), DECLINE]

    @property
    def question(self) -> str:
        """The question for the user."""
        title = _truncate(str(self.schema.get("title") or self.name), 100)
        description = _truncate(str(self.schema.get("description") or ""), 500)
        notes = [_KIND_HINTS.get(str(self.schema.get("type")), "")]
        if "default" in self.schema:
            notes.append(f"by default {_truncate(str(self.schema['default']), 100)}")
        note_text = ", ".join(note for note in notes if note)
        description_text = f": {description}" if description else ""
        return f"{title}{description_text}{f' ({note_text})' if note_text else ''}"

    def read(self, answer: str) -> Any:
        """Parse an answer to a value, or `_OMITTED`. Raises _InvalidAnswer."""
        if not answer and "default" in self.schema:
            return self.schema["default"]
        if answer.lower() == LEAVE_OUT or (not answer and not self.required):
            if self.required:
                raise _InvalidAnswer("a value is required")
            return self.schema.get("default", _OMITTED)
        if self.is_list:
            return self._parse_list(answer)
        if self.choices:
            return self._parse_choice(answer)
        match self.schema.get("type"):
            case "boolean":
                return _parse_bool(answer)
            case "integer" | "number":
                return self._parse_number(answer)
            case _:
                return self._check_text(answer)

    def _parse_choice(self, answer: str) -> str:
        for name, value in self.choices.items():
            if answer.lower() in (name.lower(), value.lower()):
                return value
        raise _InvalidAnswer(f"expected one of {', '.join(list(self.choices)[:MAX_OPTIONS])}")

    def _parse_list(self, answer: str) -> list[str]:
        parts = [part.strip() for part in answer.split(",") if part.strip()]
        values = [self._parse_choice(part) if self.choices else part for part in parts]
        min_items, max_items = self.schema.get("minItems"), self.schema.get("maxItems")
        if isinstance(min_items, int) and len(values) < min_items:
            raise _InvalidAnswer(f"at least {min_items} are required, separated by commas")
        if isinstance(max_items, int) and len(values) > max_items:
            raise _InvalidAnswer(f"at most {max_items} are allowed")
        return values

    def _parse_number(self, answer: str) -> float:
        try:
            number = int(answer) if self.schema.get("type") == "integer" else float(answer)
        except ValueError:
            qualifier = "whole " if self.schema.get("type") == "integer" else ""
            raise _InvalidAnswer(f"expected a {qualifier}number") from None
        minimum, maximum = self.schema.get("minimum"), self.schema.get("maximum")
        if not math.isfinite(number):
            raise _InvalidAnswer("expected a number")
        if isinstance(minimum, int | float) and number < minimum:
            raise _InvalidAnswer(f"the minimum is {minimum:g}")
        if isinstance(maximum, int | float) and number > maximum:
            raise _InvalidAnswer(f"the maximum is {maximum:g}")
        return number

    def _check_text(self, answer: str) -> str:
        min_length, max_length = self.schema.get("minLength"), self.schema.get("maxLength")
        if isinstance(min_length, int) and len(answer) < min_length:
            raise _InvalidAnswer(f"at least {min_length} characters are required")
        if isinstance(max_length, int) and len(answer) > max_length:
            raise _InvalidAnswer(f"at most {max_length} characters are allowed")
        if not _is_of_format(answer, self.schema.get("format")):
            raise _InvalidAnswer(f"expected a {self.schema.get('format')}")
        return answer


_KIND_HINTS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "several are possible, separated by commas",
}


def _parse_fields(schema: Mapping[str, Any]) -> list[Field] | None:
    """Parse the fields of a form. Return None if a person could not fill it in."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or len(properties) > MAX_FIELDS:
        return None
    if not all(isinstance(schema, Mapping) for schema in properties.values()):
        return None
    required_names = required if isinstance(required, list) else []
    return [Field(str(name), schema, name in required_names) for name, schema in properties.items()]


def _parse_bool(answer: str) -> bool:
    if answer.lower() in ("yes", "y", "true"):
        return True
    if answer.lower() in ("no", "n", "false"):
        return False
    raise _InvalidAnswer("expected yes or no")


def _is_of_format(text: str, format: object) -> bool:
    try:
        match format:
            case "email":
                return bool(_EMAIL_PATTERN.fullmatch(text))
            case "uri":
                return bool(urlsplit(text).scheme)
            case "date":
                return bool(date.fromisoformat(text))
            case "date-time":
                return bool(datetime.fromisoformat(text))
            case _:
                return True
    except ValueError:
        return False


def _truncate(text: str, max_chars: int = MAX_CHARACTERS) -> str:
    clean_text = readable(text).strip()
    return clean_text if len(clean_text) <= max_chars else f"{clean_text[:max_chars]}..."
