"""Laws of the hub, on whatever message Hypothesis can think of."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.core.commits import encode_entry
from harken.core.messages import Message
from harken.errors import FormatError
from harken.formats import events_v1
from harken.formats.base import ConversationEntry
from harken.formats.events import Event, event_to_record, parse_event
from harken.formats.hub import entries_from_events, events_from_entry
from tests.property.test_messages import MAYBE, MESSAGE, META
from tests.unit.formats.context_kit import ODD_CONTEXT, tidy_contexts

ENTRY = st.builds(ConversationEntry, MESSAGE, MAYBE, st.none() | META)
ENTRIES = st.lists(ENTRY, max_size=4)


def exactly(entries: list[ConversationEntry]) -> list[bytes]:
    """What a delta holds of entries: `0`, `0.0` and `false` are three things in it."""
    data = []
    for entry_ in entries:
        entry, objects = encode_entry(entry_.message, time=entry_.time, source=entry_.source)
        data += [canonical.to_canonical_bytes(entry), *objects.values()]
    return data


@pytest.mark.req("S2-53")
@given(ENTRIES)
def test_entries_round_trip_as_events(entries: list[ConversationEntry]) -> None:
    events = [event for entry in entries for event in events_from_entry(entry)]
    assert entries_from_events(events) == entries
    assert exactly(entries_from_events(events)) == exactly(entries)


@pytest.mark.req("S2-52", "S2-53")
@given(ENTRIES, ENTRIES)
def test_entries_round_trip_as_bytes_joined_or_not(
    before: list[ConversationEntry], after: list[ConversationEntry]
) -> None:
    pieces = [encode_entries(before), encode_entries(after)]
    assert exactly(decode_entries(pieces[0])) == exactly(before)
    assert events_v1.join_event_arrays(pieces) == encode_entries([*before, *after])
    assert exactly(decode_entries(events_v1.join_event_arrays(pieces))) == exactly(
        [*before, *after]
    )


@given(ENTRIES)
def test_event_round_trips_as_values(entries: list[ConversationEntry]) -> None:
    events: list[Event] = [event for entry in entries for event in events_from_entry(entry)]
    assert [parse_event(event_to_record(event)) for event in events] == events


@st.composite
def harmed(draw: st.DrawFn) -> bytes:
    """Bytes of entries, with a few of them replaced."""
    data = bytearray(encode_entries(draw(ENTRIES)))
    for _ in range(draw(st.integers(1, 3))):
        offset = draw(st.integers(0, len(data) - 1))
        data[offset : offset + draw(st.integers(0, 2))] = draw(
            st.binary(max_size=2) | st.just(b"null")
        )
        data = data or bytearray(b"\0")
    return bytes(data)


@given(st.binary(max_size=60) | harmed())
def test_bytes_are_refused_or_storable(data: bytes) -> None:
    with suppress(FormatError):
        exactly(decode_entries(data))


def encode_entries(entries: list[ConversationEntry]) -> bytes:
    assert events_v1.FORMAT.writes
    data = events_v1.FORMAT.writes(entries)
    assert data is not None
    return data


def decode_entries(data: bytes) -> list[ConversationEntry]:
    assert events_v1.FORMAT.reads
    return events_v1.FORMAT.reads(data)


@given(ODD_CONTEXT | tidy_contexts())
def test_messages_with_valid_places_round_trip(context: list[Message]) -> None:
    for message in context:
        try:
            entry = ConversationEntry(message)
            exact = exactly([entry])
        except ValueError:
            continue
        assert exactly(entries_from_events(events_from_entry(entry))) == exact
