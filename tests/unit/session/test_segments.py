"""Segments by themselves: lengths, cuts, and the contexts that they stand for."""

import pytest

from harken.core.events import LlmRequest, Segment
from harken.core.ids import MessageId, message_id
from harken.core.messages import Message
from harken.session.segments import (
    iter_leaf_segments,
    resolve_context,
    segment_length,
    slice_segments,
)
from tests.session_kit import range_segment


def named(*names: str) -> Segment:
    return Segment(entries=[MessageId(name) for name in names])


def of(request: str, start: int, stop: int) -> Segment:
    return Segment(request=MessageId(request), start=start, stop=stop)


def asked(number: int, *context: Segment) -> LlmRequest:
    count = sum(map(segment_length, context))
    return LlmRequest(
        message_id=message_id(number), context=list(context), count=count, context_hash="", model=""
    )


def by_id(*requests: LlmRequest) -> dict[MessageId, LlmRequest]:
    return {request.message_id: request for request in requests}


ENTRIES = {MessageId(name): Message("user", name) for name in "abcdefgh"}


def read(request: LlmRequest, *earlier: LlmRequest) -> str:
    return "".join(str(m.content) for m in resolve_context(request, by_id(*earlier), ENTRIES))


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (named("a", "b"), 2),
        (named(), 0),
        (of("msg_001", 2, 5), 3),
        (of("msg_001", 2, 2), 0),
        (Segment(loaded=MessageId("msg_001"), start=0, stop=7), 7),
        (range_segment(1, 4), 3),
        (Segment(), 0),
    ],
)
def test_a_segment_stands_for_so_many_messages(segment: Segment, expected: int) -> None:
    assert segment_length(segment) == expected


ROW = (of("msg_001", 10, 13), named("a", "b"), Segment(loaded=MessageId("msg_002"), stop=2))
PIECES = [
    of("msg_001", 10, 11),
    of("msg_001", 11, 12),
    of("msg_001", 12, 13),
    named("a"),
    named("b"),
    Segment(loaded=MessageId("msg_002"), start=0, stop=1),
    Segment(loaded=MessageId("msg_002"), start=1, stop=2),
]


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("stop", range(9))
def test_a_cut_is_the_same_as_cutting_the_single_messages(start: int, stop: int) -> None:
    singles = [piece for part in slice_segments(ROW, start, stop) for piece in cut_up(part)]
    assert singles == PIECES[start:stop]


def cut_up(segment: Segment) -> list[Segment]:
    return [
        piece
        for at in range(segment_length(segment))
        for piece in slice_segments([segment], at, at + 1)
    ]


def test_a_cut_leaves_out_what_is_empty() -> None:
    assert slice_segments([named(), named("a"), of("msg_001", 3, 3)], 0, 1) == [named("a")]
    assert slice_segments([], 0, 5) == []
    assert slice_segments(ROW, 3, 3) == []


def test_a_request_names_ranges_of_earlier_ones() -> None:
    first = asked(10, named("a", "b", "c"))
    second = asked(20, of("msg_010", 0, 3), named("d"))
    third = asked(30, of("msg_020", 0, 1), named("e"), of("msg_020", 2, 4))
    assert read(first) == "abc"
    assert read(second, first) == "abcd"
    assert read(third, first, second) == "aecd"


def test_leaves_are_entries_and_loaded_messages_only() -> None:
    loaded = Segment(loaded=MessageId("msg_002"), start=0, stop=3)
    first = asked(10, loaded, named("a"))
    second = asked(20, of("msg_010", 1, 4), named("b"))
    assert list(iter_leaf_segments(second, by_id(first))) == [
        Segment(loaded=MessageId("msg_002"), start=1, stop=3),
        named("a"),
        named("b"),
    ]


def test_loaded_messages_come_from_whoever_has_them() -> None:
    request = asked(10, Segment(loaded=MessageId("msg_002"), start=1, stop=3), named("a"))
    store = [Message("user", str(n)) for n in range(5)]
    found = resolve_context(request, {}, ENTRIES, lambda id_: store if id_ == "msg_002" else [])
    assert [m.content for m in found] == ["1", "2", "a"]


@pytest.mark.parametrize("later", [10, 30])
def test_a_request_that_names_itself_or_a_later_one_is_refused(later: int) -> None:
    other = asked(later, of("msg_010", 0, 1))
    circular = asked(10, Segment(request=message_id(later), start=0, stop=1))
    with pytest.raises(ValueError, match="a later request"):
        read(circular, circular, other)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="msg_010"):
        read(asked(20, of("msg_010", 0, 1)))
    with pytest.raises(KeyError, match="zz"):
        read(asked(20, named("zz")))
    with pytest.raises(KeyError, match="msg_002"):
        read(asked(20, Segment(loaded=MessageId("msg_002"), start=0, stop=1)))


def test_a_chain_of_ten_thousand_requests_is_followed_to_its_end() -> None:
    """As with one system prompt kept through a long session; no recursion."""
    first = asked(0, named("a"))
    chain = [asked(n, of(message_id(n - 1), 0, 1)) for n in range(1, 10_000)]
    assert read(chain[-1], first, *chain) == "a"
