"""Lines of session files: their numbers, their limits, and what a report counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.base import (
    BOM,
    MAX_LINE_BYTES,
    ReadReport,
    SessionFile,
    SourceLine,
    parse_time,
)
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.read_point import MAX_BAD_LINES, BadLine
from tests.unit.formats.native_kit import open_source

CHUNK = b"x" * (1 << 20)


def read_lines(data: bytes, piece: int = 1 << 16) -> tuple[list[SourceLine], ReadReport]:
    report = ReadReport()
    return [*open_source(data, piece=piece).lines(report)], report


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_lines_have_their_numbers_and_offsets(piece: int) -> None:
    lines, report = read_lines(BOM + b"a\r\n\nbc\r\n" + BOM + b"d", piece)
    assert [(line.number, line.start, line.data) for line in lines] == [
        (1, 3, b"a"),
        (2, 6, b""),
        (3, 7, b"bc"),
        (4, 11, BOM + b"d"),
    ]
    assert (report.lines, report.offset, report.bad) == (4, 11, [])


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("piece", [1 << 20, (1 << 26) + 100])
def test_length_of_a_line_with_its_end_is_limited(ending: bytes, excess: int, piece: int) -> None:
    long = b"x" * (MAX_LINE_BYTES + excess - len(ending)) + ending
    lines, report = read_lines(b"a\n" + long + (b"b" if ending else b""), piece)
    sizes = [len(line.data) for line in lines]
    if excess:
        assert sizes == ([1, 1] if ending else [1])
        assert report.bad == [BadLine(2, 2, f"it has {MAX_LINE_BYTES + 1} bytes")]
    else:
        assert sizes == [1, MAX_LINE_BYTES - len(ending), *([1] if ending else [])]
        assert report.bad == []


def test_line_that_is_too_long_is_not_held_in_memory() -> None:
    longest = 3 * MAX_LINE_BYTES
    pieces = longest // len(CHUNK)

    def chunks() -> Iterator[bytes]:
        for _ in range(pieces):
            yield CHUNK
        yield b"\nb"

    report = ReadReport()
    [line] = SessionFile("", chunks).lines(report)
    assert (line.number, line.data) == (2, b"b")
    assert report.bad == [BadLine(1, 0, f"it has {longest + 1} bytes")]


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_a_document_is_limited(excess: int) -> None:
    data = b"{}" + b" " * (MAX_LINE_BYTES - 2 + excess)
    source = open_source(data, piece=1 << 22)
    if excess:
        with pytest.raises(FormatError, match="one document of more than"):
            read_document(source, ReadReport(), "x")
    else:
        assert read_document(source, ReadReport(), "x") == {}


def test_kinds_of_uninterpreted_lines_are_limited() -> None:
    report = ReadReport()
    kinds = [report.count_uninterpreted(f"kind {number}") for number in range(500)]
    assert kinds == [f"kind {number}" for number in range(500)]
    assert report.count_uninterpreted("another") == "other"
    assert report.count_uninterpreted("kind 3") == "kind 3"
    assert (report.uninterpreted["other"], report.uninterpreted["kind 3"]) == (1, 2)


def test_name_of_a_kind_is_limited() -> None:
    assert ReadReport().count_uninterpreted("x" * 61) == "x" * 60


def test_read_point_is_needed_after_half_of_the_rest() -> None:
    report = ReadReport(size_bytes=1000)
    assert [report.needs_point(start) for start in (0, 499, 500)] == [False, False, True]
    report.set_point(SourceLine(9, 600, b""), b"state", report.copy_totals(lines=8, used_lines=8))
    assert [report.needs_point(start) for start in (600, 799, 800)] == [False, False, True]
    assert not ReadReport().needs_point(500)
    assert not ReadReport(size_bytes=1000, is_joined=True).needs_point(999)


@pytest.mark.parametrize("excess", [0, 1])
def test_file_with_too_many_bad_lines_has_no_read_point(excess: int) -> None:
    report = ReadReport(size_bytes=1000)
    for number in range(MAX_BAD_LINES + excess):
        report.report_bad(SourceLine(number, number, b""), "bad")
    assert report.needs_point(999) is not bool(excess)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00", None),
        (5, None),
        (None, None),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_time_without_a_zone_is_no_time(value: object, time: str | None) -> None:
    assert parse_time(value) == time
