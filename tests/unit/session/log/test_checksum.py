"""Lines and their sums, checked against the text of the specification."""

import json

import pytest
from blake3 import blake3

from harken.session.log.checksum import has_sum, is_valid_line, seal

BODY = b'{"event_type":"session_ended","message_id":"msg_001"}'


def test_sealed_line_is_the_object_with_sum_as_last_member() -> None:
    line, line_sum = seal(b"", BODY)
    assert line == BODY[:-1] + b',"sum":"' + line_sum + b'"}\n'
    assert list(json.loads(line))[-1] == "sum"


@pytest.mark.req("S0-01")
def test_sum_is_blake3_of_the_previous_sum_and_the_line() -> None:
    first, before = seal(b"", BODY)
    second, line_sum = seal(before, BODY)
    assert before.decode() == blake3(BODY[:-1] + b',"sum":"').hexdigest()[:16]
    assert line_sum.decode() == blake3(before + BODY[:-1] + b',"sum":"').hexdigest()[:16]
    assert first != second


def test_sum_of_a_fixed_line_is_frozen() -> None:
    """A changed digit is a change of the format."""
    line, line_sum = seal(b"", b'{"a":1}')
    assert line == b'{"a":1,"sum":"' + line_sum + b'"}\n'
    assert line_sum == b"632fd9ac9b87a024"


def test_line_verifies_only_after_its_predecessor() -> None:
    first, before = seal(b"", BODY)
    second, _ = seal(before, BODY)
    assert is_valid_line(b"", first)
    assert is_valid_line(before, second)
    assert not is_valid_line(b"", second)
    assert not is_valid_line(before, first)


def test_line_with_a_flipped_bit_does_not_verify() -> None:
    line, _ = seal(b"0123456789abcdef", BODY)
    for bit in range(len(line) * 8):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not is_valid_line(b"0123456789abcdef", bytes(damaged)), bit


def test_prefix_of_a_line_does_not_verify() -> None:
    line, _ = seal(b"", BODY)
    assert not any(is_valid_line(b"", line[:length]) for length in range(len(line)))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_sum_is_parsed_with_or_without_newline(ending: bytes) -> None:
    line, _ = seal(b"", BODY)
    assert has_sum(line[:-1] + ending)


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}", BODY, b'{"sum":"0123456789abcdef"}', b'{"a":1,"sum":"0123"}\n'],
)
def test_line_without_trailing_sum_has_none(line: bytes) -> None:
    assert not has_sum(line)
    assert not is_valid_line(b"", line)
