"""Stream replacement finds a secret in each encoding and across chunk borders, and keeps all other bytes."""

from __future__ import annotations

import json

import pytest

from harken.core import canonical
from harken.core.secrets.removal import Secret, in_json, replace_in_bytes

KEYS = [
    "sk-0123456789",
    'a "quoted" \\ key\n',
    "schlüssel-€-😀",
    "half \ud83d surrogate",
    "\x00\x1f ctrl",
]


@pytest.mark.parametrize("key", KEYS)
def test_replace_finds_the_secret_in_json_and_nested_json(key: str) -> None:
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
def test_replace_finds_the_secret_across_chunk_borders(key: str) -> None:
    secret = Secret(key)
    form = key.encode("utf-8", "surrogatepass")
    data = b"begin " + form + b" middle " + form + b" end"
    for index in range(len(data) + 1):
        for size in (1, 3):
            pieces = [data[:index], *(data[n : n + size] for n in range(index, len(data), size))]
            spans = list(secret.find_spans(pieces))
            assert [data[start:stop] for start, stop in spans] == [form, form]


def test_replace_keeps_each_byte_of_data_without_the_secret() -> None:
    secret = Secret("sk-0123456789")
    for data in (b'{ "a" : 1.50, "b":"\\u0061\xff" }', b'"torn \\"', b"", b'["sk-012345678"]'):
        assert in_json(data, secret.replace) == data
        assert replace_in_bytes(data, secret.replace) == data


def test_replace_keeps_numbers_order_and_white_space() -> None:
    secret = Secret("sk-0123456789")
    data = b'{ "b" : 1.50, "a":  "sk-0123456789", "n": 12345678901234567890123 }'
    assert in_json(data, secret.replace) == data.replace(b"sk-0123456789", b"[purged]")


def test_replace_truncates_a_prefix_of_the_secret_at_the_end() -> None:
    secret = Secret("sk-0123456789")
    assert secret.replace_truncated("it is sk-01234") == "it is [purged]"
    assert secret.replace_truncated("it is sk-0") == "it is sk-0", (
        "so short a beginning may be anything"
    )
    assert secret.replace_truncated("sk-0123456789 and more") == "[purged] and more"
