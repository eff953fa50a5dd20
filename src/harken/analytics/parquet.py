"""The facts as Parquet: a file for each table, for DuckDB, Polars, pandas and the like.

One idea: rows go from one cursor to one file in groups, so memory does not grow with them; and a
file takes the place of an older one when it is whole, never before.

pyarrow writes the files: it is what the readers named above are tested against. It comes with the
extra `tables`.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import apsw

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
from harken.formats.tool_calls import clean

ROWS = 16 * 1024
"""So many rows are held at once."""
_ARROW: dict[Kind, str] = {"ctx": "string", "hash": "string", "bool": "bool_"}

Texts: TypeAlias = Callable[[Sequence[bytes]], Sequence[str | None]]
"""Returns the words of messages by their hashes (32 bytes each); None: they are gone."""


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A file that was written."""

    path: Path
    rows: int
    size_bytes: int


def write_tables(
    database: apsw.Connection,
    folder: Path,
    scope: Scope = ALL,
    texts: Texts | None = None,
) -> Iterator[WrittenTable]:
    """Write each table as `folder/NAME.parquet`; yield it when it is there.

    Sessions in the scope come whole. Files of these names are replaced, others stay. `texts`:
    `messages` gets a column with them. Raises ConfigError without pyarrow, and where the folder
    cannot be written.
    """
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("tables are written by pyarrow: pip install 'harken[tables]'") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            wanted = texts if table.name == "messages" else None
            yield _write(database, folder / f"{table.name}.parquet", table, scope, wanted)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from None


def _write(
    database: apsw.Connection, path: Path, table: TableSchema, scope: Scope, texts: Texts | None
) -> WrittenTable:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    schema = _schema(pa, table, has_text=texts is not None)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    rows = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for some in _groups(database, table, scope):
                values = [list(column) for column in zip(*some, strict=True)]
                if texts is not None:
                    hashes = values[[column.name for column in table.columns].index("hash")]
                    values.append([None if one is None else clean(one) for one in texts(hashes)])
                arrays = [
                    _array(pa, column, kind)
                    for column, kind in zip(values, schema.types, strict=True)
                ]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows += len(some)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return WrittenTable(path, rows, path.stat().st_size)


def _groups(
    database: apsw.Connection, table: TableSchema, scope: Scope
) -> Iterator[list[tuple[Any, ...]]]:
    rows = scope.rows(database, table.query, "sessions")
    convert = [_CONVERSIONS.get(column.kind) for column in table.columns]
    while some := list(islice(rows, ROWS)):
        yield [
            tuple(
                value if made is None or value is None else made(value)
                for value, made in zip(row, convert, strict=True)
            )
            for row in some
        ]


_CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    "ctx": lambda name: f"ctx-{name.hex()}",
    "hash": bytes,
    "bool": bool,
}


def _array(pa: Any, values: Iterable[Any], kind: Any) -> Any:
    """Return a column as Arrow has it; hashes are bytes until now."""
    return pa.array([v.hex() if isinstance(v, bytes) else v for v in values], type=kind)


def _schema(pa: Any, table: TableSchema, *, has_text: bool) -> Any:
    columns = [*table.columns, TEXT] if has_text else table.columns
    fields = [
        pa.field(column.name, _type(pa, column), metadata={"says": column.says})
        for column in columns
    ]
    told = {"harken.schema_version": str(SCHEMA_VERSION), "harken.table": table.name}
    return pa.schema(fields, metadata=told)


def _type(pa: Any, column: TableColumn) -> Any:
    if column.kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    if column.kind == "double":
        return pa.float64()
    return getattr(pa, _ARROW.get(column.kind, column.kind))()
