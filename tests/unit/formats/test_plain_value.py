"""Values of clients become JSON values, whatever they are."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
import pytest

from harken.formats.plain_value import get_members, safe_repr, to_plain_value


class Color(Enum):
    RED = "red"


class Shape(msgspec.Struct):
    side: int


@dataclasses.dataclass
class Line:
    length: float


class Model:
    """An object of a client whose method accepts the options of pydantic."""

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"options": sorted(options)}


class OldModel:
    def to_dict(self) -> dict[str, Any]:
        return {"old": True}


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError

    def model_dump(self) -> dict[str, Any]:
        raise RuntimeError

    def to_dict(self) -> list[int]:
        return [1]


def convert(value: object) -> tuple[Any, list[str]]:
    opaque: list[str] = []
    return to_plain_value(value, opaque.append), opaque


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("inf"), "inf"),
        (Color.RED, "red"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00+00:00"),
        ((1, [2]), [1, [2]]),
        ({3: {4}}, {"3": [4]}),
        (Shape(2), {"side": 2}),
        (Line(2.5), {"length": 2.5}),
        (Model(), {"options": ["by_alias", "exclude_none", "mode"]}),
        (OldModel(), {"old": True}),
    ],
)
def test_value_with_members_is_converted_exactly(value: object, plain: object) -> None:
    assert convert(value) == (plain, [])


def test_value_without_members_is_reported_and_kept_as_its_repr() -> None:
    assert convert([object]) == (["<class 'object'>"], ["type"])
    assert convert({"a": Broken()}) == ({"a": "<Broken>"}, ["Broken"])
    assert convert(Line) == (repr(Line), ["type"])
    assert get_members(Line) is None


def test_repr_is_limited() -> None:
    assert safe_repr("x" * 998) == f"'{'x' * 998}'"
    assert safe_repr("x" * 999) == f"'{'x' * 999}"


@pytest.mark.parametrize(("levels", "opaque"), [(63, 0), (64, 1)])
def test_nesting_is_limited(levels: int, opaque: int) -> None:
    value: object = 1
    for _ in range(levels):
        value = [value]
    plain, reports = convert(value)
    assert reports == ["a value that is nested too deeply"] * opaque
    for _ in range(levels):
        [plain] = plain
    assert plain == ("1" if opaque else 1)


def test_value_that_contains_itself_is_converted() -> None:
    value: list[Any] = []
    value.append(value)
    plain, reports = convert(value)
    assert len(reports) == 1
    assert isinstance(plain, list)
