"""A secret is found in every form, wherever bytes are cut, and what has nothing of it stays."""

from __future__ import annotations

import json

import pytest

from harken.core import canonical
from harken.core.replace import Secret, in_json, replace_in_bytes

KEYS = [
    "sk-0123456789",
    'a "quoted" \\ key\n',
    "schlüssel-€-😀",
    "half \ud83d surrogate",
    "\x00\x1f ctrl",
]


@pytest.mark.parametrize("key", KEYS)
def test_it_is_found_in_json_and_in_json_in_json(key: str) -> None:
    secret = Secret(key)
    value = {
        "plain": f"a {key} b",
        key: [json.dumps({"k": key}), canonical.to_json_line([key]).decode()],
    }
    data = canonical.to_json_line(value)
    assert secret.is_in_json(data)
    new = canonical.from_json(in_json(data, secret.replace))
    assert new["plain"] == "a [purged] b"
    assert new["[purged]"] == [json.dumps({"k": "[purged]"}), '["[purged]"]']
    assert not secret.is_in_json(canonical.to_json_line(new))


@pytest.mark.parametrize("key", KEYS)
def test_it_is_found_wherever_bytes_are_cut(key: str) -> None:
    secret = Secret(key)
    form = key.encode("utf-8", "surrogatepass")
    data = b"begin " + form + b" middle " + form + b" end"
    for at in range(len(data) + 1):
        for size in (1, 3):
            pieces = [data[:at], *(data[n : n + size] for n in range(at, len(data), size))]
            spans = list(secret.find_spans(pieces))
            assert [data[start:stop] for start, stop in spans] == [form, form]


def test_what_has_nothing_of_it_keeps_every_byte() -> None:
    secret = Secret("sk-0123456789")
    for data in (b'{ "a" : 1.50, "b":"\\u0061\xff" }', b'"torn \\"', b"", b'["sk-012345678"]'):
        assert in_json(data, secret.replace) == data
        assert replace_in_bytes(data, secret.replace) == data


def test_numbers_order_and_white_space_stay() -> None:
    secret = Secret("sk-0123456789")
    data = b'{ "b" : 1.50, "a":  "sk-0123456789", "n": 12345678901234567890123 }'
    assert in_json(data, secret.replace) == data.replace(b"sk-0123456789", b"[purged]")


def test_the_beginning_of_it_at_the_end_is_cut_off() -> None:
    secret = Secret("sk-0123456789")
    assert secret.replace_truncated("it is sk-01234") == "it is [purged]"
    assert secret.replace_truncated("it is sk-0") == "it is sk-0", (
        "so short a beginning may be anything"
    )
    assert secret.replace_truncated("sk-0123456789 and more") == "[purged] and more"
