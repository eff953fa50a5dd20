"""Elicitation: what a server wants to know from the user, asked field by field.

The user reads which server asks. An answer that does not fit is told, and asked for again, a few
times. Where nobody is there, or the user will not say, the server hears so.

Source: the protocol's "Elicitation", revisions 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

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
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class _Declined(Exception):
    """The user will not say."""


class _DoesNotFit(Exception):
    """An answer that is none; the text says what one looks like."""


@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """Asks one user what one server wants to know."""

    server: str
    agent: str
    """Who made the call that the server asks for."""
    user: User | None

    async def fill(self, params: ElicitRequestParams) -> ElicitResult:
        """Return what the user answers."""
        try:
            if self.user is None:
                raise UserUnavailable
            if isinstance(params, ElicitRequestFormParams):
                return await self._fields(params)
            return await self._page(params.message, params.url)
        except UserUnavailable:
            return ElicitResult(action="cancel")
        except _Declined:
            return ElicitResult(action="decline")

    async def _page(self, message: str, url: str) -> ElicitResult:
        """Show an address. It is never opened here: it may be anything."""
        if urlsplit(url).scheme not in ("http", "https"):
            return ElicitResult(action="decline")
        text = f"{_short(message)}\nIt is about this page, which you may open yourself: {url!r}"
        answer = await self._ask(text, [ACCEPT, DECLINE])
        return ElicitResult(action="accept" if answer.lower() == ACCEPT else "decline")

    async def _fields(self, params: ElicitRequestFormParams) -> ElicitResult:
        fields = _fields_of(params.requested_schema)
        if fields is None:
            return ElicitResult(action="cancel")
        if not fields:
            answer = await self._ask(_short(params.message), [ACCEPT, DECLINE])
            return ElicitResult(action="accept" if answer.lower() == ACCEPT else "decline")
        content: dict[str, Value] = {}
        for number, field in enumerate(fields):
            message = f"{_short(params.message)}\n" if number == 0 else ""
            found = await self._field(message, field)
            if found is not _NOTHING:
                content[field.name] = found
        return ElicitResult(action="accept", content=content)

    async def _field(self, message: str, field: Field) -> Any:
        """Return what the user says to a field. Raises UserUnavailable where nothing fits."""
        why = ""
        for _ in range(TRIES):
            answer = await self._ask(f"{message}{why}{field.question}", field.options)
            if answer.strip().lower() == DECLINE:
                raise _Declined
            try:
                return field.read(answer.strip())
            except _DoesNotFit as error:
                why = f"{answer[:80]!r} does not fit: {error}.\n"
        raise UserUnavailable

    async def _ask(self, text: str, options: Sequence[str]) -> str:
        assert self.user is not None
        question = f"the MCP server {self.server} wants to know: {text}"
        return str(
            await self.user.ask(UserQuestion(agent=self.agent, question=question, options=options))
        )


_NOTHING = object()
"""In place of a value: the field is left out."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def choices(self) -> dict[str, str]:
        """The values that there are, by what a user reads; none where any will do."""
        inner = self.schema.get("items")
        schema = inner if self.is_list and isinstance(inner, Mapping) else self.schema
        titled = schema.get("oneOf") or schema.get("anyOf")
        if isinstance(titled, list):
            found = [one for one in titled if isinstance(one, Mapping) and "const" in one]
            return {str(one.get("title", one["const"])): str(one["const"]) for one in found}
        values, names = schema.get("enum"), schema.get("enumNames")
        values = values if isinstance(values, list) else []
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return {str(name): str(value) for name, value in zip(names, values, strict=True)}

    @property
    def is_list(self) -> bool:
        """Whether several may be chosen."""
        return self.schema.get("type") == "array"

    @property
    def options(self) -> list[str]:
        """What the user is offered."""
        named = list(self.choices)[:MAX_OPTIONS]
        if self.schema.get("type") == "boolean":
            named = ["yes", "no"]
        return [*named, *([] if self.required else [LEAVE_OUT]), DECLINE]

    @property
    def question(self) -> str:
        """What the user is asked."""
        title = _short(str(self.schema.get("title") or self.name), 100)
        about = _short(str(self.schema.get("description") or ""), 500)
        notes = [_KINDS.get(str(self.schema.get("type")), "")]
        if "default" in self.schema:
            notes.append(f"by default {_short(str(self.schema['default']), 100)}")
        words = ", ".join(note for note in notes if note)
        return f"{title}{f': {about}' if about else ''}{f' ({words})' if words else ''}"

    def read(self, answer: str) -> Any:
        """Return the value that an answer stands for, or `_NOTHING`. Raises _DoesNotFit."""
        if not answer and "default" in self.schema:
            return self.schema["default"]
        if answer.lower() == LEAVE_OUT or (not answer and not self.required):
            if self.required:
                raise _DoesNotFit("it is needed")
            return self.schema.get("default", _NOTHING)
        if self.is_list:
            return self._several(answer)
        if self.choices:
            return self._chosen(answer)
        match self.schema.get("type"):
            case "boolean":
                return _truth(answer)
            case "integer" | "number":
                return self._number(answer)
            case _:
                return self._text(answer)

    def _chosen(self, answer: str) -> str:
        for name, value in self.choices.items():
            if answer.lower() in (name.lower(), value.lower()):
                return value
        raise _DoesNotFit(f"it is one of {', '.join(list(self.choices)[:MAX_OPTIONS])}")

    def _several(self, answer: str) -> list[str]:
        named = [one.strip() for one in answer.split(",") if one.strip()]
        chosen = [self._chosen(one) if self.choices else one for one in named]
        least, most = self.schema.get("minItems"), self.schema.get("maxItems")
        if isinstance(least, int) and len(chosen) < least:
            raise _DoesNotFit(f"at least {least} are needed, with commas between")
        if isinstance(most, int) and len(chosen) > most:
            raise _DoesNotFit(f"at most {most} may be chosen")
        return chosen

    def _number(self, answer: str) -> float:
        try:
            number = int(answer) if self.schema.get("type") == "integer" else float(answer)
        except ValueError:
            whole = "whole " if self.schema.get("type") == "integer" else ""
            raise _DoesNotFit(f"it is a {whole}number") from None
        least, most = self.schema.get("minimum"), self.schema.get("maximum")
        if not math.isfinite(number):
            raise _DoesNotFit("it is a number")
        if isinstance(least, int | float) and number < least:
            raise _DoesNotFit(f"it is at least {least:g}")
        if isinstance(most, int | float) and number > most:
            raise _DoesNotFit(f"it is at most {most:g}")
        return number

    def _text(self, answer: str) -> str:
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        if isinstance(least, int) and len(answer) < least:
            raise _DoesNotFit(f"it has at least {least} characters")
        if isinstance(most, int) and len(answer) > most:
            raise _DoesNotFit(f"it has at most {most} characters")
        if not _is_of_format(answer, self.schema.get("format")):
            raise _DoesNotFit(f"it is a {self.schema.get('format')}")
        return answer


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "several are possible, with commas between",
}


def _fields_of(schema: Mapping[str, Any]) -> list[Field] | None:
    """Return the fields of a form; None where it is none that a person could fill in."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or len(properties) > MAX_FIELDS:
        return None
    if not all(isinstance(one, Mapping) for one in properties.values()):
        return None
    needed = required if isinstance(required, list) else []
    return [Field(str(name), one, name in needed) for name, one in properties.items()]


def _truth(answer: str) -> bool:
    if answer.lower() in ("yes", "y", "true"):
        return True
    if answer.lower() in ("no", "n", "false"):
        return False
    raise _DoesNotFit("it is yes or no")


def _is_of_format(text: str, format: object) -> bool:
    try:
        match format:
            case "email":
                return bool(_EMAIL.fullmatch(text))
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


def _short(text: str, most: int = MAX_CHARACTERS) -> str:
    plain = readable(text).strip()
    return plain if len(plain) <= most else f"{plain[:most]}..."
