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
    found = []
    for one in entries:
        entry, objects = encode_entry(one.message, time=one.time, source=one.source)
        found += [canonical.to_canonical_bytes(entry), *objects.values()]
    return found


@pytest.mark.req("S2-53")
@given(ENTRIES)
def test_entries_come_back_from_their_events(entries: list[ConversationEntry]) -> None:
    events = [event for entry in entries for event in events_from_entry(entry)]
    assert entries_from_events(events) == entries
    assert exactly(entries_from_events(events)) == exactly(entries)


@pytest.mark.req("S2-52", "S2-53")
@given(ENTRIES, ENTRIES)
def test_entries_come_back_from_their_bytes_joined_or_not(
    before: list[ConversationEntry], after: list[ConversationEntry]
) -> None:
    pieces = [written(before), written(after)]
    assert exactly(read(pieces[0])) == exactly(before)
    assert events_v1.join_event_arrays(pieces) == written([*before, *after])
    assert exactly(read(events_v1.join_event_arrays(pieces))) == exactly([*before, *after])


@given(ENTRIES)
def test_an_event_comes_back_from_its_values(entries: list[ConversationEntry]) -> None:
    events: list[Event] = [event for entry in entries for event in events_from_entry(entry)]
    assert [parse_event(event_to_record(event)) for event in events] == events


@st.composite
def harmed(draw: st.DrawFn) -> bytes:
    """Bytes of entries, with a few of them replaced."""
    data = bytearray(written(draw(ENTRIES)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2) | st.just(b"null"))
        data = data or bytearray(b"\0")
    return bytes(data)


@given(st.binary(max_size=60) | harmed())
def test_bytes_are_refused_or_say_what_a_store_takes(data: bytes) -> None:
    with suppress(FormatError):
        exactly(read(data))


def written(entries: list[ConversationEntry]) -> bytes:
    assert events_v1.FORMAT.writes
    data = events_v1.FORMAT.writes(entries)
    assert data is not None
    return data


def read(data: bytes) -> list[ConversationEntry]:
    assert events_v1.FORMAT.reads
    return events_v1.FORMAT.reads(data)


@given(ODD_CONTEXT | tidy_contexts())
def test_messages_whose_places_fit_come_back(context: list[Message]) -> None:
    for message in context:
        try:
            entry = ConversationEntry(message)
            exact = exactly([entry])
        except ValueError:
            continue
        assert exactly(entries_from_events(events_from_entry(entry))) == exact
