"""Read files of research programs, and import them into a home in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harken.capture.files.importer import Importer
from harken.capture.files.report import Report
from harken.capture.files.sources import iter_files
from harken.core.messages import text_of
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.index.catalogue import Catalogue
from harken.index.session_index import SessionIndex
from harken.store.memory import MemoryStore


def read(native: RuntimeFormat, data: object) -> tuple[list[ImportStep], ReadReport]:
    """Return the steps and the report of bytes, or of a document."""
    encoded = data if isinstance(data, bytes) else json.dumps(data).encode()
    reading = ReadReport()
    return list(native.steps(SessionFile("file", lambda: [encoded]), reading)), reading


def said(steps: list[ImportStep], agent: str = "") -> list[tuple[str, str]]:
    """Return the role and the text of each message of an agent."""
    entries = [entry for step in steps if step.agent == agent for entry in step.entries]
    return [(entry.message.role, text_of(entry.message.content)) for entry in entries]


def counted(steps: list[ImportStep]) -> int:
    """Return the number of messages that are no repeats of others."""
    entries = [entry for step in steps for entry in step.entries]
    return sum((entry.source or {}).get("repeats") is not True for entry in entries)


class MemoryHome:
    """A store, a catalogue and an index in memory."""

    def __init__(self) -> None:
        """Start without content."""
        self.store, self.catalogue = MemoryStore(), Catalogue(None)

    def add(self, path: Path, data: bytes) -> Report:
        """Write a file and import it."""
        path.write_bytes(data)
        [result] = Importer(self.store, self.catalogue).run(list(iter_files(path)))
        return result.report

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of a new index."""
        index = SessionIndex(None)
        try:
            index.update(self.store, self.catalogue, [])
            return index.database.execute(sql).fetchall()
        finally:
            index.close()
