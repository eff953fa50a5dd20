"""Read a file without its credentials, for a home that redacts them before it stores anything.

A text is redacted in its bytes, and a compressed one after decompression. The texts of a database
are redacted in a copy of it. What is read from the result, and its bytes, then agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import zstandard

from harken.core.secrets.redaction import Credentials, iter_segments
from harken.formats.runtimes.compressed import DecompressedFile, is_compressed

_READ_BYTES = 1024 * 1024
_HIDING_FORMATS = {
    b"SQLite format 3\0": "an SQLite database",
    b"\x1f\x8b": "compressed with gzip",
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\0": "compressed with xz",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
"""Beginnings of files whose bytes hide texts: no credential can be found in them."""
_BEGINNING_BYTES = 16
_SCHEMA_TABLES = frozenset({"sqlite_schema", "sqlite_temp_schema", "sqlite_master"})


class FileNotRedactable(OSError):
    """The bytes of a file hide texts, so its credentials cannot be removed."""


def iter_file(path: Path, credentials: Credentials | None) -> Iterator[bytes]:
    """Yield the bytes of a file, without credentials if they are given.

    Raises OSError; FileNotRedactable if credentials cannot be found in this kind of file.
    """
    if credentials is None:
        yield from _iter_bytes(path)
        return
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    for magic, description in _HIDING_FORMATS.items():
        if beginning.startswith(magic):
            raise FileNotRedactable(
                f"it is {description}: its credentials cannot be removed, so it is not stored"
            )
    if is_compressed(beginning):
        yield from _iter_compressed(path, credentials)
    else:
        yield from credentials.replace_in_pieces(_iter_bytes(path))


def redact_database(path: Path, credentials: Credentials) -> None:
    """Remove credentials from all texts and bytes in the tables of a database.

    The database is untrusted: its triggers do not run. The index of a virtual table is not changed;
    the store refuses the file if a credential is in it. Raises apsw.Error, OSError;
    FileNotRedactable if its texts are not in UTF-8.
    """
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as database:
        database.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        database.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        if database.pragma("encoding") != "UTF-8":
            raise FileNotRedactable("its texts are not in UTF-8: credentials cannot be removed")
        tables = database.execute("PRAGMA main.table_list").fetchall()
        has_changed = False
        with database:
            for _, table, kind, _, is_keyed, *_ in tables:
                if kind in ("table", "shadow") and table not in _SCHEMA_TABLES:
                    is_changed = _redact_table(
                        database, str(table), credentials, kind=str(kind), is_keyed=bool(is_keyed)
                    )
                    has_changed |= is_changed
        # Unused parts of pages may have credentials of deleted rows.
        if has_changed or not all(map(credentials.is_clean, iter_segments(_iter_bytes(path)))):
            database.execute("VACUUM")


def _redact_table(
    database: apsw.Connection, table: str, credentials: Credentials, *, kind: str, is_keyed: bool
) -> bool:
    """Redact the columns of a table. Return whether a value was changed.

    kind: "table" or "shadow"; bytes of the latter are an index, and stay. is_keyed: whether the
    table was created WITHOUT ROWID. Generated columns follow the others.
    """
    name = _quote(table)
    columns = [str(row[1]) for row in database.execute(f"PRAGMA table_info({name})")]
    aliases = [alias for alias in ("rowid", "_rowid_", "oid") if alias not in columns]
    has_rowid = bool(aliases) and not is_keyed
    types = "'text'" if kind == "shadow" else "'text', 'blob'"
    has_changed = False
    for column in map(_quote, columns):
        selected = aliases[0] if has_rowid else f"CAST({column} AS BLOB)"
        query = (
            f"SELECT {selected}, typeof({column}), CAST({column} AS BLOB) FROM {name} "  # noqa: S608
            f"WHERE typeof({column}) IN ({types})"
        )
        changes = [
            (new, key, value_type)
            for key, value_type, value in database.execute(query)
            if (new := credentials.replace_in_bytes(value)) != value
        ]
        for new, key, value_type in changes:
            change = (
                f"UPDATE {name} SET {column} = CAST(? AS {value_type}) "  # noqa: S608
                f"WHERE {selected} = ? AND typeof({column}) = ?"
            )
            database.execute(change, (new, key, value_type))
            has_changed = True
    return has_changed


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _iter_bytes(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _READ_BYTES), b"")


def _iter_compressed(path: Path, credentials: Credentials) -> Iterator[bytes]:
    """Yield the bytes of a compressed file. It is compressed again only if it has a credential."""
    size = path.stat().st_size
    content = DecompressedFile(str(path), partial(_iter_bytes, path), size, [])
    if all(map(credentials.is_clean, iter_segments(content.pieces()))):
        yield from _iter_bytes(path)
        return
    compressor = zstandard.ZstdCompressor().compressobj()
    for piece in credentials.replace_in_pieces(content.pieces()):
        yield compressor.compress(piece)
    yield compressor.flush()
