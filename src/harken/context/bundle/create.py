"""Create a bundle: copy the content into a temporary folder, then pack it into one file.

Everything is copied before anything is changed or packed. So other processes may write the store
and the logs meanwhile, and the bundle is consistent: each commit that a log in it names is in its
store, if the source store has it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.context.bundle.manifest import (
    MANIFEST,
    SESSIONS,
    STORE,
    BundleMember,
    Manifest,
    Redaction,
    sanitize_log_name,
)
from harken.context.bundle.redact import count_credentials, redact_logs, redact_store
from harken.core.commits import CommitId, TicketId
from harken.core.secrets.redaction import Credentials
from harken.errors import BundleError, LogError
from harken.session.log.disk import move_durably
from harken.session.log.reader import LogReadReport, find_mentioned_names, iter_events, open_log
from harken.store.base import NO_LIMIT, Store
from harken.store.copying.commits import copy_commits
from harken.store.copying.imported_files import copy_imported_files
from harken.store.copying.tickets import copy_tickets
from harken.store.sqlite.store import SqliteStore

_CHUNK_BYTES = 1 << 20
_COMMITS_PER_BATCH = 1000
_EXISTS_TEXT = "exists; choose another name"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
ProgressCallback = Callable[[int, int], None]
"""Called with the number of processed bytes or commits, and the total."""


class SkippedLog(msgspec.Struct, frozen=True):
    """A log that was left out of the bundle."""

    path: Path
    why: str


class BundleResult(msgspec.Struct, frozen=True):
    """The manifest and the statistics of a new bundle."""

    manifest: Manifest
    size_bytes: int
    left_out: tuple[SkippedLog, ...] = ()
    lacking: int = 0
    """The number of commits in the logs that are missing from the store."""
    credentials: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Kind -> number of distinct credentials found.

    The bundle contains them only if `as_is` was set.
    """
    tickets: int = 0


class BundleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a bundle to create."""

    store: Store
    tips: Sequence[CommitId] = ()
    """Commits to include with their ancestors. Those that the logs name are always included."""
    logs: Sequence[Path] = ()
    tickets: Sequence[TicketId] = ()
    created_at: str
    """RFC 3339."""
    as_is: bool = False
    """Whether credentials are left in the bundle."""


def create_bundle(
    out: Path,
    wanted: BundleRequest,
    *,
    on_copy: ProgressCallback | None = None,
    on_pack: ProgressCallback | None = None,
) -> BundleResult:
    """Write a bundle to a new file that only its owner may read. On return it is durable.

    Credentials of well-known formats are redacted, unless `as_is` is set. A damaged log is left
    out. Of a log that is being written, the complete lines are included. Raises BundleError, also
    if `out` exists; NameNotFound, ObjectNotFound, StoreError.
    """
    if out.exists() or out.is_symlink():
        raise BundleError(out, _EXISTS_TEXT)
    with _temporary_folder(out) as folder:
        skipped = _copy_logs(wanted.logs, folder)
        credentials = Credentials()
        with closing(SqliteStore(folder / STORE)) as copy:
            missing_count = _copy_commits(wanted, folder, copy, on_copy)
            copy_tickets(wanted.store, copy, wanted.tickets)
            if wanted.as_is:
                count_credentials(folder, copy, credentials)
            else:
                redact_store(copy, credentials, wanted.created_at)
                redact_logs(folder, copy, credentials)
        manifest = _build_manifest(folder, wanted, credentials)
        zip_path = folder / "packed"
        _pack(folder, manifest, zip_path, on_pack)
        zip_path.chmod(0o600)
        try:
            move_durably(zip_path, out)
        except FileExistsError:
            raise BundleError(out, _EXISTS_TEXT) from None
    return BundleResult(
        manifest,
        out.stat().st_size,
        tuple(skipped),
        missing_count,
        credentials.kinds,
        len(wanted.tickets),
    )


@contextmanager
def _temporary_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder on the file system of `out`, which is removed in the end."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name[:40]}.", dir=out.parent))
    except OSError as error:
        raise BundleError(out, f"cannot be written: {error.strerror or error}") from None
    try:
        (folder / SESSIONS).mkdir()
        yield folder
    except OSError as error:
        raise BundleError(out, f"cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_logs(logs: Sequence[Path], folder: Path) -> list[SkippedLog]:
    """Copy the complete lines of logs under unique names. Return the damaged logs."""
    skipped: list[SkippedLog] = []
    used_names: set[str] = set()
    for path in logs:
        name = _find_free_name(sanitize_log_name(path.name), used_names)
        try:
            copy_whole_lines(path, folder / name)
        except LogError as error:
            skipped.append(SkippedLog(path, str(error).removeprefix(f"{folder / name}: ")))
            (folder / name).unlink(missing_ok=True)
        else:
            used_names.add(name.casefold())
    return skipped


def _find_free_name(name: str, used_names: set[str]) -> str:
    stem = name.removesuffix(".jsonl")
    names = (name if n == 1 else f"{stem}-{n}.jsonl" for n in count(1))
    return next(candidate for candidate in names if candidate.casefold() not in used_names)


def copy_whole_lines(path: Path, out: Path) -> LogReadReport:
    """Copy a log as it is now, without a partial last line, and verify all checksums.

    Raises LogError if the log does not exist, is not a log, or is damaged.
    """
    with open_log(path) as source, out.open("xb") as target:
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
    report = LogReadReport()
    for _ in iter_events(out, report):
        pass
    if report.torn:
        os.truncate(out, report.end)
    return report


def _copy_commits(
    request: BundleRequest, folder: Path, copy: Store, on_copy: ProgressCallback | None
) -> int:
    """Copy commits to the bundle's store. Return how many named commits are missing."""
    names_in_logs = {
        CommitId(name)
        for log in (folder / SESSIONS).iterdir()
        for name in find_mentioned_names(log)
        if name.startswith("ctx-")
    }
    existing = [
        name for batch in _slices(sorted(names_in_logs)) for name in request.store.commits(batch)
    ]
    copy_commits(request.store, copy, [*request.tips, *existing], on_progress=on_copy)
    copy_imported_files(request.store, copy, set(copy.newest_commits(NO_LIMIT)))
    return len(names_in_logs) - len(existing)


