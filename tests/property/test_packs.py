"""What comes out of packs is what went in, by names and by places."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.context.message_reader import read_entries, read_entry_messages
from harken.core import commits
from harken.core.messages import Message
from harken.store.base import ObjectKind, WriteBatch
from harken.store.batch import validate_batch
from harken.store.sqlite.pack import PackCorrupted, decode_objects, encode_pack
from harken.store.sqlite.store import SqliteStore
from tests.property.test_messages import messages

OFTEN = st.sampled_from(
    [Message("user", "a"), Message("assistant", "f" * 64), Message("tool", "a")]
)


def batch_of(conversation: list[Message]) -> WriteBatch:
    entries: list[commits.DeltaEntry] = []
    objects: dict[commits.Hash, bytes] = {}
    for message in conversation:
        entry, needed = commits.encode_entry(message, source={"like a name": "e" * 64})
        entries.append(entry)
        objects |= needed
    return WriteBatch(objects=objects, deltas={commits.encode_delta(entries)[0]: entries})


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(messages() | OFTEN, max_size=4), max_size=5))
def test_messages_by_position_equal_messages_by_name(conversations: list[list[Message]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "s.db")
        for conversation in conversations:
            batch = batch_of(conversation)
            store.write(batch)
            [name] = batch.deltas
            fresh = SqliteStore(store.path)
            assert fresh.messages([name]).get(name, conversation) == conversation
            every_other = range(0, len(conversation), 2)
            some = fresh.messages_at({name: every_other}).get(name)
            assert some is None or some == {index: conversation[index] for index in every_other}
            assert read_entry_messages(fresh, read_entries(fresh, [name])) == conversation
            assert fresh.messages([name]).get(name, conversation) == conversation
            fresh.close()
        store.close()


@settings(max_examples=50, deadline=None)
@given(st.lists(messages() | OFTEN, max_size=6), st.binary(), st.sampled_from([1, 20_000]))
def test_pack_round_trips(conversation: list[Message], raw: bytes, times: int) -> None:
    raw *= times
    batch = batch_of(conversation)
    full_batch = WriteBatch(
        objects=batch.objects, deltas=batch.deltas, raw={commits.hash_raw(raw): raw}
    )
    objects = list(validate_batch(full_batch).objects.values())
    pack = encode_pack(objects)
    assert pack.objects == decode_objects(pack.data) == {t.name: (t.kind, t.body) for t in objects}
    assert [*decode_objects(pack.data)] == [object_.name for object_ in objects]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_invalid_pack_is_reported_as_damage(data: st.DataObject) -> None:
    """Also what was sealed as a pack by somebody who means harm."""
    import msgspec
    from blake3 import blake3

    numbers = st.integers(-3, 3) | st.just(2**40)
    inside = data.draw(
        st.tuples(
            st.binary(max_size=70) | st.just(os.urandom(32)),
            st.lists(st.sampled_from([kind.value for kind in ObjectKind]) | st.just(9)).map(bytes),
            st.just(os.urandom(32)) | st.binary(max_size=40),
            st.lists(numbers),
            st.lists(st.binary() | st.just(b'{"parts":["\x01"],"role":"user"}')),
        )
        | st.lists(st.none() | st.binary())
    )
    body = b"\0" + msgspec.msgpack.encode(inside)
    with suppress(PackCorrupted):
        decode_objects(blake3(body).digest(8) + body)


@pytest.mark.parametrize("data", [b"", b"x", b"12345678", b"12345678\2", None, 3, "x"])
def test_short_or_mistyped_pack_is_reported_as_damage(data: bytes) -> None:
    with pytest.raises(PackCorrupted):
        decode_objects(data)
