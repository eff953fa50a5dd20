"""Segments: lengths, slices, and the contexts that they represent."""

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


def entry_segment(*names: str) -> Segment:
    return Segment(entries=[MessageId(name) for name in names])


def of(request: str, start: int, stop: int) -> Segment:
    return Segment(request=MessageId(request), start=start, stop=stop)


def create_request(number: int, *context: Segment) -> LlmRequest:
    count = sum(map(segment_length, context))
    return LlmRequest(
        message_id=message_id(number), context=list(context), count=count, context_hash="", model=""
    )


def by_id(*requests: LlmRequest) -> dict[MessageId, LlmRequest]:
    return {request.message_id: request for request in requests}


ENTRIES = {MessageId(name): Message("user", name) for name in "abcdefgh"}


def read_context(request: LlmRequest, *earlier: LlmRequest) -> str:
    return "".join(str(m.content) for m in resolve_context(request, by_id(*earlier), ENTRIES))


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (entry_segment("a", "b"), 2),
        (entry_segment(), 0),
        (of("msg_001", 2, 5), 3),
        (of("msg_001", 2, 2), 0),
        (Segment(loaded=MessageId("msg_001"), start=0, stop=7), 7),
        (range_segment(1, 4), 3),
        (Segment(), 0),
    ],
)
def test_segment_counts_its_messages(segment: Segment, expected: int) -> None:
    assert segment_length(segment) == expected


ROW = (of("msg_001", 10, 13), entry_segment("a", "b"), Segment(loaded=MessageId("msg_002"), stop=2))
PIECES = [
    of("msg_001", 10, 11),
    of("msg_001", 11, 12),
    of("msg_001", 12, 13),
    entry_segment("a"),
    entry_segment("b"),
    Segment(loaded=MessageId("msg_002"), start=0, stop=1),
    Segment(loaded=MessageId("msg_002"), start=1, stop=2),
]


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("stop", range(9))
def test_slice_equals_slicing_the_single_messages(start: int, stop: int) -> None:
    singles = [piece for part in slice_segments(ROW, start, stop) for piece in cut_up(part)]
    assert singles == PIECES[start:stop]


def cut_up(segment: Segment) -> list[Segment]:
    return [
        piece
        for index in range(segment_length(segment))
        for piece in slice_segments([segment], index, index + 1)
    ]


def test_slice_drops_empty_segments() -> None:
    assert slice_segments([entry_segment(), entry_segment("a"), of("msg_001", 3, 3)], 0, 1) == [
        entry_segment("a")
    ]
    assert slice_segments([], 0, 5) == []
    assert slice_segments(ROW, 3, 3) == []


def test_request_names_ranges_of_earlier_ones() -> None:
    first = create_request(10, entry_segment("a", "b", "c"))
    second = create_request(20, of("msg_010", 0, 3), entry_segment("d"))
    third = create_request(30, of("msg_020", 0, 1), entry_segment("e"), of("msg_020", 2, 4))
    assert read_context(first) == "abc"
    assert read_context(second, first) == "abcd"
    assert read_context(third, first, second) == "aecd"


def test_segment_without_a_start_begins_with_the_first_message() -> None:
    first = create_request(10, entry_segment("a", "b", "c"))
    range_ = Segment(request=MessageId("msg_010"), stop=2)
    second = create_request(20, range_, entry_segment("d"))
    empty = create_request(30, Segment(request=MessageId("msg_020")))
    assert read_context(second, first) == "abd"
    assert read_context(empty, first, second) == ""
    assert slice_segments([range_], 1, 2) == [of("msg_010", 1, 2)]
    loaded = create_request(10, Segment(loaded=MessageId("msg_002"), stop=1))
    messages = [Message("user", text) for text in "xy"]
    assert resolve_context(loaded, {}, ENTRIES, lambda _: messages) == messages[:1]


def test_leaves_are_entries_and_loaded_messages_only() -> None:
    loaded = Segment(loaded=MessageId("msg_002"), start=0, stop=3)
    first = create_request(10, loaded, entry_segment("a"))
    second = create_request(20, of("msg_010", 1, 4), entry_segment("b"))
    assert list(iter_leaf_segments(second, by_id(first))) == [
        Segment(loaded=MessageId("msg_002"), start=1, stop=3),
        entry_segment("a"),
        entry_segment("b"),
    ]


def test_loaded_messages_are_read_from_any_agent() -> None:
    request = create_request(
        10, Segment(loaded=MessageId("msg_002"), start=1, stop=3), entry_segment("a")
    )
    store = [Message("user", str(n)) for n in range(5)]
    segments_read = resolve_context(
        request, {}, ENTRIES, lambda id_: store if id_ == "msg_002" else []
    )
    assert [m.content for m in segments_read] == ["1", "2", "a"]


@pytest.mark.parametrize("later", [10, 30])
def test_request_that_references_itself_or_a_later_one_is_refused(later: int) -> None:
    unknown_request = create_request(later, of("msg_010", 0, 1))
    circular = create_request(10, Segment(request=message_id(later), start=0, stop=1))
    with pytest.raises(ValueError, match="a later request"):
        read_context(circular, circular, unknown_request)


def test_missing_reference_is_named() -> None:
    with pytest.raises(KeyError, match="msg_010"):
        read_context(create_request(20, of("msg_010", 0, 1)))
    with pytest.raises(KeyError, match="zz"):
        read_context(create_request(20, entry_segment("zz")))
    with pytest.raises(KeyError, match="msg_002"):
        read_context(create_request(20, Segment(loaded=MessageId("msg_002"), start=0, stop=1)))


def test_chain_of_ten_thousand_requests_is_resolved() -> None:
    """A system prompt kept through a long session gives such a chain; recursion would overflow."""
    first = create_request(0, entry_segment("a"))
    chain = [create_request(n, of(message_id(n - 1), 0, 1)) for n in range(1, 10_000)]
    assert read_context(chain[-1], first, *chain) == "a"


def test_request_may_name_as_many_entries_as_came_before_it() -> None:
    full = create_request(3, entry_segment("a", "b", "c"))
    assert read_context(full) == "abc"
    with pytest.raises(ValueError, match="more entries than came before"):
        read_context(create_request(2, entry_segment("a", "b", "c")))
