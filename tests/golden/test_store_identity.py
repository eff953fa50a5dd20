"""Literal names of deltas, sequences, raw bytes and commits, and a pack. A change is a new format.

The values stand in docs/formats/store.md too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from harken.core import canonical
from harken.core.commits import (
    Commit,
    commit_bytes,
    decode_commit,
    decode_delta,
    encode_delta,
    encode_entry,
    encode_sequence,
    hash_raw,
)
from harken.core.messages import Message
from harken.store.base import ObjectKind, StoredObject
from harken.store.sqlite.compression import WORDS
from harken.store.sqlite.pack import decode_objects, encode_packs

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "store.md"
NOON = "2026-01-31T12:00:00.000000Z"
MESSAGE = "c425f6bdc4458c9926666c202a662824ffe87d2a211fec01de7cfdb5ac8c8a19"
DELTA = "art-77bea2ac3bc7f71bcb2d5c2729d0f6dbe812a44e9862e62f9e0af6153356d8d1"
SEQUENCE = "art-2089d58bb5905b376ae965d63b98fea3b5a9712396fa7be75dfc5b5935588e73"
RAW = "art-ffa7b852de5cb20b42470e2b2decc2faff3053546b3a69c85a6b094c40387bba"
EMPTY = "art-229afdb09c7a7bb3bcadeff3a70fca9294e6a920fd70738ff8ecb7f6e94777e3"
ROOT = "ctx-ba2333cf96599b822f78d3fa055dd53f77cf29f7f0d2b575cd764419ee1a4fdd"
CHILD = "ctx-75ef05fa3fb43e93a494d033c540d095044057d09fa0933d2ffa3f24d213a29c"
WORDS_HASH = "8c34f26f5f982caa0e2381870ec8373d5e88e88bc71b729045c6534ea973d8e7"
PACK = bytes.fromhex(
    "27c5d0e4ef987ac00228b52ffd20f58d0300e40495c400c40401020306c42077bea2ac3bc7f71bcb2d5c"
    "2729d0f6dbe812a44e9862e62f9e0af6153356d8d19301010194c41b4869c41dc44630312d3331543132"
    "3a30303a30302e305a227d5dc43f0b0045a8a196500043e105b44bb70dd05b8931c3413503688dc35940"
    "58a6283214"
)
WOVEN_PACK = bytes.fromhex(
    "5e3033698d9602b4030000004e28b52ffd60fe3570020095c400c4020105c420bbbafc8d3bef8a9bb36e"
    "e5c2eb1816abcc8841720a24b97542c0a34116f7e96b9092c41b7b2274657874223a224869222c227479"
    "7065223a2274657874227dc404000036b05d0000080a020091f6272f245440"
)
FILE = b'{"text":"Hi","type":"text"}\n' * 500

ENTRY, OBJECTS = encode_entry(Message("user", "Hi"), time=NOON)
DELTA_BYTES = b'[{"message":"%s","occurrence":{},"time":"%s"}]' % (MESSAGE.encode(), NOON.encode())
ROOT_COMMIT = Commit(artifact=encode_delta([ENTRY])[0], created_at=NOON)


@pytest.mark.req("S2-04")
def test_a_delta_has_these_bytes_and_this_name() -> None:
    assert encode_delta([ENTRY]) == (DELTA, DELTA_BYTES)
    assert decode_delta(DELTA_BYTES) == [ENTRY]
    assert encode_delta([]) == (EMPTY, b"[]")
    assert "art-" + canonical.hash_bytes(b"harken.delta.v1\n", DELTA_BYTES).hex() == DELTA


def test_delta_name_does_not_depend_on_string_identity() -> None:
    """msgspec leaves out a default that is the very same object only."""
    text: Any = str(b"text", "ascii")
    occurrence = type(ENTRY.occurrence)(shape=text)
    assert encode_delta([type(ENTRY)(ENTRY.message, occurrence, ENTRY.time)])[0] == DELTA


def test_sequences_and_raw_bytes_have_these_names() -> None:
    ref = encode_delta([ENTRY])[0]
    assert encode_sequence([ref, ref]) == (SEQUENCE, b'["%s","%s"]' % ((DELTA.encode(),) * 2))
    assert hash_raw(b"Hi") == RAW


@pytest.mark.req("S2-04")
def test_commit_omits_default_members() -> None:
    body = b'{"artifact":"%s","created_at":"%s"}' % (DELTA.encode(), NOON.encode())
    assert (ROOT_COMMIT.id, commit_bytes(ROOT_COMMIT)) == (ROOT, body)
    text: Any = str(b"delta", "ascii")  # not the object that is the default
    explicit = Commit(type=text, artifact=ROOT_COMMIT.artifact, created_at=NOON)
    assert explicit.id == ROOT
    assert decode_commit(body) == ROOT_COMMIT
    assert "ctx-" + canonical.hash_bytes(b"harken.commit.v1\n", body).hex() == ROOT


@pytest.mark.req("S2-04")
def test_every_member_of_a_commit_is_in_its_name() -> None:
    commit = Commit(
        parent=ROOT_COMMIT.id,
        type="compaction",
        artifact=ROOT_COMMIT.artifact,
        format="claude-code-v1",
        template="t",
        principal="p",
        machine="m",
        session_id="cafe",
        checkpoint="tool_call",
        ticket_id="tkt-1",
        thread_id="$1",
        message_count=1,
        token_count=2,
        created_at="2026-01-31T12:00:01.000000Z",
    )
    assert commit.id == CHILD
    assert decode_commit(commit_bytes(commit)) == commit
    assert len(canonical.from_json(commit_bytes(commit))) == len(Commit.__struct_fields__)


def test_a_pack_has_these_bytes() -> None:
    part, message = OBJECTS
    objects = [
        StoredObject(ObjectKind.PART, part, OBJECTS[part]),
        StoredObject(ObjectKind.MESSAGE, message, OBJECTS[message], (part,)),
        StoredObject(ObjectKind.DELTA, DELTA, DELTA_BYTES, (MESSAGE,)),
        StoredObject(ObjectKind.COMMIT, ROOT, commit_bytes(ROOT_COMMIT), (DELTA,)),
    ]
    expected = {
        stored_object.name: (stored_object.kind, stored_object.body) for stored_object in objects
    }
    assert decode_objects(PACK) == expected
    [pack] = encode_packs(objects)
    assert pack.objects == decode_objects(pack.data) == expected


def test_a_pack_with_raw_bytes_behind_has_these_bytes() -> None:
    part, _ = OBJECTS
    objects = [
        StoredObject(ObjectKind.PART, part, OBJECTS[part]),
        StoredObject(ObjectKind.RAW, hash_raw(FILE), FILE),
    ]
    expected = {
        stored_object.name: (stored_object.kind, stored_object.body) for stored_object in objects
    }
    assert decode_objects(WOVEN_PACK) == expected
    [pack] = encode_packs(objects)
    assert pack.objects == decode_objects(pack.data) == expected


def test_compression_dictionary_is_unchanged() -> None:
    assert blake3(WORDS).hexdigest() == WORDS_HASH


def test_the_document_has_these_values() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for value in (
        MESSAGE,
        DELTA,
        SEQUENCE,
        RAW,
        ROOT,
        CHILD,
        WORDS_HASH,
        PACK.hex(),
        WOVEN_PACK.hex(),
    ):
        assert value in text
    assert DELTA_BYTES.decode() in text
