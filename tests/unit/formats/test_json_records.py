"""JSON lines and their members."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.errors import FormatError
from harken.formats.json_records import extra_members, get_count, to_safe_json, truncate_title
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.json_lines import normalize_time, read_document, read_records
from tests.unit.formats.native_kit import open_source

ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES | st.just(UTC)))  # noqa: DTZ001
def test_timestamp_is_parsed_in_each_notation(time: datetime) -> None:
    for spelled in (
        time.isoformat(),
        time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        time.isoformat(timespec="seconds"),
    ):
        assert normalize_time(spelled) == format_rfc3339(parse_rfc3339(spelled))


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-31T12:00:00",
        "2026-02-31T12:00:00.000Z",
        "2026-01-31T12:00:00.00xZ",
        "2026-01-31T12:00:00.٣٣٣Z",
        "2026-01-31x12:00:00.000x",
        "0001-01-01T00:00:00+23:59",
        "",
        None,
        True,
        [],
        float("nan"),
        1e300,
        -1e300,
    ],
)
def test_invalid_timestamp_is_none(value: object) -> None:
    assert normalize_time(value) is None


@given(JSON)
def test_sanitized_value_can_be_written_by_each_encoder(value: object) -> None:
    retained = to_safe_json(value)
    assert canonical.from_json(canonical.to_canonical_bytes(retained)) == canonical.from_json(
        canonical.to_json_line(retained)
    )
    assert json.loads(canonical.to_json_line(retained)) == retained


def test_deeply_nested_value_is_kept_as_text() -> None:
    deep: object = 1
    for _ in range(500):
        deep = [deep]
    assert canonical.to_json_line(to_safe_json(deep)).count(b"[") < 600
    retained = to_safe_json({"large": 10**30, "nan": float("nan")})
    assert retained == {"large": "1" + "0" * 30, "nan": "nan"}


@pytest.mark.parametrize("levels", [32, 33])
def test_value_nested_more_than_32_levels_is_text(levels: int) -> None:
    value: object = 1
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    retained = to_safe_json(value)
    assert (retained == value) is (levels <= 32)


@pytest.mark.parametrize(
    ("number", "is_kept"),
    [(-(2**63), True), (-(2**63) - 1, False), (2**64 - 1, True), (2**64, False)],
)
def test_integer_beyond_64_bits_is_text(number: int, is_kept: bool) -> None:
    assert to_safe_json([number]) == [number if is_kept else str(number)]


def test_title_is_limited_and_on_one_line() -> None:
    assert truncate_title("x" * 81) == "x" * 80
    assert truncate_title(" a\n b ") == "a b"
    assert truncate_title(" " * 640 + "a") == ""


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (2**40 - 1, 2**40 - 1), (2**40, None), (-1, None), (True, None), (1.0, None)],
)
def test_count_is_a_number_below_2_to_the_40(value: object, count: int | None) -> None:
    assert get_count({"n": value}, "n") == count


def test_unsaid_members_restore_the_full_record() -> None:
    answer = {"a": 1, "b": [2]}
    full = {"a": 1, "b": [3], "c": None}
    assert extra_members(full, answer) == {"b": [3], "c": None}
    assert {**answer, **extra_members(full, answer)} == full


def test_each_line_is_returned_with_any_content() -> None:
    data = b'\xef\xbb\xbf{"a":1}\r\n\n  \n[1]\n{"a":\n\xff\n{"b":"\\ud800"}\n{"a":1,"a":2}'
    reading = ReadReport()
    result = [record for _, record in read_records(open_source(data, piece=3), reading)]
    assert result == [{"a": 1}, {"b": "\ud800"}, {"a": 2}]
    assert [bad.number for bad in reading.bad] == [4, 5, 6]
    assert (reading.uninterpreted["blank"], reading.lines) == (2, 8)


def test_document_is_complete_or_rejected() -> None:
    reading = ReadReport()
    assert read_document(open_source(b'{\n "a": 1\n}\n'), reading, "x") == {"a": 1}
    assert reading.lines == 3
    for data in (b"", b"[]", b'{"a":', b"\xff"):
        with pytest.raises(FormatError):
            read_document(open_source(data), ReadReport(), "x")
