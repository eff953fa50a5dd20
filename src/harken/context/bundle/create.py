"""Making a bundle: what is wanted goes into a folder of its own first, and then into one file.

One idea: everything is copied before anything is changed or packed. So others may write store and
logs meanwhile, and what is in the bundle fits together: each commit that a log in it names is in
its store, if it was in the store that it comes from.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
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
    log_name,
)
from harken.context.bundle.redact import look_for, redact_logs, redact_store
from harken.core.commits import CommitId
from harken.core.secrets.redaction import Credentials
from harken.errors import BundleError, LogError
from harken.session.log.file import RealDisk
from harken.session.log.reader import LogReadReport, events, mentions, open_log
from harken.store.base import Store
from harken.store.copy import copy_commits
from harken.store.sqlite.store import SqliteStore

_CHUNK_BYTES = 1 << 20
_AT_ONCE = 1000
_THERE = "is there already; choose another name"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
Told = Callable[[int, int], None]
"""How much is done, of how much."""


@dataclass(frozen=True, slots=True)
class SkippedLog:
    """A log that is not in the bundle."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What was made."""

    manifest: Manifest
    size_bytes: int
    left_out: tuple[SkippedLog, ...] = ()
    lacking: int = 0
    """How many commits the logs name that are not in the store."""
    credentials: Mapping[str, int] = field(default_factory=dict)
    """Kind -> how many different ones were found. They are in it only where it is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What shall be in a bundle."""

    store: Store
    tips: Sequence[CommitId] = ()
    """With all before them; those that the logs name need not be said."""
    logs: Sequence[Path] = ()
    created_at: str
    """RFC 3339."""
    as_is: bool = False
    """Whether credentials stay in it."""


def create_bundle(
    out: Path, wanted: BundleRequest, *, on_copy: Told | None = None, on_pack: Told | None = None
) -> BundleResult:
    """Write a bundle to a new file, for its owner only; on return it is on disk.

    Credentials of well-known shapes are redacted, unless everything shall be as it is.
    A log that is damaged is left out. Of one that is being written, all whole lines by now are in.
    Raises BundleError, also where `out` is there; NameNotFound, ObjectNotFound, StoreError.
    """
    if out.exists() or out.is_symlink():
        raise BundleError(out, _THERE)
    with _folder_beside(out) as folder:
        left_out = _copy_logs(wanted.logs, folder)
        found = Credentials()
        with closing(SqliteStore(folder / STORE)) as copy:
            lacking = _copy_commits(wanted, folder, copy, on_copy)
            if wanted.as_is:
                look_for(folder, copy, found)
            else:
                redact_store(copy, found, wanted.created_at)
                redact_logs(folder, copy, found)
        manifest = _manifest(folder, wanted, found)
        packed = folder / "packed"
        _pack(folder, manifest, packed, on_pack)
        packed.chmod(0o600)
        try:
            put(packed, out)
        except FileExistsError:
            raise BundleError(out, _THERE) from None
    return BundleResult(manifest, out.stat().st_size, tuple(left_out), lacking, found.kinds)


@contextmanager
def _folder_beside(out: Path) -> Iterator[Path]:
    """Give a folder on the disk that the file will be on; it is gone in the end."""
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
    """Copy what is whole of logs, each under a name of its own; return those that are damaged."""
    left_out: list[SkippedLog] = []
    taken: set[str] = set()
    for path in logs:
        name = _free(log_name(path.name), taken)
        try:
            copy_whole_lines(path, folder / name)
        except LogError as error:
            left_out.append(SkippedLog(path, str(error).removeprefix(f"{folder / name}: ")))
            (folder / name).unlink(missing_ok=True)
        else:
            taken.add(name.casefold())
    return left_out


def _free(name: str, taken: set[str]) -> str:
    stem = name.removesuffix(".jsonl")
    names = (name if n == 1 else f"{stem}-{n}.jsonl" for n in count(1))
    return next(one for one in names if one.casefold() not in taken)


def copy_whole_lines(path: Path, out: Path) -> LogReadReport:
    """Copy a log as it is now, without a half line at its end, and check all sums.

    Raises LogError: not there, not a log, damaged.
    """
    with open_log(path) as source, out.open("xb") as target:
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
    reading = LogReadReport()
    for _ in events(out, reading):
        pass
    if reading.torn:
        os.truncate(out, reading.end)
    return reading


def _copy_commits(wanted: BundleRequest, folder: Path, copy: Store, on_copy: Told | None) -> int:
    """Copy commits to a store of their own; return how many are named by logs and not there."""
    named = {
        CommitId(name)
        for log in (folder / SESSIONS).iterdir()
        for name in mentions(log)
        if name.startswith("ctx-")
    }
    there = [name for some in _slices(sorted(named)) for name in wanted.store.commits(some)]
    copy_commits(wanted.store, copy, [*wanted.tips, *there], on_progress=on_copy)
    return len(named) - len(there)


def _manifest(folder: Path, wanted: BundleRequest, found: Credentials) -> Manifest:
    with closing(SqliteStore(folder / STORE)) as store:
        names = store.newest_commits(2**62)
        commits = (one for some in _slices(names) for one in store.commits(some).values())
        inner = {one.commit.parent for one in commits}
    logs = sorted((folder / SESSIONS).iterdir())
    return Manifest(
        created_at=wanted.created_at,
        tips=tuple(name for name in names if name not in inner),
        commits=len(names),
        store=_member(folder / STORE, STORE),
        sessions=tuple(_member(log, f"{SESSIONS}{log.name}") for log in logs),
        redaction=None if wanted.as_is else Redaction(kinds=found.kinds),
    )


def _member(path: Path, name: str) -> BundleMember:
    return BundleMember(name=name, size_bytes=path.stat().st_size, blake3=sum_of(path))


def sum_of(path: Path) -> str:
    """Return the BLAKE3 of a file, 64 hex digits, a piece at a time."""
    hasher = blake3()
    with open_log(path) as file:
        while piece := file.read(_CHUNK_BYTES):
            hasher.update(piece)
    return hasher.hexdigest()


def _pack(folder: Path, manifest: Manifest, packed: Path, on_pack: Told | None) -> None:
    """Write the zip file. The store is packed already; logs shrink."""
    total = sum(member.size_bytes for member in manifest.members)
    done = 0
    with zipfile.ZipFile(packed, "w") as bundle:
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        bundle.writestr(_info(MANIFEST, len(text)), text)
        for member in manifest.members:
            info = _info(member.name, member.size_bytes)
            with (folder / member.name).open("rb") as file, bundle.open(info, "w") as target:
                while piece := file.read(_CHUNK_BYTES):
                    target.write(piece)
                    done += len(piece)
                    if on_pack is not None:
                        on_pack(done, total)


def _info(name: str, size_bytes: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type = zipfile.ZIP_STORED if name == STORE else zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    info.file_size = size_bytes
    return info


def put(partial: Path, path: Path) -> None:
    """Give a finished file its name, durably. Raises FileExistsError: nothing is replaced."""
    disk = RealDisk()
    with partial.open("rb+") as file:
        disk.sync(file.fileno())
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        partial.rename(path)
    disk.sync_folder(path.parent)


def _slices(names: Sequence[CommitId]) -> Iterator[Sequence[CommitId]]:
    for at in range(0, len(names), _AT_ONCE):
        yield names[at : at + _AT_ONCE]
