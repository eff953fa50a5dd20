"""Files imported into a store, and the index of their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore
from tests.unit.formats.transcript_kit import Transcript


class Imports:
    """A home with a store, a catalogue and an index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources = folder / "sources"
        self.sources.mkdir()
        self.store = SqliteStore(folder / "store.db")
        self.catalogue = Catalogue(folder / "index.db")
        self.facts = SessionIndex(folder / "facts.db")
        self.logs: list[Path] = []

    def add_and_update(self, name: str, data: bytes | Transcript) -> None:
        """Write a file, import it, and index its new commits."""
        self.add(name, data)
        self.update()

    def add(self, name: str, data: bytes | Transcript) -> None:
        """Write a file and import it."""
        path = self.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.data)
        list(Importer(self.store, self.catalogue).run(list(iter_files(path))))

    def update(self) -> None:
        """Index new commits."""
        self.facts.update(self.store, self.catalogue, self.logs)

    @property
    def messages(self) -> list[int]:
        """Return the row ids of all messages, oldest first."""
        return self.column("SELECT id FROM messages ORDER BY id")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the index."""
        return self.facts.database.execute(query, values).fetchall()

    def column(self, query: str, *values: object) -> list[Any]:
        """Return the first column of a query of the index."""
        return [row[0] for row in self.rows(query, *values)]
