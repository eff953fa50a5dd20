"""Records of imported files: one damaged record is one finding, and never hides the others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harken.core.commits import ArtifactRef, HeadName, encode_sequence, hash_raw
from harken.errors import ObjectCorrupted
from harken.store.base import Store, WriteBatch
from harken.store.imported_files import FileRecord, iter_unreadable_files, read_imported_files
from harken.store.memory import MemoryStore
from harken.store.sqlite.graph import remove_objects
from harken.store.sqlite.store import SqliteStore

MAX = 2**63 - 1
REPORT: dict[str, Any] = {"source": "a", "format": "claude-code-v1", "session": "s"}
RECORD: dict[str, Any] = {
    "machine": "m",
    "path": "/a.jsonl",
    "size": 1,
    "mtime_ns": 1,
    "tail": "00",
    "report": REPORT,
    "spawners": [],
}
DAMAGED, INTACT = HeadName("src-" + "1" * 64), HeadName("src-" + "2" * 64)


def write_record(store: Store, name: HeadName, body: bytes) -> ArtifactRef:
    """Write a record of any bytes as the head of a file. Return the record's name."""
    raw, record = hash_raw(b"x"), hash_raw(body)
    head, _ = encode_sequence([record, raw])
    store.write(WriteBatch(raw={raw: b"x", record: body}, sequences={head: [record, raw]}))
    store.set_heads({name: head})
    return record


def record_bytes(**members: Any) -> bytes:
    return json.dumps({**RECORD, **members}).encode()


INVALID: dict[str, bytes] = {
    "a negative size": record_bytes(size=-1),
    "a size of 64 bits": record_bytes(size=MAX + 1),
    "a size of thousands of digits": record_bytes().replace(
        b'"size": 1', b'"size": ' + b"9" * 5000
    ),
    "a boolean size": record_bytes(size=True),
    "a fractional size": record_bytes(size=1.5),
    "no size": record_bytes().replace(b'"size": 1', b'"size": NaN'),
    "a time above 64 bits": record_bytes(mtime_ns=MAX + 1),
    "a time below 64 bits": record_bytes(mtime_ns=-MAX - 2),
    "a boolean time": record_bytes(mtime_ns=False),
    "a tail that is no hash": record_bytes(tail="0z"),
    "half a byte": record_bytes(tail="000"),
    "a long tail": record_bytes(tail="00" * 100),
    "a negative number of lines": record_bytes(report={**REPORT, "lines": -1}),
    "a boolean number of lines": record_bytes(report={**REPORT, "bad_lines": True}),
    "a number of commits above 64 bits": record_bytes(report={**REPORT, "commits": MAX + 1}),
    "a nested value": b"[" * 100_000 + b"]" * 100_000,
    "no JSON": b"\xff",
    "nothing": b"",
}


@pytest.mark.parametrize("body", INVALID.values(), ids=INVALID)
def test_an_invalid_record_is_damage_of_its_file_alone(body: bytes) -> None:
    store = MemoryStore()
    write_record(store, DAMAGED, body)
    write_record(store, INTACT, record_bytes())
    assert [*read_imported_files(store)] == [INTACT]
    assert [name for name, _ in iter_unreadable_files(store)] == [DAMAGED]


VALID: dict[str, dict[str, Any]] = {
    "nothing": {"size": 0, "mtime_ns": 0, "tail": ""},
    "the largest numbers": {"size": MAX, "mtime_ns": MAX, "tail": "0f" * 32},
    "a time before 1970": {"mtime_ns": -MAX - 1},
    "a path that is no text": {"path": "/\udcff"},
    "counts": {"report": {**REPORT, "lines": MAX, "bad_lines": 0, "commits": 7}},
    "members of a later version": {"more": [1], "report": {**REPORT, "more": {}}},
}


@pytest.mark.parametrize("members", VALID.values(), ids=VALID)
def test_a_record_at_the_limits_is_read(members: dict[str, Any]) -> None:
    store = MemoryStore()
    write_record(store, INTACT, record_bytes(**members))
    record = read_imported_files(store)[INTACT].record
    assert isinstance(record, FileRecord)
    assert {name: getattr(record, name) for name in members if name != "more"} == {
        name: value for name, value in members.items() if name != "more"
    }


class _CorruptedStore(MemoryStore):
    """A store in which some objects are corrupted."""

    corrupted: frozenset[ArtifactRef] = frozenset()

    def _readable(self, names: Iterable[ArtifactRef]) -> list[ArtifactRef]:
        for name in (listed := [*names]):
            if name in self.corrupted:
                raise ObjectCorrupted("store", name, reason="checksum mismatch")
        return listed

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        return super().raws(self._readable(names))

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        return super().sequences(self._readable(names))


@pytest.mark.parametrize("part", ["record", "head"])
def test_a_corrupted_object_is_damage_of_its_file_alone(part: str) -> None:
    store = _CorruptedStore()
    record = write_record(store, DAMAGED, record_bytes(path="/b.jsonl"))
    write_record(store, INTACT, record_bytes())
    store.corrupted = frozenset({record if part == "record" else store.heads()[DAMAGED]})
    assert [*read_imported_files(store)] == [INTACT]
    [(name, problem)] = iter_unreadable_files(store)
    assert (name, "checksum mismatch" in problem) == (DAMAGED, True)


def test_a_lost_record_is_damage_of_its_file_alone(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        record = write_record(store, DAMAGED, record_bytes(path="/b.jsonl"))
        write_record(store, INTACT, record_bytes())
        with store.removing() as connection:
            remove_objects("store", connection, [record], {})
        assert [*read_imported_files(store)] == [INTACT]
        assert [name for name, _ in iter_unreadable_files(store)] == [DAMAGED]
