"""Export the session index as Parquet files, one per table, for DuckDB, Polars, pandas and others.

Rows are copied in groups, so memory use does not grow with their number or texts. A file replaces
an older one only when it is complete.

The files are written by pyarrow, which the readers above are tested with. It is installed by the
extra `tables`.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from harken.analytics.scope import ALL, Scope
from harken.analytics.tables.table_schema import (
    SCHEMA_VERSION,
    TABLES,
    TEXT,
    Kind,
    TableColumn,
    TableSchema,
)
from harken.errors import ConfigError
from harken.formats.tool_calls import replace_surrogates

MAX_GROUP_ROWS = 16 * 1024
"""Maximum number of rows in memory."""
MAX_GROUP_CHARS = 16 * 1024 * 1024
"""Maximum number of characters of texts in memory, except for a single longer message."""
ROWS_HASH = "harken.rows_hash"
"""The key of the hash of the rows in the metadata of a file."""
_ARROW_TYPES: dict[Kind, str] = {"ctx": "string", "hash": "string", "bool": "bool_"}

Texts: TypeAlias = Callable[[Sequence[bytes], Sequence[str | None]], Sequence[str | None]]
"""Returns the text of messages by their hashes (32 bytes each) and the ids of their commits.

Text of deleted messages is None."""


class WrittenTable(msgspec.Struct, frozen=True):
    """A Parquet file that was written."""

    path: Path
    rows: int
    size_bytes: int


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table, to be written to a file."""

    table: TableSchema
    rows: Iterator[tuple[Any, ...]]
    texts: Texts | None = None
    rows_hash: str = ""
    """A hash of the rows for the metadata of the file; empty: none."""

    @property
    def positions(self) -> dict[str, int]:
        """Column name -> its position."""
        return {column.name: position for position, column in enumerate(self.table.columns)}


def write_tables(
    database: apsw.Connection,
    folder: Path,
    scope: Scope = ALL,
    texts: Texts | None = None,
) -> Iterator[WrittenTable]:
    """Write each table as `folder/NAME.parquet`, and yield it when it is complete.

    Sessions in the scope are exported completely. Files of the same name are replaced, others are
    kept. With `texts`, `messages` has a column of texts. Raises ConfigError if pyarrow is not
    installed or the folder cannot be written.
    """
    with writable(folder):
        for table in TABLES:
            rows = TableRows(
                table,
                scope.rows(database, table.query, "sessions"),
                texts if table.name == "messages" else None,
            )
            yield write_file(folder / f"{table.name}.parquet", rows)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Create a folder for tables. Raises ConfigError as `write_tables`."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("tables are written by pyarrow: pip install 'harken[tables]'") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from None


def write_file(path: Path, source: TableRows) -> WrittenTable:
    """Write a Parquet file, which replaces an older one when it is complete. Raises OSError."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    schema = _arrow_schema(pa, source)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    rows = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for group in _iter_groups(source):
                values = [list(column) for column in zip(*group, strict=True)]
                if source.texts is not None:
                    values.append(_read_texts(source, values))
                arrays = [
                    _to_array(pa, column, kind)
                    for column, kind in zip(values, schema.types, strict=True)
                ]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows += len(group)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return WrittenTable(path, rows, path.stat().st_size)


def _read_texts(source: TableRows, values: Sequence[list[Any]]) -> list[str | None]:
    assert source.texts is not None
    positions = source.positions
    texts = source.texts(values[positions["hash"]], values[positions["ctx"]])
    return [None if text is None else replace_surrogates(text) for text in texts]


def _iter_groups(source: TableRows) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows in groups whose rows and texts fit into memory."""
    convert = [_CONVERSIONS.get(column.kind) for column in source.table.columns]
    lengths = [] if source.texts is None else [source.positions[name] for name in _TEXT_LENGTHS]
    group: list[tuple[Any, ...]] = []
    group_chars = 0
    for row in source.rows:
        chars = sum(row[position] or 0 for position in lengths)
        if group and (len(group) == MAX_GROUP_ROWS or group_chars + chars > MAX_GROUP_CHARS):
            yield group
            group, group_chars = [], 0
        group_chars += chars
        group.append(
            tuple(
                value if conversion is None or value is None else conversion(value)
                for value, conversion in zip(row, convert, strict=True)
            )
        )
    if group:
        yield group


_TEXT_LENGTHS = ("characters", "thinking")
_CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    "ctx": lambda name: f"ctx-{name.hex()}",
    "hash": bytes,
    "bool": bool,
}


def _to_array(pa: Any, values: Iterable[Any], kind: Any) -> Any:
    """Convert a column to Arrow. Hashes become hexadecimal strings."""
    return pa.array(
        [value.hex() if isinstance(value, bytes) else value for value in values], type=kind
    )


def _arrow_schema(pa: Any, source: TableRows) -> Any:
    table = source.table
    columns = table.columns if source.texts is None else [*table.columns, TEXT]
    fields = [
        pa.field(column.name, _arrow_type(pa, column), metadata={"says": column.description})
        for column in columns
    ]
    metadata = {"harken.schema_version": str(SCHEMA_VERSION), "harken.table": table.name}
    if source.rows_hash:
        metadata[ROWS_HASH] = source.rows_hash
    return pa.schema(fields, metadata=metadata)


def _arrow_type(pa: Any, column: TableColumn) -> Any:
    if column.kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    if column.kind == "double":
        return pa.float64()
    return getattr(pa, _ARROW_TYPES.get(column.kind, column.kind))()
