"""Opening a bundle: everything in it is checked in a folder of its own before any of it is taken.

One idea: a bundle is believed in nothing. Its names are compared with its manifest, its bytes with
their sums, the tables of its store with those that a store has; then the store is hashed anew, and
every line of every log is verified. What is taken is added: nothing that is there changes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from blake3 import blake3

from harken.context.bundle.create import Told, put
from harken.context.bundle.manifest import SESSIONS, STORE, BundleMember, Manifest, manifest_in
from harken.core.clock import parse_rfc3339
from harken.errors import BundleError, LogError, StoreError
from harken.session.log.compressed import is_packed, log_of, stat_log
from harken.session.log.reader import LogReadReport, events, open_log
from harken.store.base import Store
from harken.store.copy import copy_commits
from harken.store.fsck import fsck
from harken.store.sqlite.database import VERSION, WHOLE, version_of
from harken.store.sqlite.store import SqliteStore

_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 64 * 1024 * 1024
_RESERVED = "latest"
"""What people say for the session that was written last: no log may have that name."""


@dataclass(frozen=True, slots=True)
class BundledLog:
    """A log of a bundle that was checked."""

    name: str
    """`NAME.jsonl`."""
    path: Path
    blake3: str
    ended_us: int
    """The time of its last event."""


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle that was checked. Its files are there while it is open."""

    manifest: Manifest
    store: SqliteStore
    logs: tuple[BundledLog, ...]


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """A log, and where it is now."""

    name: str
    """As the bundle has it."""
    path: Path
    is_new: bool
    """Whether it was not there before."""


@dataclass(frozen=True, slots=True)
class BundleImportResult:
    """What came of a bundle."""

    commits: int
    """How many were not there before."""
    logs: tuple[ImportedLog, ...]


@contextmanager
def open_bundle(path: Path, folder: Path, *, on_read: Told | None = None) -> Iterator[OpenBundle]:
    """Give a bundle that was checked whole. `folder`: where there is room for what is in it.

    Raises BundleError, before anything but a folder inside `folder` was made; that one goes again.
    """
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=folder) as name:
        inside = Path(name)
        manifest = _unpack(path, inside, on_read)
        _check_tables(path, inside / STORE)
        with _store(path, inside / STORE, manifest) as store:
            logs = [_checked(path, inside / one.name, one) for one in manifest.sessions]
            yield OpenBundle(manifest, store, tuple(logs))


def take(
    bundle: OpenBundle, store: Store, sessions: Path, *, on_copy: Told | None = None
) -> BundleImportResult:
    """Add what is in a bundle to a store and to a folder of logs; what is there stays as it is.

    A log of a name that is taken by another one is kept under a name beside it. Taken twice,
    nothing changes. Raises StoreError, BundleError where a log cannot be written.
    """
    copied = copy_commits(bundle.store, store, bundle.manifest.tip_ids(), on_progress=on_copy)
    return BundleImportResult(copied.commits, tuple(_keep(log, sessions) for log in bundle.logs))


def _unpack(path: Path, inside: Path, on_read: Told | None) -> Manifest:
    """Write the files of a bundle into a folder, comparing sums. Raises BundleError."""
    try:
        with zipfile.ZipFile(path) as bundle:
            manifest = manifest_in(path, bundle)
            total = sum(member.size_bytes for member in manifest.members)
            if shutil.disk_usage(inside).free < total + _SPARE_BYTES:
                raise BundleError(path, f"holds {total} bytes: there is too little room for them")
            (inside / SESSIONS).mkdir()
            done = 0
            for member in manifest.members:
                for size in _extract(path, bundle, member, inside / member.name):
                    done += size
                    if on_read is not None:
                        on_read(done, total)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BundleError(path, f"is no whole bundle: {error}") from None
    except OSError as error:
        raise BundleError(path, f"cannot be read: {error.strerror or error}") from None
    return manifest


def _extract(path: Path, bundle: zipfile.ZipFile, member: BundleMember, out: Path) -> Iterator[int]:
    """Write a member piece by piece, yielding sizes; at its end its sum must fit."""
    hasher = blake3()
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with bundle.open(member.name) as source, os.fdopen(fd, "wb") as target:
        while piece := source.read(_CHUNK_BYTES):
            hasher.update(piece)
            target.write(piece)
            yield len(piece)
    if hasher.hexdigest() != member.blake3:
        raise BundleError(path, f"was damaged or changed on its way: {member.name} has another sum")


