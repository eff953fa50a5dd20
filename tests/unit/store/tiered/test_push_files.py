"""Pushes of imported files: the backing store follows a file that grew or was rewritten."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.purge import purge_text
from harken.index.catalogue import Catalogue
from harken.store.fsck import fsck
from harken.store.imported_files import (
    find_native_file,
    iter_unreadable_files,
    read_imported_files,
)
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from tests.regression.test_native_bytes import sample, transcript
from tests.unit.context.test_purge import PURGE

LATER = "2100-01-01T00:00:00Z"


class Machine:
    """A home with a local store, in front of a backing store that others may share."""

    def __init__(self, folder: Path, backing: MemoryStore) -> None:
        self.local, self.backing = SqliteStore(folder / "s.db"), backing
        self.store, self.catalogue = TieredStore(self.local, backing), Catalogue(None)

    def import_file(self, path: Path, data: bytes) -> None:
        """Write a file and import it."""
        path.write_bytes(data)
        list(Importer(self.store, self.catalogue).run(list(iter_files(path))))

    def pushed_bytes(self) -> bytes:
        """Push, and return the bytes of the only file in the backing store."""
        self.store.push()
        [file] = read_imported_files(self.backing).values()
        return self.backing.raw(file.raw)


@pytest.fixture
def backing() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def machine(tmp_path: Path, backing: MemoryStore) -> Iterator[Machine]:
    machine = Machine(tmp_path, backing)
    with closing(machine.local):
        yield machine


def collect(machine: Machine) -> None:
    machine.store.collect([], now=LATER, grace_s=0)


def purge(machine: Machine) -> None:
    purge_text(machine.store, [], PURGE)


FORGETTING: list[Callable[[Machine], object]] = [collect, purge]


@pytest.mark.parametrize("forget", FORGETTING)
def test_a_file_that_grew_is_pushed_after_derived_data_was_removed(
    machine: Machine, tmp_path: Path, forget: Callable[[Machine], object]
) -> None:
    lines, path = transcript().splitlines(keepends=True), tmp_path / "a.jsonl"
    for count in (2, len(lines)):
        machine.import_file(path, b"".join(lines[:count]))
        forget(machine)
        assert machine.pushed_bytes() == b"".join(lines[:count])
    collect(machine)
    assert machine.pushed_bytes() == b"".join(lines)
    assert not fsck(machine.local)


def test_a_file_that_did_not_change_is_not_sent_again(machine: Machine, tmp_path: Path) -> None:
    machine.import_file(tmp_path / "a.jsonl", transcript())
    assert machine.pushed_bytes() == transcript()
    collect(machine)
    heads = machine.backing.heads()
    assert machine.store.push().objects == 0
    assert machine.backing.heads() == heads


def test_a_rewritten_file_is_pushed(machine: Machine, tmp_path: Path) -> None:
    """A client that stores JSON documents writes the complete file after each turn."""
    path = tmp_path / "trajectory.json"
    document: dict[str, Any] = json.loads(sample("atif-v1"))
    document["steps"].append({"step_id": 2, "source": "agent", "message": "Nobody."})
    machine.import_file(path, json.dumps(document).encode())
    machine.pushed_bytes()
    document["steps"].append({"step_id": 3, "source": "user", "message": "Look again."})
    machine.import_file(path, json.dumps(document).encode())
    collect(machine)
    assert machine.pushed_bytes() == json.dumps(document).encode()


def test_a_rewritten_file_without_its_commits_is_pushed(machine: Machine, tmp_path: Path) -> None:
    """The first turn had no answer yet, so its commit is not among those of the complete turn."""
    path = tmp_path / "trajectory.json"
    document: dict[str, Any] = json.loads(sample("atif-v1"))
    first = json.dumps(document).encode()
    machine.import_file(path, first)
    [file] = read_imported_files(machine.local).values()
    machine.pushed_bytes()
    document["steps"].append({"step_id": 2, "source": "agent", "message": "Nobody."})
    machine.import_file(path, json.dumps(document).encode())
    collect(machine)
    assert machine.pushed_bytes() == json.dumps(document).encode()
    assert find_native_file(machine.backing, file.tips[0], "atif-v1") == file
    assert machine.backing.raw(file.raw) == first


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_truncated_file_is_pushed_with_its_earlier_bytes(
    machine: Machine, tmp_path: Path, *, is_empty: bool
) -> None:
    lines, path = transcript().splitlines(keepends=True), tmp_path / "a.jsonl"
    machine.import_file(path, b"".join(lines))
    [file] = read_imported_files(machine.local).values()
    machine.pushed_bytes()
    short = b"" if is_empty else b"".join(lines[:2])
    machine.import_file(path, short)
    machine.import_file(path, short + b"\n")
    machine.import_file(path, short)
    collect(machine)
    machine.backing.collect([], now=LATER, grace_s=0)
    assert machine.pushed_bytes() == short
    for store in (machine.local, machine.backing):
        assert store.raw(file.raw) == b"".join(lines)
        assert find_native_file(store, file.tips[0], "claude-code-v1") == file
        assert not fsck(store)


def test_a_rewritten_file_names_its_state_in_the_backing_store(
    machine: Machine, tmp_path: Path, backing: MemoryStore
) -> None:
    path = tmp_path / "a.jsonl"
    (tmp_path / "other").mkdir()
    other = Machine(tmp_path / "other", backing)
    with closing(other.local):
        other.import_file(path, transcript())
        other.store.push()
    [file] = read_imported_files(backing).values()
    changed = transcript().replace(b"Nobody.", b"Somebody!")
    machine.import_file(path, changed)
    assert machine.pushed_bytes() == changed
    backing.collect([], now=LATER, grace_s=0)
    assert backing.raw(file.raw) == transcript()


def test_a_file_that_differs_in_the_backing_store_is_reported(
    machine: Machine, tmp_path: Path, backing: MemoryStore
) -> None:
    path = tmp_path / "a.jsonl"
    (tmp_path / "other").mkdir()
    other = Machine(tmp_path / "other", backing)
    with closing(other.local):
        other.import_file(path, transcript())
        other.store.push()
        path.write_bytes(transcript().replace(b"Nobody.", b"Somebody!"))
        list(Importer(machine.local, machine.catalogue).run(list(iter_files(path))))
        before = backing.heads()
        for _ in range(2):
            [head] = machine.store.push().different
            assert (head.kind, head.place) == ("file", f"{platform.node()}:{path}")
            assert backing.heads() == before == {head.name: head.remote}
        assert other.store.push().different == ()


def test_files_are_listed_offline_after_their_bytes_were_evicted(
    machine: Machine, tmp_path: Path
) -> None:
    machine.import_file(tmp_path / "a.jsonl", transcript())
    files = read_imported_files(machine.local)
    [file] = files.values()
    machine.store.push()
    machine.store.evict(0)
    assert machine.local.raws([file.raw]) == {}
    assert read_imported_files(machine.local) == files
    assert [*iter_unreadable_files(machine.local)] == []
    assert not fsck(machine.local)
    assert machine.store.raw(file.raw) == transcript()


def test_an_older_home_does_not_move_a_file_back(
    machine: Machine, tmp_path: Path, backing: MemoryStore
) -> None:
    lines, path = transcript().splitlines(keepends=True), tmp_path / "a.jsonl"
    (tmp_path / "other").mkdir()
    older = Machine(tmp_path / "other", backing)
    with closing(older.local):
        older.import_file(path, b"".join(lines[:2]))
        machine.import_file(path, b"".join(lines))
        assert machine.pushed_bytes() == b"".join(lines)
        assert older.pushed_bytes() == b"".join(lines)
        assert machine.pushed_bytes() == b"".join(lines)
