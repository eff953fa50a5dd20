"""What importing a source told of its session: title, folder, version, and the file itself."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import msgspec

from harken.formats.runtimes.registry import natives
from harken.index.message_text import utf8


class _Tip(msgspec.Struct, frozen=True):
    agent: str = ""


class ImportedMetadata(msgspec.Struct, frozen=True):
    """A report of importing, as far as facts need it."""

    source: str = ""
    format: str | None = None
    session: str = ""
    title: str = ""
    folder: str = ""
    version: str = ""
    tips: tuple[_Tip, ...] = ()

    @property
    def is_main(self) -> bool:
        """Whether it is the file of the main conversation."""
        return self.tips[0].agent == "main"


_decoder = msgspec.json.Decoder(ImportedMetadata)


def describe(database: apsw.Connection, records: Iterable[bytes]) -> None:
    """Enter what reports tell of sessions; of several files of one session, the main one counts."""
    runtimes = {native.name: native.runtime for native in natives()}
    found: list[tuple[ImportedMetadata, str]] = []
    for record in records:
        try:
            told = _decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        runtime = runtimes.get(told.format or "")
        if runtime is not None and told.tips:
            found.append((told, runtime))
    found.sort(key=lambda one: one[0].is_main)
    database.executemany(_DESCRIBE, [_row(*one) for one in found])


def _row(told: ImportedMetadata, runtime: str) -> dict[str, str | bool]:
    return {
        "name": utf8(f"{runtime}:{told.session}"),
        "source": utf8(told.source),
        "title": utf8(told.title),
        "project": utf8(told.folder),
        "version": utf8(told.version),
        "is_main": told.is_main,
    }


_DESCRIBE = """
UPDATE sessions SET source = :source,
title = CASE WHEN :title <> '' AND (:is_main OR title = '') THEN :title ELSE title END,
project = CASE WHEN :project <> '' THEN :project ELSE project END,
version = CASE WHEN :version <> '' THEN :version ELSE version END
WHERE name = :name
"""
