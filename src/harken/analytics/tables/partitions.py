"""Export tables partitioned by month: `NAME/month=2026-01/data.parquet`, as Hive names partitions.

A month (UTC) is written again only if its rows have changed: each file has a hash of its rows in
its metadata. A month without rows has no file, so that the result is that of a complete export.

Rows of tables without a time are in the month in which their session began. Rows without any time
are in the partition that readers take for null.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import msgspec
from blake3 import blake3

from harken.analytics.scope import ALL, Scope
from harken.analytics.tables.parquet import ROWS_HASH, TableRows, Texts, writable, write_file
from harken.analytics.tables.table_schema import SCHEMA_VERSION, TABLES, TableSchema

NULL_MONTH = "__HIVE_DEFAULT_PARTITION__"
_FILE_NAME = "data.parquet"
_FOLDER_PREFIX = "month="
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WrittenPartitions(msgspec.Struct, frozen=True):
    """A table that was written, or was up to date."""

    folder: Path
    rows: int
    """The number of rows in all months."""
    months: int
    written: tuple[str, ...]
    """The months that were written now."""
    removed: tuple[str, ...]
    """The months that have no rows any more."""


def write_partitions(
    database: apsw.Connection,
    folder: Path,
    scope: Scope = ALL,
    texts: Texts | None = None,
    texts_version: str = "",
) -> Iterator[WrittenPartitions]:
    """Write the months of each table that have changed, and yield each table when it is complete.

    texts_version: differs if the texts of equal rows may differ. Otherwise as `write_tables`.
    """
    with writable(folder):
        for table in TABLES:
            table_texts = texts if table.name == "messages" else None
            version = f"{SCHEMA_VERSION} {table_texts is not None} {texts_version}"
            export = _Partitions(database, folder / table.name, table, scope, table_texts)
            yield export.write(version)


class _Partitions(msgspec.Struct, frozen=True):
    """The export of one table."""

    database: apsw.Connection
    folder: Path
    table: TableSchema
    scope: Scope
    texts: Texts | None

    def write(self, version: str) -> WrittenPartitions:
        """Write the months that have changed. Raises OSError."""
        hashes, rows = self._hash_months(version)
        written: list[str] = []
        for month, rows_hash in sorted(hashes.items()):
            path = self.folder / f"{_FOLDER_PREFIX}{month}" / _FILE_NAME
            if _read_rows_hash(path) != rows_hash:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, TableRows(self.table, self._rows(month), self.texts, rows_hash))
                written.append(month)
        removed = tuple(self._remove_others(hashes))
        return WrittenPartitions(self.folder, rows, len(hashes), tuple(written), removed)

    def _hash_months(self, version: str) -> tuple[dict[str, str], int]:
        """Return the hash of the rows of each month, and the number of rows.

        A table without rows has an empty file, so that readers know its columns.
        """
        hashers: dict[str, Any] = {}
        rows = 0
        columns = repr([(column.name, column.kind) for column in self.table.columns])
        for time_us, *row in self._select(self.table.timed_query):
            rows += 1
            month = _month_name(time_us)
            if month not in hashers:
                hashers[month] = blake3(f"{version} {columns}".encode())
            hashers[month].update(repr(row).encode("utf-8", "surrogatepass"))
        if not hashers:
            hashers[NULL_MONTH] = blake3(f"{version} {columns}".encode())
        return {month: hasher.hexdigest() for month, hasher in hashers.items()}, rows

    def _rows(self, month: str) -> Iterator[tuple[Any, ...]]:
        if month == NULL_MONTH:
            return self._select(self.table.timeless_query)
        start = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        end = (start + timedelta(days=31)).replace(day=1)
        limits = {"month_start": _to_us(start), "month_end": _to_us(end)}
        return self._select(self.table.month_query, limits)

    def _select(
        self, query: str, values: Mapping[str, object] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        return self.scope.rows(self.database, query, "sessions", values=values)

    def _remove_others(self, months: Mapping[str, str]) -> Iterator[str]:
        """Remove the files of months without rows. Yield these months."""
        for path in sorted(self.folder.glob(f"{_FOLDER_PREFIX}*/{_FILE_NAME}")):
            month = path.parent.name.removeprefix(_FOLDER_PREFIX)
            if month not in months:
                path.unlink()
                with suppress(OSError):  # Somebody has other files there.
                    path.parent.rmdir()
                yield month


def _month_name(time_us: int | None) -> str:
    if time_us is None:
        return NULL_MONTH
    time = _EPOCH + timedelta(microseconds=time_us)
    return f"{time.year:04}-{time.month:02}"


def _to_us(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _read_rows_hash(path: Path) -> str:
    """Return the hash of the rows of a file, or an empty text if there is no complete file."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return ""
    return str(metadata.get(ROWS_HASH.encode(), b"").decode())
