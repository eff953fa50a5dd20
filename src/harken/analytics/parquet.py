"""Export the session index as Parquet files, one per table, for DuckDB, Polars, pandas and others.

Rows are copied in groups, so memory use does not grow with their number. A file replaces an older
one only when it is complete.

The files are written by pyarrow, which the readers above are tested with. It is installed by the
extra `tables`.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from harken.analytics.scope import ALL, Scope
from harken.analytics.table_schema import (
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
_ARROW_TYPES: dict[Kind, str] = {"ctx": "string", "hash": "string", "bool": "bool_"}

Texts: TypeAlias = Callable[[Sequence[bytes]], Sequence[str | None]]
"""Returns the text of messages by their hashes (32 bytes each), or None for deleted ones."""


class WrittenTable(msgspec.Struct, frozen=True):
    """A Parquet file that was written."""

    path: Path
    rows: int
    size_bytes: int


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
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("tables are written by pyarrow: pip install 'harken[tables]'") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            table_texts = texts if table.name == "messages" else None
            yield _write_table(
                database, folder / f"{table.name}.parquet", table, scope, table_texts
            )
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from None


def _write_table(
    database: apsw.Connection, path: Path, table: TableSchema, scope: Scope, texts: Texts | None
) -> WrittenTable:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    schema = _arrow_schema(pa, table, has_text=texts is not None)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    rows = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for group in _iter_groups(database, table, scope):
                values = [list(column) for column in zip(*group, strict=True)]
                if texts is not None:
                    hashes = values[[column.name for column in table.columns].index("hash")]
                    values.append(
                        [
                            None if text is None else replace_surrogates(text)
                            for text in texts(hashes)
                        ]
                    )
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


def _iter_groups(
    database: apsw.Connection, table: TableSchema, scope: Scope
) -> Iterator[list[tuple[Any, ...]]]:
    rows = scope.rows(database, table.query, "sessions")
    convert = [_CONVERSIONS.get(column.kind) for column in table.columns]
    while group := list(islice(rows, MAX_GROUP_ROWS)):
        yield [
            tuple(
                value if conversion is None or value is None else conversion(value)
                for value, conversion in zip(row, convert, strict=True)
            )
            for row in group
        ]


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


def _arrow_schema(pa: Any, table: TableSchema, *, has_text: bool) -> Any:
    columns = [*table.columns, TEXT] if has_text else table.columns
    fields = [
        pa.field(column.name, _arrow_type(pa, column), metadata={"says": column.description})
        for column in columns
    ]
    metadata = {"harken.schema_version": str(SCHEMA_VERSION), "harken.table": table.name}
    return pa.schema(fields, metadata=metadata)


def _arrow_type(pa: Any, column: TableColumn) -> Any:
    if column.kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    if column.kind == "double":
        return pa.float64()
    return getattr(pa, _ARROW_TYPES.get(column.kind, column.kind))()
