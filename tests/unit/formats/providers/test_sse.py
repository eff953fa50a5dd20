"""Server-sent events are parsed independently of the chunks in which they arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.providers.sse import MAX_EVENT_BYTES, EventReader, ServerEvent
from tests.provider.wire import OPENAI

LOOK = ToolCall("c1", FunctionCall("look", '{"at":"the door"}'))


@given(st.binary(max_size=40), st.lists(st.integers(0, 400), max_size=6))
def test_sse_events_do_not_depend_on_chunk_borders(tail: bytes, cuts: list[int]) -> None:
    stream = b"".join(OPENAI.events(Message("assistant", "é – hello\u2028", [LOOK]))) + tail
    reader = EventReader()
    events: list[ServerEvent] = []
    edges = [0, *sorted(cuts), len(stream)]
    for start, stop in pairwise(edges):
        events += reader.feed(stream[start:stop])
    full = EventReader()
    assert [*events, *reader.end()] == [*full.feed(stream), *full.end()]


def test_sse_event_may_have_comments_names_multiple_lines_and_crlf() -> None:
    reader = EventReader()
    [event] = reader.feed(
        b": hello\r\nevent: note\r\nid: 7\r\ndata: one\r\ndata:two\r\n\r\n: bye\n\n"
    )
    assert (event.name, event.data) == ("note", b"one\ntwo")
    assert [*reader.end()] == []


def test_last_sse_event_may_lack_its_terminator() -> None:
    for end in (b"data: [DONE]", b"data: [DONE]\r\n", b"data: [DONE]\n"):
        reader = EventReader()
        events = [*reader.feed(b"data: {}\n\n" + end), *reader.end()]
        assert [event.data for event in events] == [b"{}", b"[DONE]"]
    reader = EventReader()
    assert [*reader.feed(b'data: {"half'), *reader.end()] == []


@pytest.mark.parametrize("piece", [b"x" * 0x4000, b"data: " + b"x" * 0x4000 + b"\n"])
def test_unterminated_sse_event_is_rejected_in_linear_time(piece: bytes) -> None:
    reader = EventReader()
    with pytest.raises(ValueError, match="an event of more than"):
        for _ in range(5000):
            assert not [*reader.feed(piece)]


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_an_event_is_limited(excess: int) -> None:
    reader = EventReader()
    assert [*reader.feed(b"data: 1\n\ndata: 2\n\n")]  # Only the current event counts.
    line = b"data: " + b"x" * (MAX_EVENT_BYTES - 6 + excess)
    if excess:
        with pytest.raises(ValueError, match="an event of more than"):
            list(reader.feed(line))
    else:
        assert list(reader.feed(line)) == []
