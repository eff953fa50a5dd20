"""Open a bundle: everything in it is verified in a temporary folder before any of it is imported.

Nothing in a bundle is trusted. Its names are compared with its manifest, its bytes with their
checksums, and the schema of its store with that of a store; then the store is hashed again, and
every line of every log is verified. Imported content is added: nothing existing changes.
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
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.context.bundle.create import ProgressCallback
from harken.context.bundle.manifest import SESSIONS, STORE, BundleMember, Manifest, read_manifest
from harken.errors import BundleError, LogError, StoreError
from harken.session.log.copy import LogFolder, VerifiedLog, verify_log
from harken.store.base import Store
from harken.store.copying.commits import copy_commits
from harken.store.copying.imported_files import FileCopyResult, add_imported_files
from harken.store.copying.tickets import TicketCopyResult, copy_tickets
from harken.store.fsck import fsck
from harken.store.sqlite.database import NEW_FILE_VERSION, SCHEMA_SQL, VERSION, read_version
from harken.store.sqlite.store import SqliteStore

_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 64 * 1024 * 1024


class OpenBundle(msgspec.Struct, frozen=True):
    """A verified bundle. Its files exist while it is open."""

    manifest: Manifest
    store: SqliteStore
    logs: tuple[VerifiedLog, ...]


class ImportedLog(msgspec.Struct, frozen=True):
    """A log of the bundle and its path after the import."""

    name: str
    """The name in the bundle."""
    path: Path
    is_new: bool
    """Whether the log was added by this import."""


class BundleImportResult(msgspec.Struct, frozen=True):
    """The commits and logs that an import added."""

    commits: int
    """The number of new commits."""
    logs: tuple[ImportedLog, ...]
    tickets: TicketCopyResult
    """The tickets that were added or continued."""
    files: FileCopyResult
    """The imported files that were added, continued, or stored beside those of the store."""


@contextmanager
def open_bundle(
    path: Path, folder: Path, *, on_read: ProgressCallback | None = None
) -> Iterator[OpenBundle]:
    """Yield a completely verified bundle. `folder` must have room for its content.

    Raises BundleError. Until then only a folder inside `folder` was created, which is removed
    again.
    """
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=folder) as name:
        temporary = Path(name)
        manifest = _unpack(path, temporary, on_read)
        _check_tables(path, temporary / STORE)
        with _open_store(path, temporary / STORE, manifest) as store:
            logs = [
                _verify_log(path, temporary / member.name, member) for member in manifest.sessions
            ]
            yield OpenBundle(manifest, store, tuple(logs))


def import_bundle(
    bundle: OpenBundle,
    store: Store,
    sessions: Path,
    *,
    on_copy: ProgressCallback | None = None,
    refuses_credentials: bool = False,
) -> BundleImportResult:
    """Add the content of a bundle to a store and a folder of logs.

    Existing content is unchanged, except that tickets of which the bundle has later versions
    continue, and copies of files of which it has more bytes.

    A log whose name is used by another log gets a similar name. A second import changes nothing.
    Raises StoreError; BundleError if a log cannot be written, with `refuses_credentials` also if it
    contains a credential.
    """
    copied = copy_commits(bundle.store, store, bundle.manifest.tip_ids(), on_progress=on_copy)
    files = add_imported_files(bundle.store, store)
    tickets = copy_tickets(bundle.store, store)
    folder = LogFolder(sessions, refuses_credentials=refuses_credentials)
    logs = tuple(_add_log(log, folder) for log in bundle.logs)
    return BundleImportResult(copied.commits, logs, tickets, files)


def _unpack(path: Path, inside: Path, on_read: ProgressCallback | None) -> Manifest:
    """Extract the files of a bundle, verifying checksums. Raises BundleError."""
    try:
        with zipfile.ZipFile(path) as bundle:
            manifest = read_manifest(path, bundle)
            total = sum(member.size_bytes for member in manifest.members)
            if shutil.disk_usage(inside).free < total + _SPARE_BYTES:
                raise BundleError(path, f"needs {total} bytes: not enough free disk space")
            (inside / SESSIONS).mkdir()
            read_bytes = 0
            for member in manifest.members:
                for size in _extract(path, bundle, member, inside / member.name):
                    read_bytes += size
                    if on_read is not None:
                        on_read(read_bytes, total)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BundleError(path, f"not a complete bundle: {error}") from None
    except OSError as error:
        raise BundleError(path, f"cannot be read: {error.strerror or error}") from None
    return manifest


def _extract(path: Path, bundle: zipfile.ZipFile, member: BundleMember, out: Path) -> Iterator[int]:
    """Extract a member in chunks and yield their sizes. Raises BundleError for a wrong checksum."""
    hasher = blake3()
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with bundle.open(member.name) as source, os.fdopen(fd, "wb") as target:
        while chunk := source.read(_CHUNK_BYTES):
            hasher.update(chunk)
            target.write(chunk)
            yield len(chunk)
    if hasher.hexdigest() != member.blake3:
        raise BundleError(path, f"is damaged or was changed: checksum mismatch of {member.name}")


def _check_tables(path: Path, database: Path) -> None:
    """Raise BundleError if the schema is not that of a store: views and triggers could act."""
    try:
        with closing(sqlite3.connect(":memory:")) as reference:
            reference.executescript(SCHEMA_SQL)
            expected = set(reference.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
        uri = f"{database.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            version = read_version(connection)
            query = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
            actual = set(connection.execute(query))
    except (sqlite3.Error, ValueError) as error:  # sqlite3 fails to decode some of its own values.
        raise BundleError(path, f"has a store that cannot be read: {error}") from None
    if not NEW_FILE_VERSION <= version <= VERSION:
        advice = "upgrade Harken" if version > VERSION else "write the bundle again"
        raise BundleError(
            path,
            f"has a store of format version {version}, this Harken reads up to {VERSION}: {advice}",
        )
    if actual != expected:
        raise BundleError(path, "has a store with other tables than a store has")


@contextmanager
def _open_store(path: Path, database: Path, manifest: Manifest) -> Iterator[SqliteStore]:
    """Yield the store of a bundle after a complete verification. Raises BundleError.

    All exceptions are converted: whatever a forged file makes SQLite or a decoder raise is an error
    of the file.
    """
    try:
        store = SqliteStore(database)
    except Exception as error:  # noqa: BLE001 - see above
        reason = f"has a store that cannot be used: {_format_error(error, database)}"
        raise BundleError(path, reason) from None
    with closing(store):
        try:
            _check_store(path, store, manifest)
        except BundleError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            raise BundleError(
                path, f"has a damaged store: {_format_error(error, database)}"
            ) from None
        yield store


def _check_store(path: Path, store: SqliteStore, manifest: Manifest) -> None:
    for finding in fsck(store):
        raise BundleError(path, f"has a damaged store: {finding.place}: {finding.problem}")
    if len(store.newest_commits(2**62)) != manifest.commits:
        raise BundleError(path, "its store has other commits than its manifest")
    tips = manifest.tip_ids()
    if len(store.commits(tips)) != len(tips):
        raise BundleError(path, "has not all commits that its manifest names")


def _format_error(error: Exception, database: Path) -> str:
    """Return the text of an error without the path of the temporary file."""
    text = str(error).removeprefix(f"{database}: ")
    return text if isinstance(error, StoreError) else f"{type(error).__name__}: {text}"


def _verify_log(path: Path, log: Path, member: BundleMember) -> VerifiedLog:
    """Verify every line of a log. Raises BundleError."""
    name = member.name.removeprefix(SESSIONS)
    try:
        verified_log = verify_log(log)
    except LogError as error:
        reason = str(error).removeprefix(f"{log}: ").partition("; ")[0]
        raise BundleError(path, f"has a damaged log: {name}: {reason}") from None
    if verified_log.is_torn:
        raise BundleError(path, f"has a damaged log: {name} ends in half a line")
    return verified_log


def _add_log(log: VerifiedLog, folder: LogFolder) -> ImportedLog:
    """Add a log to a folder. Raises BundleError."""
    try:
        copy = folder.add(log)
    except LogError as error:
        raise BundleError(Path(log.path.name), f"cannot be imported: {error}") from None
    return ImportedLog(log.path.name, copy.path, is_new=copy.change == "added")
