"""The manifest of a bundle, and its validation against the zip file.

A bundle is a zip file with `manifest.json`, a store in `store.db`, and the logs of sessions in
`sessions/`. A reader trusts nothing: the content of the zip and the manifest must agree in all
names and bytes, before anything is used.

Source: docs/formats/bundle.md.
"""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path
from typing import Annotated

import msgspec

from harken.core.commits import CommitId
from harken.errors import BundleError
from harken.session.log.copy import sanitize_stem

FORMAT = "harken-bundle"
VERSION = 2
MANIFEST = "manifest.json"
STORE = "store.db"
SESSIONS = "sessions/"
MAX_MEMBERS = 100_000
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_EXPANSION = 200
"""The limit of the total size of the members, in sizes of the bundle. Logs have ten to twenty."""
_MIN_LIMIT_BYTES = 16 * 1024 * 1024
"""The total size that is always allowed, whatever the size of the bundle."""
_LOG_NAME_PATTERN = re.compile(
    r"[^/\\\x00-\x1f\x7f<>:\"|?*. -][^/\\\x00-\x1f\x7f<>:\"|?*]{0,150}\.jsonl"
)

Count = Annotated[int, msgspec.Meta(ge=0)]
Sum = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^ctx-[0-9a-f]{64}$")]


class BundleMember(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a bundle."""

    name: str
    """The name in the zip: `store.db`, `sessions/NAME.jsonl`."""
    size_bytes: Count
    blake3: Sum


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials that were removed when the bundle was created."""

    kinds: dict[str, Count] = {}
    """Kind of credential -> number of places."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a bundle. A later version may have more members."""

    format: str = FORMAT
    version: int = VERSION
    created_at: str
    """RFC 3339."""
    tips: tuple[Name, ...] = ()
    """The commits that were requested. All others are their ancestors."""
    commits: Count = 0
    """The number of commits."""
    store: BundleMember
    sessions: tuple[BundleMember, ...] = ()
    redaction: Redaction | None = None
    """None if nothing was redacted."""

    @property
    def members(self) -> tuple[BundleMember, ...]:
        """All files except the manifest."""
        return (self.store, *self.sessions)

    def tip_ids(self) -> list[CommitId]:
        """Return the names of the tips."""
        return [CommitId(name) for name in self.tips]


def sanitize_log_name(name: str) -> str:
    """Return a log's name in a bundle, reduced to characters that every file system allows."""
    return f"{SESSIONS}{sanitize_stem(name)}.jsonl"


def read_manifest(path: Path, bundle: zipfile.ZipFile) -> Manifest:
    """Read the manifest of a bundle and compare it with the zip file. Raises BundleError."""
    infos = bundle.infolist()
    _check_zip(path, infos)
    try:
        with bundle.open(MANIFEST) as file:
            header = msgspec.json.decode(file.read(), type=_Header)
            if header.format != FORMAT:
                raise BundleError(path, "not a bundle of Harken")
            if header.version != VERSION:
                advice = "upgrade Harken" if header.version > VERSION else "write it again"
                raise BundleError(
                    path,
                    f"has format version {header.version}, this Harken reads version {VERSION}: "
                    f"{advice}",
                )
        with bundle.open(MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(), type=Manifest)
    except KeyError:
        raise BundleError(path, "not a bundle of Harken: it has no manifest") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(path, f"not a bundle of Harken: invalid manifest: {error}") from None
    _check_matches(path, manifest, infos)
    return manifest


class _Header(msgspec.Struct):
    """The members that identify a version, common to all versions."""

    format: str
    version: int


def _check_zip(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Raise BundleError for invalid names, links, folders and oversized content."""
    if len(infos) > MAX_MEMBERS:
        raise BundleError(path, f"has more than {MAX_MEMBERS} files in it")
    names: set[str] = set()
    for info in infos:
        name = info.filename
        if name not in (MANIFEST, STORE) and not _is_log(name):
            raise BundleError(path, f"has a file that is part of no bundle: {name[:100]!r}")
        if name.casefold() in names:
            raise BundleError(path, f"has two files of the name {name!r}")
        names.add(name.casefold())
        file_type = stat.S_IFMT(info.external_attr >> 16)
        if file_type not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise BundleError(path, f"has a link, or something encrypted: {name!r}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(path, f"has a file that is packed in an unknown way: {name!r}")
        if name == MANIFEST and info.file_size > MAX_MANIFEST_BYTES:
            raise BundleError(path, "has a manifest that is too large")
    bundle_bytes = path.stat().st_size
    content_bytes = sum(info.file_size for info in infos)
    if sum(info.compress_size for info in infos) > bundle_bytes:
        raise BundleError(path, "its files overlap")
    if content_bytes > max(_MIN_LIMIT_BYTES, MAX_EXPANSION * bundle_bytes):
        raise BundleError(
            path, f"is {bundle_bytes} bytes large, but its files have {content_bytes}"
        )


def _is_log(name: str) -> bool:
    return (
        name.startswith(SESSIONS) and _LOG_NAME_PATTERN.fullmatch(name[len(SESSIONS) :]) is not None
    )


def _check_matches(path: Path, manifest: Manifest, infos: list[zipfile.ZipInfo]) -> None:
    """Raise BundleError if the manifest does not match the zip file."""
    sizes = {member.name: member.size_bytes for member in manifest.members}
    zip_sizes = {info.filename: info.file_size for info in infos if info.filename != MANIFEST}
    if manifest.store.name != STORE or not all(
        _is_log(member.name) for member in manifest.sessions
    ):
        raise BundleError(path, "has a manifest that names other files than a bundle has")
    if sizes != zip_sizes or len(sizes) != len(manifest.members):
        differences = sorted({*sizes.items()} ^ {*zip_sizes.items()})[:1]
        label = differences[0][0] if differences else "a file twice"
        raise BundleError(path, f"its content does not match its manifest: {label}")
