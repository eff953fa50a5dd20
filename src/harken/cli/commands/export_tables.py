"""`harken export-tables DIR`: the facts as Parquet, for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.cli.options.folder import Folder
from harken.cli.options.home import home_option
from harken.cli.options.scope import ScopeOptions, scope_options
from harken.config.home import Home
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.core.commits import CommitId, Hash
from harken.store.base import Store
from harken.terminal.text import print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.analytics.tables.parquet import Texts, WrittenTable
    from harken.analytics.tables.partitions import WrittenPartitions
    from harken.index.session_index import SessionIndex


@click.command()
@click.argument("folder", metavar="DIR", type=Folder())
@scope_options
@click.option("--utc", is_flag=True, help="Use days of UTC instead of the local time zone.")
@click.option("--text", "has_text", is_flag=True, help="Include the text of messages.")
@click.option(
    "--partition",
    type=click.Choice(["month"]),
    help="Write NAME/month=2026-01/data.parquet; only months that have changed are written.",
)
@home_option
def command(
    home: Home, folder: Path, utc: bool, has_text: bool, partition: str | None, **options: Any
) -> None:
    """Write sessions, agents, commits, messages, calls and requests as Parquet files into DIR.

    A selected session is exported in full. Existing table files in DIR are replaced. The columns
    are documented in docs/formats/tables.md.
    """
    from harken.analytics.tables.parquet import write_tables
    from harken.analytics.tables.partitions import write_partitions

    options_ = ScopeOptions(zone=UTC if utc else LocalZone(), **options)

    def write(facts: SessionIndex, store: Store | None) -> list[str]:
        texts = _texts(store) if has_text else None
        scope = options_.scope(facts.database)
        if partition is None:
            tables = write_tables(facts.database, folder, scope, texts)
            return list(map(_table_line, tables))
        version = _texts_version(store) if has_text else ""
        parts = write_partitions(facts.database, folder, scope, texts, version)
        return list(map(_partitions_line, parts))

    for line in read_facts(home, write):
        print_text(line)


def _table_line(table: WrittenTable) -> str:
    return f"{table.path}  {format_count(table.rows, 'row')}, {format_size(table.size_bytes)}"


def _partitions_line(parts: WrittenPartitions) -> str:
    removed = f", {len(parts.removed)} removed" if parts.removed else ""
    months = format_count(parts.months, "month")
    rows = format_count(parts.rows, "row")
    return f"{parts.folder}  {rows}, {months}, {len(parts.written)} written{removed}"


def _texts(store: Store | None) -> Texts:
    """Return a function that reads the texts of messages: contents, thoughts and arguments."""
    from harken.index.stored_text import read_committed_texts

    def read(hashes: Sequence[bytes], commits: Sequence[str | None]) -> list[str | None]:
        names = [Hash(object_hash.hex()) for object_hash in hashes]
        if store is None:
            return [None] * len(names)
        ids = [None if name is None else CommitId(name) for name in commits]
        texts = read_committed_texts(store, names, ids)
        return ["\n".join(texts[name].texts) if name in texts else None for name in names]

    return read


def _texts_version(store: Store | None) -> str:
    """Return a text that changes when content of the store is purged."""
    from blake3 import blake3

    names = sorted(store.tombstones()) if store is not None else []
    return blake3("\n".join(names).encode()).hexdigest()
