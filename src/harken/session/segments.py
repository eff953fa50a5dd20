"""Contexts as segments: the messages of a model call, in a size independent of the history.

A request refers to ranges of an earlier request's context and to new entries. The exact
context of any request is rebuilt from these, in time proportional to its own length.

Source: docs/formats/session-log.md, "Segments".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harken.core.events import LlmRequest, Segment
from harken.core.ids import MessageId, parse_id_number
from harken.core.messages import ChatMessage

Loaded = Callable[[MessageId], Sequence[ChatMessage]]
"""Resolver: the id of a `context_loaded` event -> the messages that it loaded."""


def segment_length(segment: Segment) -> int:
    """Return the number of messages in a segment."""
    if segment.entries is not None:
        return len(segment.entries)
    return (segment.stop or 0) - (segment.start or 0)


def slice_segments(segments: Sequence[Segment], start: int, stop: int) -> list[Segment]:
    """Return the segments for the messages `start` to `stop` of these segments.

    >>> segments = [Segment(request="msg_009", start=0, stop=5), Segment(entries=["a", "b"])]
    >>> slice_segments(segments, 4, 6)
    [Segment(request='msg_009', loaded=None, start=4, stop=5, entries=None), \
Segment(request=None, loaded=None, start=None, stop=None, entries=['a'])]
    """
    result: list[Segment] = []
    offset = 0
    for segment in segments:
        size = segment_length(segment)
        low, high = max(start - offset, 0), min(stop - offset, size)
        if low < high:
            result.append(_slice_segment(segment, low, high))
        offset += size
    return result


def _slice_segment(segment: Segment, low: int, high: int) -> Segment:
    if segment.entries is not None:
        return Segment(entries=segment.entries[low:high])
    first = segment.start or 0
    return Segment(
        request=segment.request, loaded=segment.loaded, start=first + low, stop=first + high
    )


def iter_leaf_segments(
    request: LlmRequest, requests: Mapping[MessageId, LlmRequest]
) -> Iterator[Segment]:
    """Yield the context of a request as segments of entries and loaded messages only.

    `requests` contains the earlier requests by id. Raises KeyError if one is missing,
    ValueError if a request refers to itself or a later one.
    """
    stack = [(segment, request) for segment in reversed(request.context)]
    entry_count, max_entries = 0, parse_id_number(request.message_id, "msg_") or request.count
    while stack:
        segment, named_by = stack.pop()
        if segment.request is None:
            entry_count += len(segment.entries or ())
            if entry_count > max_entries:
                raise ValueError(f"{request.message_id} names more entries than came before it")
            yield segment
            continue
        earlier = requests[segment.request]
        if not precedes(earlier, named_by):
            raise ValueError(f"{named_by.message_id} names {earlier.message_id}, a later request")
        inner = slice_segments(earlier.context, segment.start or 0, segment.stop or 0)
        stack.extend((part, earlier) for part in reversed(inner))


def precedes(earlier: LlmRequest, later: LlmRequest) -> bool:
    """Whether the id of a request is lower than that of another one."""
    earlier_number = parse_id_number(earlier.message_id, "msg_")
    later_number = parse_id_number(later.message_id, "msg_")
    return earlier_number is not None and later_number is not None and earlier_number < later_number


def resolve_context(
    request: LlmRequest,
    requests: Mapping[MessageId, LlmRequest],
    entries: Mapping[MessageId, ChatMessage],
    loaded: Loaded | None = None,
) -> list[ChatMessage]:
    """Return the exact messages of a request's context, in order.

    Raises KeyError with the id if an entry, request or loaded context is missing.
    """
    messages: list[ChatMessage] = []
    for leaf in iter_leaf_segments(request, requests):
        if leaf.loaded is not None:
            if loaded is None:
                raise KeyError(leaf.loaded)
            messages.extend(loaded(leaf.loaded)[leaf.start : leaf.stop])
        else:
            messages.extend(entries[id_] for id_ in leaf.entries or ())
    return messages
