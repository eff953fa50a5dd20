"""fsck hashes every object, reports damage and changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

import pytest

from harken.core.canonical import MESSAGE_DOMAIN, PART_DOMAIN, hash_bytes, to_canonical_bytes
from harken.core.commits import (
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    encode_delta,
    encode_sequence,
    hash_raw,
)
from harken.core.messages import Occurrence
from harken.errors import HarkenError
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

YEARS_LATER = "2100-01-01T00:00:00Z"


def filled(store: MemoryStore | SqliteStore, steps: int = 12) -> list[CommitId]:
    names: list[CommitId] = []
    for index in range(steps):
        notes = CommitNotes(
            summary=f"understood {index}", labels=("pinned",) if index % 5 == 0 else ()
        )
        parent = names[-1] if names else None
        batch = batch_of(
            f"step {index}", "always", parent=parent, second=index, notes=notes, principal="p"
        )
        store.write(batch)
        names.append(commit_in(batch))
    deltas = [stored.commit.artifact for stored in store.chain(names[-1])]
    store.write(
        WriteBatch(sequences={encode_sequence(deltas)[0]: deltas}, raw={hash_raw(b"raw"): b"raw"})
    )
    return names


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_sound_store_has_no_findings(tmp_path: Path, kind: str) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "s.db")
    assert fsck(store) == []
    filled(store)
    assert fsck(store) == []
    store.close()


def everything(path: Path, names: list[CommitId]) -> object:
    """Read a store through every method."""
    store = SqliteStore(path)
    try:
        chain = store.chain(names[-1])
        deltas = store.deltas([stored.commit.artifact for stored in chain])
        messages = store.objects([entry.message for delta in deltas.values() for entry in delta])
        assert len(deltas) == len(chain)
        artifacts = store.names_with_prefix("art-", 100)
        return (chain, deltas, messages, artifacts, store.names_with_prefix("ctx-", 100))
    finally:
        store.close()


def message_object(role: str, part: bytes) -> tuple[Hash, dict[Hash, bytes]]:
    """Return a message of the store's form with one part, and its objects by name."""
    part_name = Hash(hash_bytes(PART_DOMAIN, part).hex())
    body = to_canonical_bytes({"parts": [part_name], "role": role})
    name = Hash(hash_bytes(MESSAGE_DOMAIN, body).hex())
    return name, {part_name: part, name: body}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("is_together", [True, False])
@pytest.mark.parametrize(
    ("role", "part", "problem"),
    [
        ("wizard", b'{"text":"Hi","type":"text"}', "unknown role 'wizard'"),
        ("user", b'{"text":5,"type":"text"}', "cannot be decoded"),
        ("user", b"[]", "cannot be decoded"),
        ("tool", b'{"text":"Hi","type":"text"}', "cannot be decoded"),
    ],
)
def test_message_that_no_reader_accepts_is_named(
    tmp_path: Path, kind: str, is_together: bool, role: str, part: bytes, problem: str
) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "s.db")
    filled(store, 2)
    name, objects = message_object(role, part)
    delta, _ = encode_delta([DeltaEntry(name, Occurrence())])
    deltas = {delta: [DeltaEntry(name, Occurrence())]}
    if is_together:
        store.write(WriteBatch(objects=objects, deltas=deltas))
    else:
        store.write(WriteBatch(objects=objects))
        store.write(WriteBatch(deltas=deltas))
    [finding] = fsck(store)
    assert name in f"{finding.place}: {finding.problem}"
    assert problem in finding.problem
    store.close()


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pack SET data = CAST(substr(data, 1, 40) || x'00' || substr(data, 42) AS BLOB) WHERE id = 5",
        "DELETE FROM pack WHERE id = 3",
        "UPDATE pack SET data = (SELECT data FROM pack WHERE id = 2) WHERE id = 6",
        "UPDATE history SET notes = CAST(substr(notes, 1, 12) || 'X' || substr(notes, 14) AS BLOB) WHERE id = 4",
        "UPDATE history SET parent = 2 WHERE id = 7",
        "UPDATE history SET parent = NULL WHERE id = 7",
        "UPDATE history SET parent = 11 WHERE id = 7",
        "UPDATE history SET time_us = time_us + 1 WHERE id = 7",
        "UPDATE history SET principal = 99 WHERE id = 7",
        "UPDATE history SET pack = 4 WHERE id = 7",
        "UPDATE history SET name = CAST(substr(name, 1, 20) || x'00' || substr(name, 22) AS BLOB) WHERE id = 7",
        "DELETE FROM history WHERE id = 12",
        "DELETE FROM label",
        "UPDATE label SET history = 99 WHERE history = 1",
        "DELETE FROM object WHERE pack = 5",
        "DELETE FROM artifact WHERE pack = 5",
        "INSERT INTO object VALUES (x'000000000000', 3)",
        "UPDATE artifact SET pack = 77 WHERE pack = 5",
    ],
)
def test_damage_is_reported_and_unchanged(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    filled(store)
    store.close()
    connection = sqlite3.connect(path)
    assert connection.execute(damage).rowcount > 0
    connection.commit()
    connection.close()
    before = path.read_bytes()
    store = SqliteStore(path)
    assert fsck(store)
    assert fsck(store)
    store.close()
    assert path.read_bytes() == before


@pytest.mark.req("D-02")
@pytest.mark.parametrize("seed", range(3))
def test_flipped_bit_is_reported_or_harmless(tmp_path: Path, seed: int) -> None:
    sound_path, path, dice = tmp_path / "whole.db", tmp_path / "s.db", Random(seed)
    store = SqliteStore(sound_path)
    names = filled(store)
    store.close()
    expected, data = everything(sound_path, names), bytearray(sound_path.read_bytes())
    for _ in range(60):
        offset, bit = dice.randrange(len(data)), 1 << dice.randrange(8)
        data[offset] ^= bit
        path.write_bytes(data)
        data[offset] ^= bit
        try:
            same, is_reported = everything(path, names) == expected, False
        except HarkenError:
            same, is_reported = False, True
        if not (same or is_reported):
            opened_store = SqliteStore(path)
            assert fsck(opened_store), f"bit {bit} of byte {offset}: another answer, and no finding"
            opened_store.close()
