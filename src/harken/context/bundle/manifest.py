"""The manifest of a bundle: what is in it. A bundle is a zip file of three kinds of members.

`manifest.json`, a store in `store.db`, and the logs of sessions in `sessions/`. Who opens a bundle
believes nothing: what is in the zip and what the manifest says must be the same, name by name and
byte by byte, before anything is used.

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

FORMAT = "harken-bundle"
VERSION = 1
MANIFEST = "manifest.json"
STORE = "store.db"
SESSIONS = "sessions/"
MOST_MEMBERS = 100_000
MOST_MANIFEST_BYTES = 64 * 1024 * 1024
MOST_RATIO = 200
"""So many times its size a bundle may have inside. Logs have some ten to twenty."""
_SOME_BYTES = 16 * 1024 * 1024
"""What a small bundle may have inside, whatever its size."""
_LOG = re.compile(r"[^/\\\x00-\x1f\x7f<>:\"|?*. -][^/\\\x00-\x1f\x7f<>:\"|?*]{0,150}\.jsonl")

Count = Annotated[int, msgspec.Meta(ge=0)]
Sum = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^ctx-[0-9a-f]{64}$")]


class BundleMember(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a bundle."""

    name: str
    """As the zip has it: `store.db`, `sessions/NAME.jsonl`."""
    size_bytes: Count
    blake3: Sum


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken out of a bundle when it was made."""

    kinds: dict[str, Count] = {}
    """Kind of credential -> in how many places."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a bundle. A later version may have more members."""

    format: str = FORMAT
    version: int = VERSION
    created_at: str
    """RFC 3339."""
    tips: tuple[Name, ...] = ()
    """The commits that it was made for. All others are those before them."""
    commits: Count = 0
    """How many it has."""
    store: BundleMember
    sessions: tuple[BundleMember, ...] = ()
    redaction: Redaction | None = None
    """None: everything is exact."""

    @property
    def members(self) -> tuple[BundleMember, ...]:
        """All files but this one."""
        return (self.store, *self.sessions)

    def tip_ids(self) -> list[CommitId]:
        """Return the names of the tips."""
        return [CommitId(name) for name in self.tips]


def log_name(name: str) -> str:
    """Return the name of a log in a bundle: one that every system takes for the name of a file."""
    stem = name.removesuffix(".jsonl").encode("utf-8", "replace").decode()
    stem = re.sub(r"[/\\\x00-\x1f\x7f<>:\"|?*]", "_", stem)[:100].lstrip(". -") or "session"
    return f"{SESSIONS}{stem}.jsonl"


def manifest_in(path: Path, bundle: zipfile.ZipFile) -> Manifest:
    """Read the manifest of a bundle and compare it with what is there. Raises BundleError."""
    infos = bundle.infolist()
    _check_zip(path, infos)
    try:
        with bundle.open(MANIFEST) as file:
            found = msgspec.json.decode(file.read(), type=_Kind)
            if found.format != FORMAT:
                raise BundleError(path, "is no bundle of Harken")
            if found.version > VERSION:
                raise BundleError(
                    path,
                    f"has format version {found.version}, this Harken reads up to {VERSION}: "
                    f"upgrade Harken",
                )
        with bundle.open(MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(), type=Manifest)
    except KeyError:
        raise BundleError(path, "is no bundle of Harken: it has no manifest") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(path, f"is no bundle of Harken: its manifest: {error}") from None
    _check_same(path, manifest, infos)
    return manifest


class _Kind(msgspec.Struct):
    """The members by which every version is told."""

    format: str
    version: int


def _check_zip(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Raise BundleError for what no bundle has: odd names, links, folders, too much."""
    if len(infos) > MOST_MEMBERS:
        raise BundleError(path, f"has more than {MOST_MEMBERS} files in it")
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        if name not in (MANIFEST, STORE) and not _is_log(name):
            raise BundleError(path, f"has a file that is part of no bundle: {name[:100]!r}")
        if name.casefold() in seen:
            raise BundleError(path, f"has two files of the name {name!r}")
        seen.add(name.casefold())
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise BundleError(path, f"has a link, or something encrypted: {name!r}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(path, f"has a file that is packed in an unknown way: {name!r}")
        if name == MANIFEST and info.file_size > MOST_MANIFEST_BYTES:
            raise BundleError(path, "has a manifest that is too large")
    packed = path.stat().st_size
    inside = sum(info.file_size for info in infos)
    if sum(info.compress_size for info in infos) > packed:
        raise BundleError(path, "says of the same bytes that they are several files")
    if inside > max(_SOME_BYTES, MOST_RATIO * packed):
        raise BundleError(path, f"is {packed} bytes large and says that it holds {inside}")


def _is_log(name: str) -> bool:
    return name.startswith(SESSIONS) and _LOG.fullmatch(name[len(SESSIONS) :]) is not None


def _check_same(path: Path, manifest: Manifest, infos: list[zipfile.ZipInfo]) -> None:
    """Raise BundleError where the manifest says something else than the zip."""
    told = {member.name: member.size_bytes for member in manifest.members}
    there = {info.filename: info.file_size for info in infos if info.filename != MANIFEST}
    if manifest.store.name != STORE or not all(_is_log(one.name) for one in manifest.sessions):
        raise BundleError(path, "has a manifest that names other files than a bundle has")
    if told != there or len(told) != len(manifest.members):
        odd = sorted({*told.items()} ^ {*there.items()})[:1]
        what = odd[0][0] if odd else "a file twice"
        raise BundleError(path, f"does not hold what its manifest says: {what}")
