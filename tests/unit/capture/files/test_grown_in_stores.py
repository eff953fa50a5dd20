"""A file of many chunks that grows is stored in each kind of store, and stays whole there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harken.capture.files.grown_file import RunningHashes
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.purge import PurgeRequest, purge_text
from harken.core.commits import ArtifactRef, CommitId
from harken.core.secrets.removal import Secret
from harken.errors import ObjectNotFound
from harken.index.catalogue import Catalogue
from harken.store.base import Store
from harken.store.copying.commits import copy_commits
from harken.store.copying.imported_files import add_imported_files, copy_imported_files
from harken.store.fsck import fsck
from harken.store.imported_files import find_native_file
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from harken.testing import ticking
from tests.service_kit import TOKEN, serve_store

LATER = "2100-01-01T00:00:00Z"
SECRET = "sk-0123456789-live"
STORES = ("memory", "sqlite", "service", "tiered")


@contextmanager
def open_stores(kind: str, folder: Path) -> Iterator[tuple[Store, list[Store]]]:
    """Yield a store, and the stores that fsck can verify."""
    if kind == "memory":
        memory = MemoryStore()
        yield memory, [memory]
        return
    with closing(SqliteStore(folder / "store.db")) as local:
        if kind == "sqlite":
            yield local, [local]
        elif kind == "tiered":
            backing = MemoryStore()
            yield TieredStore(local, backing), [local, backing]
        else:
            with (
                serve_store(local) as url,
                closing(RemoteStore(url, token=TOKEN)) as remote,
            ):
                yield remote, [local]


class GrowingSession:
    """A session of Pi, with random texts of 10 KB, and its imports into a store."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.store, self.path, self._count, self._rng = store, folder / "a.jsonl", 0, Random(1)
        self._catalogue, self._hashes = Catalogue(None), RunningHashes(lambda: 0.0)
        self.path.write_bytes(b'{"type":"session","version":3,"id":"pi-1","cwd":"/w"}\n')
        self.raw, self.tip = ArtifactRef(""), CommitId("")
        self.grow(90)

    def grow(self, count: int = 10, text: str = "") -> ArtifactRef:
        """Append entries, and import the file. Return the name of its bytes."""
        with self.path.open("a") as file:
            for number in range(self._count, self._count + count):
                content = f"{text} {self._rng.getrandbits(40_000):x}"
                file.write(json.dumps(_entry(number, content)) + "\n")
        self._count += count
        files = [*iter_files(self.path)]
        [result] = Importer(self.store, self._catalogue, hashes=self._hashes).run(files)
        assert result.report.raw is not None, result.report.reason
        self.raw = ArtifactRef(result.report.raw)
        self.tip = CommitId(result.report.tips[0].ctx)
        return self.raw

    def check(self, store: Store) -> None:
        """Check that a store has the bytes of the file, for an export, too."""
        data = self.path.read_bytes()
        assert store.raw(self.raw) == data
        assert b"".join(store.raws([piece])[piece] for piece in store.chunk_names(self.raw)) == data
        file = find_native_file(store, self.tip, "pi-v3")
        assert file is not None
        assert file.raw == self.raw


def _entry(number: int, content: str) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    message = {"role": role, "content": [{"type": "text", "text": content}]}
    parent = f"e{number - 1}" if number else None
    return {"type": "message", "id": f"e{number}", "parentId": parent, "message": message}


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, list[Store]]]:
    with open_stores(request.param, tmp_path) as opened:
        yield opened


def test_versions_share_all_chunks_but_the_last(
    stores: tuple[Store, list[Store]], tmp_path: Path
) -> None:
    store, parts = stores
    session = GrowingSession(tmp_path, store)
    for _ in range(3):
        session.check(store)
        before = store.chunk_names(session.raw)
        names = {*store.names_with_prefix("art-", 2**62)}
        raw = session.grow()
        chunks = store.chunk_names(raw)
        assert len(before) > 2
        assert chunks[: len(before) - 1] == before[:-1]
        new = {*store.names_with_prefix("art-", 2**62)} - names
        assert new.isdisjoint(before)
        assert (
            len(store.raws(map(ArtifactRef, new))) <= 3
        )  # The last chunk, perhaps another one, and the record.
    session.check(store)
    assert [problem for part in parts for problem in fsck(part)] == []


def test_earlier_versions_are_collected_without_the_shared_chunks(
    stores: tuple[Store, list[Store]], tmp_path: Path
) -> None:
    store, parts = stores
    session = GrowingSession(tmp_path, store)
    first, last_chunk = session.raw, store.chunk_names(session.raw)[-1]
    session.grow()
    store.collect([], now=LATER, grace_s=0)
    for name in (first, last_chunk):
        with pytest.raises(ObjectNotFound):
            store.raw(name)
    session.check(store)
    session.grow()
    session.check(store)
    assert [problem for part in parts for problem in fsck(part)] == []


def test_purged_text_stays_away_when_its_file_grows(
    stores: tuple[Store, list[Store]], tmp_path: Path
) -> None:
    store, parts = stores
    session = GrowingSession(tmp_path, store)
    session.grow(10, SECRET)
    session.grow(40)
    before = session.raw
    purge = PurgeRequest(secret=Secret(SECRET), by="ann", why="it leaked", clock=ticking())
    purge_text(store, [], purge)
    session.grow()
    data = session.path.read_bytes()
    for raw in (before, session.raw):
        text = store.raw(raw)
        assert SECRET.encode() not in text
        assert text.splitlines()[:90] == data.splitlines()[:90]
    assert store.raw(session.raw).splitlines()[-10:] == data.splitlines()[-10:]
    assert [problem for part in parts for problem in fsck(part)] == []


def test_file_that_grew_is_copied_into_a_bundle_and_back(
    stores: tuple[Store, list[Store]], tmp_path: Path
) -> None:
    store, _ = stores
    session = GrowingSession(tmp_path, store)
    session.grow()
    tip = session.tip
    with closing(SqliteStore(tmp_path / "bundle.db")) as bundle:
        copy_commits(store, bundle, [tip])
        copy_imported_files(store, bundle, [tip])
        session.check(bundle)
        assert fsck(bundle) == []
        target = MemoryStore()
        copy_commits(bundle, target, [tip])
        add_imported_files(bundle, target)
        session.check(target)


def test_file_that_grew_is_pushed_and_evicted(tmp_path: Path) -> None:
    with (
        closing(SqliteStore(tmp_path / "backing.db")) as backing,
        serve_store(backing) as url,
        closing(RemoteStore(url, token=TOKEN)) as remote,
        closing(TieredStore(SqliteStore(tmp_path / "local.db"), remote)) as store,
    ):
        session = GrowingSession(tmp_path, store)
        for _ in range(2):
            store.push()
            session.check(backing)
            store.evict(0)
            session.check(store)
            session.grow()
        store.push()
        session.check(backing)
        assert fsck(backing) == fsck(store.local) == []
