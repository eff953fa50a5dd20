"""Canonical JSON and content hashes."""

import json
import math
from typing import Any

import pytest
from blake3 import blake3

from harken.core import canonical


def test_canonical_json_sorts_members_at_each_depth_without_spaces() -> None:
    value = {"b": {"d": 1, "c": [2, {"f": 3, "e": 4}]}, "a": None}
    assert canonical.to_canonical_bytes(value) == b'{"a":null,"b":{"c":[2,{"e":4,"f":3}],"d":1}}'


def test_to_json_line_keeps_the_order_of_members() -> None:
    assert canonical.to_json_line({"b": 1, "a": 2}) == b'{"b":1,"a":2}'


def test_canonical_json_escapes_only_required_characters() -> None:
    text = '"\\/\b\f\n\r\t\x00\x1f\x7f é\u2028😀'
    expected = '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f é\u2028😀"'
    assert canonical.to_canonical_bytes(text) == expected.encode()


def test_canonical_json_sorts_names_by_code_point() -> None:
    """RFC 8785 sorts by UTF-16 and would reverse the last two."""
    names = ["😀", "\uffff", "é", "b", "B", ""]
    assert list(json.loads(canonical.to_canonical_bytes(dict.fromkeys(names)))) == [
        "",
        "B",
        "b",
        "é",
        "\uffff",
        "😀",
    ]


DIFFERENT: list[Any] = [
    0,
    0.0,
    -0.0,
    False,
    None,
    "",
    "0",
    [],
    {},
    [0],
    [0.0],
    [False],
    1,
    1.0,
    True,
]


def test_canonical_json_distinguishes_types_of_equal_values() -> None:
    """In Python 0 == 0.0 == False. As content they are three values."""
    assert len({canonical.to_canonical_bytes(value) for value in DIFFERENT}) == len(DIFFERENT)
    assert len({canonical.hash_value(canonical.PART_DOMAIN, value) for value in DIFFERENT}) == len(
        DIFFERENT
    )


@pytest.mark.parametrize("value", DIFFERENT)
def test_canonical_json_round_trip_keeps_the_type(value: Any) -> None:
    repeated = canonical.from_json(canonical.to_canonical_bytes(value))
    assert (repeated, type(repeated)) == (value, type(value))


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40])
def test_canonical_json_keeps_integers_of_any_size(number: int) -> None:
    assert canonical.to_canonical_bytes(number) == str(number).encode()
    assert canonical.from_json(canonical.to_canonical_bytes([number])) == [number]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, b"0.1"),
        (100.0, b"100.0"),
        (1e-5, b"0.00001"),
        (1e-6, b"1e-6"),
        (1e16, b"1e16"),
        (5e-324, b"5e-324"),
    ],
)
def test_canonical_json_writes_the_shortest_float_that_round_trips(
    number: float, text: bytes
) -> None:
    assert canonical.to_canonical_bytes(number) == text
    assert canonical.from_json(text) == number


def test_canonical_json_keeps_the_sign_of_minus_zero() -> None:
    assert canonical.to_canonical_bytes(-0.0) == b"-0.0"
    assert math.copysign(1, canonical.from_json(b"-0.0")) == -1


def test_canonical_json_round_trips_lone_surrogates() -> None:
    value = {"b\udc80": "x\ud83dy", "a": [1, None]}
    assert canonical.to_canonical_bytes(value) == b'{"a":[1,null],"b\\udc80":"x\\ud83dy"}'
    assert canonical.to_json_line(value) == b'{"b\\udc80":"x\\ud83dy","a":[1,null]}'
    assert canonical.from_json(canonical.to_canonical_bytes(value)) == value


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b'{"a":1', b"[1,]", b'"\xff"', b"{} {}", b"nul", b'{"a" 1}']
)
def test_canonical_json_rejects_values_without_json_form(damaged: bytes) -> None:
    with pytest.raises(ValueError):
        canonical.from_json(damaged)


def test_content_hash_is_blake3_of_domain_line_and_canonical_bytes() -> None:
    hashed = blake3(b'harken.part.v1\n{"text":"Hi","type":"text"}').hexdigest()
    assert canonical.hash_value(canonical.PART_DOMAIN, {"type": "text", "text": "Hi"}) == hashed
    assert (
        canonical.hash_bytes(canonical.PART_DOMAIN, b'{"text":"Hi","type":"text"}').hex() == hashed
    )


def test_content_hash_depends_on_the_domain() -> None:
    domains = [
        canonical.PART_DOMAIN,
        canonical.MESSAGE_DOMAIN,
        canonical.CONTEXT_DOMAIN,
        canonical.TOOLS_DOMAIN,
        canonical.REQUEST_DOMAIN,
    ]
    assert len({canonical.hash_value(domain, []) for domain in domains}) == len(domains)


def test_no_domain_line_is_a_prefix_of_another() -> None:
    """Otherwise two domains could produce the same bytes."""
    domains = [
        canonical.PART_DOMAIN,
        canonical.MESSAGE_DOMAIN,
        canonical.CONTEXT_DOMAIN,
        canonical.TOOLS_DOMAIN,
        canonical.REQUEST_DOMAIN,
    ]
    assert all(domain.endswith(b"\n") and domain.count(b"\n") == 1 for domain in domains)
