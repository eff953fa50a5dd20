"""Read a file without its credentials, for a home that redacts them before it stores anything.

A text is redacted in its bytes, and a compressed one after decompression. The texts of a database
are redacted in a copy of it. What is read from the result, and its bytes, then agree.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

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
                f"it is {description}, from which credentials cannot be removed, "
                'and the configuration has redact = "store": its bytes are not stored'
            )
    if is_compressed(beginning):
        yield from _iter_compressed(path, credentials)
    else:
        yield from credentials.replace_in_pieces(_iter_bytes(path))


def redact_database(path: Path, credentials: Credentials) -> None:
    """Remove credentials from all texts of a database. Raises sqlite3.Error, OSError."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA trusted_schema=OFF")
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        has_changed = False
        for (table,) in database.execute(query).fetchall():
            name = _quote(table)
            for _, column, *_ in database.execute(f"PRAGMA table_info({name})").fetchall():
                has_changed |= _redact_column(database, name, _quote(column), credentials)
        database.commit()
        if has_changed:
            database.execute("VACUUM")  # Else the credentials would be in unused pages.


def _redact_column(
    database: sqlite3.Connection, table: str, column: str, credentials: Credentials
) -> bool:
    """Redact the texts of a column. Return whether one was changed."""
    query = f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text'"  # noqa: S608
    texts = [text for (text,) in database.execute(query)]
    changes = [(new, text) for text in texts if (new := credentials.replace(text)) != text]
    change = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608 - quoted names
    database.executemany(change, changes)
    return bool(changes)


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