def _check_tables(path: Path, database: Path) -> None:
    """Raise BundleError where a store holds other tables than a store: views and triggers act."""
    try:
        with closing(sqlite3.connect(":memory:")) as right:
            right.executescript(WHOLE)
            known = set(right.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
        uri = f"{database.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            version = version_of(connection)
            query = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
            found = set(connection.execute(query))
    except (sqlite3.Error, ValueError) as error:  # sqlite3 cannot decode some of its own
        raise BundleError(path, f"has a store that cannot be read: {error}") from None
    if version > VERSION:
        raise BundleError(
            path,
            f"has a store of format version {version}, this Harken reads up to {VERSION}: "
            f"upgrade Harken",
        )
    if found != known:
        raise BundleError(path, "has a store with other tables than a store has")


@contextmanager
def _store(path: Path, database: Path, manifest: Manifest) -> Iterator[SqliteStore]:
    """Give the store of a bundle, in which everything was hashed. Raises BundleError.

    A border: whatever a forged file makes SQLite, or those who decode it, raise, it is the file's.
    """
    try:
        store = SqliteStore(database)
    except Exception as error:  # noqa: BLE001 - see above
        text = f"has a store that cannot be used: {_said(error, database)}"
        raise BundleError(path, text) from None
    with closing(store):
        try:
            _check_store(path, store, manifest)
        except BundleError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            raise BundleError(path, f"has a damaged store: {_said(error, database)}") from None
        yield store


def _check_store(path: Path, store: SqliteStore, manifest: Manifest) -> None:
    for finding in fsck(store):
        raise BundleError(path, f"has a damaged store: {finding.place}: {finding.problem}")
    if len(store.newest_commits(2**62)) != manifest.commits:
        raise BundleError(path, "has a store of other commits than its manifest says")
    tips = manifest.tip_ids()
    if len(store.commits(tips)) != len(tips):
        raise BundleError(path, "has not all commits that its manifest names")


def _said(error: Exception, database: Path) -> str:
    """Return what an error says, without the name of a file that will be gone."""
    text = str(error).removeprefix(f"{database}: ")
    return text if isinstance(error, StoreError) else f"{type(error).__name__}: {text}"


def _checked(path: Path, log: Path, member: BundleMember) -> BundledLog:
    """Verify every line of a log. Raises BundleError."""
    reading = LogReadReport()
    ended_us = 0
    name = member.name.removeprefix(SESSIONS)
    try:
        for event in events(log, reading):
            ended_us = _us(event.time) or ended_us
    except LogError as error:
        text = str(error).removeprefix(f"{log}: ").partition("; ")[0]
        raise BundleError(path, f"has a damaged log: {name}: {text}") from None
    if reading.torn:
        raise BundleError(path, f"has a damaged log: {name} ends in half a line")
    return BundledLog(name, log, member.blake3, ended_us)


def _us(time: str) -> int:
    try:
        return parse_rfc3339(time)
    except ValueError:  # an older dialect
        return 0


def _keep(log: BundledLog, sessions: Path) -> ImportedLog:
    """Put a log among others, unless it is there; under another name where its own is taken."""
    stem = log.name.removesuffix(".jsonl")
    names = count(2 if stem.casefold() == _RESERVED else 1)
    logs = [path for path in sessions.glob("*.jsonl*") if log_of(path).suffix == ".jsonl"]
    others = [path.stat().st_mtime for path in logs if path.is_file()]
    while True:
        number = next(names)
        path = sessions / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        if path.exists() or path.is_symlink() or is_packed(path):
            if _is_same(path, log):
                return ImportedLog(log.name, path, is_new=False)
            continue
        try:
            _write(log.path, path)
        except FileExistsError:
            continue
        except OSError as error:
            raise BundleError(path, f"cannot be written: {error.strerror or error}") from None
        _age(path, log, others)
        return ImportedLog(log.name, path, is_new=True)


def _is_same(path: Path, log: BundledLog) -> bool:
    if not (path.is_file() or is_packed(path)):
        return False
    if stat_log(path).size_bytes != log.path.stat().st_size:
        return False
    hasher = blake3()
    try:
        with open_log(path) as file:
            while piece := file.read(_CHUNK_BYTES):
                hasher.update(piece)
    except LogError:  # a damaged pack
        return False
    return hasher.hexdigest() == log.blake3


def _write(source: Path, path: Path) -> None:
    """Write a new log, whole or not at all, durably. Raises FileExistsError, OSError."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with source.open("rb") as file, os.fdopen(fd, "wb") as target:
            shutil.copyfileobj(file, target, _CHUNK_BYTES)
            target.flush()
            put(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _age(path: Path, log: BundledLog, others: list[float]) -> None:
    """Make a log as old as what is in it, and older than one's own.

    The session to go on with, where nobody says which, is the one that was written last: it shall
    not be somebody else's.
    """
    ended_s = min([log.ended_us / 1e6, *(other_s - 1 for other_s in others)])
    os.utime(path, (ended_s, ended_s))