def _build_manifest(folder: Path, request: BundleRequest, credentials: Credentials) -> Manifest:
    with closing(SqliteStore(folder / STORE)) as store:
        names = store.newest_commits(NO_LIMIT)
        commits = (stored for batch in _slices(names) for stored in store.commits(batch).values())
        parents = {stored.commit.parent for stored in commits}
    logs = sorted((folder / SESSIONS).iterdir())
    return Manifest(
        created_at=request.created_at,
        tips=tuple(name for name in names if name not in parents),
        commits=len(names),
        store=_build_member(folder / STORE, STORE),
        sessions=tuple(_build_member(log, f"{SESSIONS}{log.name}") for log in logs),
        redaction=None if request.as_is else Redaction(kinds=credentials.kinds),
    )


def _build_member(path: Path, name: str) -> BundleMember:
    return BundleMember(name=name, size_bytes=path.stat().st_size, blake3=hash_file(path))


def hash_file(path: Path) -> str:
    """Return the BLAKE3 hash of a file as 64 hex digits, reading it in chunks."""
    hasher = blake3()
    with open_log(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return hasher.hexdigest()


def _pack(
    folder: Path, manifest: Manifest, zip_path: Path, on_pack: ProgressCallback | None
) -> None:
    """Write the zip file. Logs are compressed; the store is compressed already."""
    total = sum(member.size_bytes for member in manifest.members)
    written_bytes = 0
    with zipfile.ZipFile(zip_path, "w") as bundle:
        encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        bundle.writestr(_build_zip_info(MANIFEST, len(encoded)), encoded)
        for member in manifest.members:
            info = _build_zip_info(member.name, member.size_bytes)
            with (folder / member.name).open("rb") as file, bundle.open(info, "w") as target:
                while chunk := file.read(_CHUNK_BYTES):
                    target.write(chunk)
                    written_bytes += len(chunk)
                    if on_pack is not None:
                        on_pack(written_bytes, total)


def _build_zip_info(name: str, size_bytes: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _ZIP_TIME)
    info.compress_type = zipfile.ZIP_STORED if name == STORE else zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    info.file_size = size_bytes
    return info


def _slices(names: Sequence[CommitId]) -> Iterator[Sequence[CommitId]]:
    for start in range(0, len(names), _COMMITS_PER_BATCH):
        yield names[start : start + _COMMITS_PER_BATCH]
