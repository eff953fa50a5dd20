"""The fast argument check accepts nothing that the full comparison rejects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NewType

import pytest

from harken.core.arguments import _exact_types, _find_mismatch

Name = NewType("Name", str)
ANNOTATIONS: list[Any] = [
    Any,
    None,
    str,
    int,
    float,
    bool,
    Path,
    Name,
    str | None,
    int | Sequence[str],
    Sequence[str],
    Sequence[str] | Sequence[int],
    Sequence[Sequence[int]],
    Sequence[str | None],
    Iterable[int],
    list[int],
    tuple[str, ...],
    tuple[str, int],
    Mapping[str, int],
    dict[str, int],
    Literal["a", "b"],
    Literal["a", "b"] | None,
    Sequence[Literal["a"]],
    type[str],
]
VALUES: list[Any] = [
    *(None, "a", "c", b"a", 1, 1.5, True, Path("a"), str, object()),
    *([], (), ["a"], ("a",), ["a", None], ["a", 1], [1], (1,), ("a", 1), [True], [[1]], [["a"]]),
    *({}, {"a": 1}, {"a": "b"}, {1: 1}, {"a"}, iter("a")),
]


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_fast_argument_check_agrees_with_the_full_comparison(annotation: Any) -> None:
    quick = _exact_types(annotation)
    for value in VALUES:
        if quick.include(value):
            assert _find_mismatch(value, annotation, "x") is None, value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        *product([str, str | None, Literal["a", "b"], Any], ["a"]),
        *product([Sequence[str], Sequence[str] | None], [["a", "b"], ("a",), []]),
        (tuple[str, ...], ("a",)),
        (list[int], [1]),
        (Iterable[int], [1]),
    ],
    ids=str,
)
def test_fast_argument_check_decides_common_arguments(annotation: Any, value: Any) -> None:
    assert _exact_types(annotation).include(value)
