"""Find and remove a text in the files of a home beside its store and its logs.

Files that Harken wrote for itself are rewritten: outputs of tools, partial lines, the input
history. Files that a person wrote are only listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import apsw

from harken.config.home import Home
from harken.core.secrets.removal import Secret, replace_in_bytes
from harken.errors import StoreWriteError
from harken.index.database import SUFFIXES, delete_database, reset_database
from harken.session.log.compressed import log_path
from harken.world.private_file import replace_file

_CHUNK_BYTES = 1 << 20
_MAX_BYTES = 256 << 20


def iter_files_with(home: Home, secrets: Iterable[Secret]) -> Iterator[Path]:
    """Yield the files of a home that contain a text, without its store, indexes, logs and links.

    `secrets`: the text as it may be written there.
    """
    databases = (home.store_file, home.index_file, home.facts_file, home.edits_file)
    file_names = {file.name for path in databases for file in _database(path)}
    logs = set(home.list_logs())
    for folder, _, names in os.walk(home.folder):
        for name in sorted(names):
            path = Path(folder) / name
            is_store = path.parent == home.folder and name in file_names
            if is_store or log_path(path) in logs or path.is_symlink() or not path.is_file():
                continue
            with suppress(OSError):  # Harken wrote no unreadable file.
                if _contains(path, secrets):
                    yield path


def forget_facts(home: Home) -> None:
    """Delete the indexes of facts and of edits, which are created again. Raises StoreWriteError."""
    reset_database(home.facts_file)
    reset_database(home.edits_file)


def index_files(home: Home) -> list[Path]:
    """Return the files of the indexes of facts and of edits that exist."""
    paths = [*_database(home.facts_file), *_database(home.edits_file)]
    return [path for path in paths if path.is_file()]


def forget_in_indexes(home: Home, secrets: Sequence[Secret]) -> None:
    """Delete the indexes of facts and of edits, and rewrite the catalogue without a text.

    All may contain a text, split at the ends of pages. The catalogue is not deleted: its data
    about removed sources cannot be read again. Raises StoreWriteError.
    """
    new = home.index_file.with_name(f".{home.index_file.name}.purging")
    forget_facts(home)
    try:
        if home.index_file.exists():
            delete_database(new)
            is_readable = _rewrite(home.index_file, new, secrets)
            delete_database(home.index_file)
            if is_readable:
                new.replace(home.index_file)
    except OSError as error:
        raise StoreWriteError(error.filename, reason=error.strerror or str(error)) from error
    finally:
        delete_database(new)


def _rewrite(path: Path, new: Path, secrets: Sequence[Secret]) -> bool:
    """Write a catalogue without a text to another path; return whether it can be read."""
    from harken.index.catalogue import Catalogue

    def replace(data: bytes) -> bytes:
        for secret in secrets:
            data = replace_in_bytes(data, secret.replace)
        return data

    try:
        with closing(Catalogue(path)) as catalogue:
            catalogue.write_replaced(new, replace)
    except apsw.Error:
        return False
    return True


def is_ours(home: Home, path: Path) -> bool:
    """Whether Harken wrote a file for itself, so that its text may be changed."""
    inside = path.relative_to(home.folder).parts
    return path.stat().st_size <= _MAX_BYTES and (
        inside[0] in ("outputs", "sessions", "journal") or inside == ("history",)
    )


def rewrite_without(path: Path, secrets: Iterable[Secret]) -> None:
    """Rewrite a file without a text, atomically. Raises StoreWriteError."""
    try:
        data = path.read_bytes()
        for secret in secrets:
            data = replace_in_bytes(data, secret.replace)
        replace_file(path, data, path.stat().st_mode & 0o777)
    except OSError as error:
        raise StoreWriteError(path, reason=error.strerror or str(error)) from error


def _database(path: Path) -> list[Path]:
    """Return the possible files of a SQLite database."""
    return [path.with_name(path.name + end) for end in SUFFIXES]


def _contains(path: Path, secrets: Iterable[Secret]) -> bool:
    def pieces() -> Iterator[bytes]:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                yield piece

    return any(any(True for _ in secret.find_spans(pieces())) for secret in secrets)
