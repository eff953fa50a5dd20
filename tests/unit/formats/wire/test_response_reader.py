"""The framing of a response is found from its status and its first bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harken.formats.wire.base import ParsedResponse
from harken.formats.wire.response_reader import (
    MAX_RESPONSE_BYTES,
    ResponseReader,
    format_error,
    truncate_to_line,
)


@dataclass
class Assembler:
    events: list[Any] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    def add_event(self, event: Any) -> None:
        self.events.append(event)

    def add_body(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    def finish(self) -> ParsedResponse:
        return ParsedResponse(id="r1")


def read(status: int, *pieces: bytes) -> tuple[Assembler, ParsedResponse]:
    assembler = Assembler()
    reader = ResponseReader(status, assembler)
    for piece in pieces:
        reader.feed(piece)
    return assembler, reader.end()


def test_stream_of_events_is_read() -> None:
    assembler, response = read(200, b"da", b'ta: {"a":1}\n\ndata: [DONE]\n\n')
    assert (assembler.events, response.error) == ([{"a": 1}, "[DONE]"], "")


@pytest.mark.parametrize("blanks", [b"", b" \n", b" " * 63])
def test_object_and_list_are_read(blanks: bytes) -> None:
    assembler, response = read(200, blanks + b'{"a":', b"1}")
    assert (assembler.bodies, response.error) == ([{"a": 1}], "")
    assembler, response = read(200, blanks + b'[{"a":1},', b'{"a":2}]')
    assert (assembler.events, response.error) == ([{"a": 1}, {"a": 2}], "")


@pytest.mark.parametrize(("status", "is_error"), [(200, False), (399, False), (400, True)])
def test_status_from_400_is_an_error(status: int, is_error: bool) -> None:
    assembler, response = read(status, b'{"message":"Busy"}')
    assert response.error == (f"HTTP {status}: Busy" if is_error else "")
    assert bool(assembler.bodies) is not is_error


def test_error_page_that_is_no_json_is_shown_on_one_line() -> None:
    assert read(502, b"<h1>Bad\n gateway</h1>")[1].error == "HTTP 502: <h1>Bad gateway</h1>"
    assert read(502)[1].error == "HTTP 502"
    assert read(200, b"{nothing")[1].error == "an answer that is not JSON: {nothing"


def test_error_in_a_stream_ends_it() -> None:
    assembler, response = read(
        200, b'data: {"a":1}\n\ndata: {"error":{"message":"No"}}\n\n', b'data: {"a":2}\n\n'
    )
    assert (assembler.events, response.error) == ([{"a": 1}], "No")
    assert response.pieces == ()


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_a_body_is_limited(excess: int) -> None:
    body = b"{}" + b" " * (MAX_RESPONSE_BYTES + excess - 2)
    assembler, response = read(200, body)
    assert ("an answer of more than" in response.error) is bool(excess)
    assert assembler.bodies == ([] if excess else [{}])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"error": {"type": "overloaded_error", "message": "Busy"}}, "overloaded_error: Busy"),
        ({"error": {"code": 5, "status": "NO", "type": "error", "message": "No"}}, "NO: No"),
        ({"type": "error", "detail": "No"}, "No"),
        ({"error": "No"}, "No"),
        ([{"error": {"message": "No"}}], "No"),
        ([], "[]"),
        ("No", "No"),
        ({"error": {"code": "x"}}, 'x: {"code":"x"}'),
        ({"message": ""}, '{"message":""}'),
    ],
)
def test_error_of_a_provider_is_formatted_in_any_of_its_forms(value: Any, text: str) -> None:
    assert format_error(value) == text


def test_line_is_limited() -> None:
    assert truncate_to_line("x" * 500) == "x" * 500
    assert truncate_to_line("x" * 501) == "x" * 500 + "..."
    assert truncate_to_line("a\n b") == "a b"


def test_assembler_that_fails_makes_the_response_an_error() -> None:
    class Failing(Assembler):
        def finish(self) -> ParsedResponse:
            raise KeyError("choices")

    reader = ResponseReader(200, Failing())
    reader.feed(b'{"a":1}')
    assert "without sense" in reader.end().error
