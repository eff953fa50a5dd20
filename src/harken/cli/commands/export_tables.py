"""`harken export-tables DIR`: the facts as Parquet, for other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from harken.core.commits import Hash
from harken.store.base import Store
from harken.terminal.text import print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.analytics.parquet import WrittenTable
    from harken.index.session_index import SessionIndex


@click.command()
@click.argument("folder", metavar="DIR", type=Folder())
@scope_options
@click.option("--utc", is_flag=True, help="Use days of UTC instead of the local time zone.")
@click.option("--text", "has_text", is_flag=True, help="Include the text of messages.")
@home_option
def command(home: Home, folder: Path, utc: bool, has_text: bool, **options: Any) -> None:
    """Write sessions, agents, commits, messages, calls and requests as Parquet files into DIR.

    A selected session is exported in full. Existing table files in DIR are replaced. The columns
    are documented in docs/formats/tables.md.
    """
    from harken.analytics.parquet import write_tables

    options_ = ScopeOptions(zone=UTC if utc else LocalZone(), **options)

    def write(facts: SessionIndex, store: Store | None) -> list[WrittenTable]:
        texts = _texts(store) if has_text else None
        return list(write_tables(facts.database, folder, options_.scope(facts.database), texts))

    for table in read_facts(home, write):
        print_text(
            f"{table.path}  {format_count(table.rows, 'row')}, {format_size(table.size_bytes)}"
        )


def _texts(store: Store | None) -> Callable[[Sequence[bytes]], list[str | None]]:
    """Return a function that reads the texts of messages: contents, thoughts and arguments."""
    from harken.index.stored_text import read_stored_texts

    def read(hashes: Sequence[bytes]) -> list[str | None]:
        names = [Hash(object_hash.hex()) for object_hash in hashes]
        texts = {} if store is None else read_stored_texts(store, names)
        return ["\n".join(texts[name].texts) if name in texts else None for name in names]

    return read
