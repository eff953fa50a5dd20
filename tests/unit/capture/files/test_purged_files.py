"""After a purge, a file that grew is stored without the purged text."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.purge import PurgeRequest, purge_text
from harken.core.commits import ArtifactRef
from harken.core.secrets.removal import PURGED, Secret
from harken.index.catalogue import Catalogue
from harken.store.base import Store
from harken.store.fsck import fsck
from harken.store.imported_files import read_imported_files
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.formats.transcript_kit import Transcript, text_block

TEXT = "zebra-quince-7781"


def add_turns(session: Transcript, first: int, count: int) -> None:
    random = Random(first)
    for number in range(first, first + count):
        session.user(f"Question {number} " + " ".join(str(random.random()) for _ in range(300)))
        session.answer(text_block(f"Answer {number}."))


@pytest.mark.parametrize("store_type", [MemoryStore, SqliteStore])
@pytest.mark.parametrize("turns", [3, 200], ids=["one-chunk", "several-chunks"])
def test_a_grown_file_is_stored_without_the_purged_text(
    tmp_path: Path, store_type: type[Store], turns: int
) -> None:
    path = tmp_path / "a.jsonl"
    session = Transcript()
    session.user(f"My secret is {TEXT}.")
    session.answer(text_block("Fine."))
    add_turns(session, 1, turns)
    if turns > 10:
        session.user(f"It is {TEXT}.")
        session.answer(text_block("Fine."))
    path.write_bytes(session.data)
    store: Store = MemoryStore() if store_type is MemoryStore else SqliteStore(tmp_path / "s.db")

    def load(index: Path, secret: str) -> None:
        with closing(Catalogue(index)) as catalogue:
            [result] = Importer(store, catalogue).run([*iter_files(path)])
        stored = store.raw(ArtifactRef(result.report.raw or ""))
        assert stored == path.read_bytes().replace(TEXT.encode(), secret.encode())

    with closing(store):
        load(tmp_path / "index.db", TEXT)
        purge_text(store, [], PurgeRequest(secret=Secret(TEXT), by="me", why="it leaked"))
        index = tmp_path / "new-index.db"
        for more in (2, 3):
            add_turns(session, 1000 * more, more)
            path.write_bytes(session.data)
            load(index, PURGED)
            assert not any(TEXT.encode() in obj.body for obj in store.iter_objects())
            assert TEXT.encode() not in index.read_bytes()
            [file] = read_imported_files(store).values()
            assert PURGED in file.record.report["title"]
        assert len(store.newest_commits(1000)) == len(session.records) // 2
        assert fsck(store) == []
