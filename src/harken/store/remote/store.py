"""`RemoteStore`: a store that another process keeps, through the service.

One idea: nothing that comes back is believed because of where it comes from. Bodies are hashed,
chains are followed, and a name counts only if it is one.

Source: docs/formats/service.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import quote

from blake3 import blake3

from harken.core import canonical
from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash
from harken.errors import NameNotFound, NotesConflict, ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import name_of, needs_of
from harken.store.remote import wire
from harken.store.remote.connection import ServiceConnection

LOCAL = "http://localhost"
_FULL = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")
_DIGITS = "0123456789abcdef"
_COLLECTS_S = 3600.0
"""How long collecting or purging may take: both read all that is there."""
P = ParamSpec("P")
T = TypeVar("T")


@check_arguments
class RemoteStore:
    """The store of the service at `url`, which asks for `token`; or at a Unix `socket`.

    Threads may share it. Where the connection breaks it asks again, for about `patience_s`: all
    that is asked here may be asked twice. Raises ConfigError; all methods raise StoreError where
    the service is away.
    """

    def __init__(
        self,
        url: str = LOCAL,
        *,
        token: str = "",
        socket: str | Path | None = None,
        patience_s: float = 1.0,
    ) -> None:
        self._connection = ServiceConnection(url, token=token, socket=socket, patience_s=patience_s)
        self.address = self._connection.address
        self._tombstones: dict[Name, Tombstone] = {}
        """As far as they were needed: others may have been added."""

    def write(self, batch: WriteBatch) -> None:
        self._connection.ask("/v1/store/write", wire.packed_batch(batch), sends=wire.PACKED)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        found = self._found("objects", names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): body for name, body in found.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        return self._read("deltas", names, ObjectKind.DELTA, values.decode_delta)

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        return self._read("sequences", names, ObjectKind.SEQUENCE, values.decode_sequence)

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        if not _FULL.fullmatch(name):
            raise ObjectNotFound(self.address, name)
        parts = self._connection.flow(f"/v1/store/raw/{name}")
        first = next(parts, b"")
        return self._checked(name, chain([first], parts))

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        found: dict[str, ArtifactRef] = {}
        for some in _slices(keys):
            found |= self._asked("derived", wire.Derived, keys=some).derived
        return found

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        found: dict[CommitId, StoredCommit] = {}
        wanted = _full(names)
        while wanted:
            some = wanted[: wire.MOST_NAMES]
            answer = self._commits("commits", names=some)
            known = {one.id: one for one in self._stored(answer)}
            found |= {name: known[name] for name in map(CommitId, some) if name in known}
            wanted = self._rest(wanted, answer.asked)
        return found

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        found: list[StoredCommit] = []
        at: CommitId | None = name
        while at is not None:
            left = wire.MOST_NAMES if depth is None else max(depth - len(found), 0)
            links = self._links(at, min(left, wire.MOST_NAMES), found)[:left]
            for stored in links:
                if at is None or stored.id != at:
                    raise ObjectCorrupted(self.address, name, reason="its chain leads elsewhere")
                found.append(stored)
                at = stored.commit.parent
            if not links or len(found) == depth:
                break
        return found

    def children(self, name: CommitId) -> list[CommitId]:
        return self._asked("children", wire.CommitList, name=name).commits

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        return self._asked("latest", wire.MaybeCommit, principal=principal, at=at).id

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        most = max(0, min(limit, wire.MOST_LISTED))
        found = self._asked("newest", wire.CommitList, limit=most).commits
        if len(found) == most < limit:
            raise StoreError(self.address, f"has more than {most} commits: ask for fewer")
        return found

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        most = max(0, min(limit, wire.MOST_NAMES))
        found = self._asked("named", wire.NameList, beginning=beginning, limit=most).names
        if not all(name.startswith(beginning) for name in found):
            raise self._odd("names that were not asked for")
        if len(found) == most < limit:  # there may be more than one answer holds: ask for less
            found = []
            for longer in _longer(beginning):
                found += self.names_with_prefix(longer, limit - len(found))
        return [ArtifactRef(name) for name in found]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        try:
            self._asked("annotate", wire.DoneBody, name=name, notes=notes, was=was)
        except NotesConflict:  # by us, perhaps: the answer was lost, and we asked again
            if self.commits([name])[name].notes != notes:
                raise

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        return self._asked("labelled", wire.LabelList, label=label).labels

    def iter_objects(self) -> Iterator[StoredObject]:
        frames = wire.frames(self._connection.flow("/v1/store/things"))
        while (data := self._believed(next, frames, None)) is not None:
            thing = self._believed(wire.unpack, data, wire.PackedThing)
            name = self._believed(name_of, thing.kind, thing.body)
            needs = self._believed(needs_of, thing.kind, thing.body)
            yield StoredObject(thing.kind, name, thing.body, needs)

    def stats(self) -> StoreStats:
        return self._told("stats", StoreStats)

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        self._asked("keep", wire.DoneBody, kept=dict(names))

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        found = self._told("kept", wire.RetentionBody).kept
        return {ArtifactRef(name): keeping for name, keeping in found.items() if keeping}

    def collect(
        self, roots: Collection[Name], *, now: str, grace_s: float = 3600, dry_run: bool = False
    ) -> GcResult:
        asked = wire.Collection(now, [*roots], grace_s, dry_run)
        answer = self._connection.ask(
            "/v1/store/collect", canonical.to_json_line(asked), silence_s=_COLLECTS_S
        )
        return self._believed(wire.read_json, answer, GcResult)

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        packed = wire.pack(wire.PackedPurge(dict(stand_ins), canonical.to_json_line(tombstone)))
        self._connection.ask("/v1/store/purge", packed, sends=wire.PACKED, silence_s=_COLLECTS_S)

    def tombstones(self) -> dict[Name, Tombstone]:
        return self._told("tombstones", wire.Tombstones).tombstones

    def log_end(self, name: str) -> wire.LogEndBody:
        """Say how much is there of the log of a session; nothing, where there is none."""
        answer = self._connection.ask(f"/v1/logs/{quote(name, safe='')}", method="GET")
        return self._believed(wire.read_json, answer, wire.LogEndBody)

    def append_log(self, name: str, at: int, lines: bytes) -> wire.LogEndBody:
        """Add whole lines to a log, which has `at` bytes; what it has of them already is not added.

        On return they are on the disk there. Raises LogError where others are there, or another
        program writes the log; StoreError.
        """
        path = f"/v1/logs/{quote(name, safe='')}?from={at}"
        answer = self._connection.ask(path, lines, sends=wire.BYTES)
        return self._believed(wire.read_json, answer, wire.LogEndBody)

    def close(self) -> None:
        self._connection.close()

    def _found(self, what: str, names: Iterable[str], *kinds: ObjectKind) -> dict[str, bytes]:
        """Return those bodies of these names that are there, each checked."""
        found: dict[str, bytes] = {}
        wanted = _full(names)
        while wanted:
            body = canonical.to_json_line({"names": wanted[: wire.MOST_NAMES]})
            packed = self._connection.ask(f"/v1/store/{what}", body, accepts=wire.PACKED)
            answer = self._believed(wire.unpack, packed, wire.PackedFound)
            for name in wanted[: answer.asked]:
                if name in answer.found:
                    found[name] = answer.found[name]
                    self._check(name, found[name], *kinds)
            wanted = self._rest(wanted, answer.asked)
        return found

    def _read(
        self,
        what: str,
        names: Iterable[ArtifactRef],
        kind: ObjectKind,
        read: Callable[[bytes], T],
    ) -> dict[ArtifactRef, T]:
        found = self._found(what, names, kind)
        return {ArtifactRef(name): self._believed(read, body) for name, body in found.items()}

    def _links(self, at: CommitId, depth: int, found: list[StoredCommit]) -> list[StoredCommit]:
        """Return the next commits of a chain, of which some are `found` already."""
        try:
            return self._stored(self._commits("chain", name=at, depth=depth))
        except NameNotFound:
            if not found:
                raise
            raise ObjectNotFound(self.address, at, needed_by=found[-1].id) from None

    def _commits(self, what: str, **asked: object) -> wire.PackedCommits:
        body = canonical.to_json_line(asked)
        packed = self._connection.ask(f"/v1/store/{what}", body, accepts=wire.PACKED)
        return self._believed(wire.unpack, packed, wire.PackedCommits)

    def _stored(self, answer: wire.PackedCommits) -> list[StoredCommit]:
        found: list[StoredCommit] = []
        for name, body, notes in answer.commits:
            self._check(name, body, ObjectKind.COMMIT)
            commit = self._believed(values.decode_commit, body)
            found.append(StoredCommit(name, commit, self._believed(wire.notes_from, notes)))
        return found

    def _asked(self, what: str, kind: type[T], **asked: object) -> T:
        answer = self._connection.ask(f"/v1/store/{what}", canonical.to_json_line(asked))
        return self._believed(wire.read_json, answer, kind)

    def _told(self, what: str, kind: type[T]) -> T:
        answer = self._connection.ask(f"/v1/store/{what}", method="GET")
        return self._believed(wire.read_json, answer, kind)

    def _rest(self, wanted: list[str], asked: int) -> list[str]:
        if not 0 < asked <= len(wanted):
            raise self._odd(f"to {asked} of {len(wanted)} names")
        return wanted[asked:]

    def _check(self, name: str, body: bytes, *kinds: ObjectKind) -> None:
        """Raise ObjectCorrupted where these are not the bytes of this name."""
        self._same(name, *(name_of(kind, body) for kind in kinds))

    def _checked(self, name: ArtifactRef, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield parts of raw bytes; after the last, raise ObjectCorrupted if they are others."""
        hasher = blake3(canonical.RAW)
        for part in parts:
            hasher.update(part)
            yield part
        self._same(name, f"art-{hasher.hexdigest()}")

    def _same(self, name: str, *found: str) -> None:
        """Raise ObjectCorrupted where what came has another name, and does not stand in for it."""
        if name in found or self._stands_in(name, found):
            return
        self._tombstones = self.tombstones()
        if not self._stands_in(name, found):
            reason = f"what came has the name {found[0]}"
            raise ObjectCorrupted(self.address, name, reason=reason)

    def _stands_in(self, name: str, found: Container[str]) -> bool:
        stone = self._tombstones.get(name)
        return stone is not None and stone.stand_in in found

    def _believed(self, read: Callable[P, T], *data: P.args, **more: P.kwargs) -> T:
        """Read what came. Raises StoreError where it is something else."""
        try:
            return read(*data, **more)
        except (ValueError, RecursionError) as error:
            raise self._odd(f"what cannot be read ({error})") from None

    def _odd(self, what: str) -> StoreError:
        return StoreError(self.address, f"answers {what}: is it a Harken service?")


def _full(names: Iterable[str]) -> list[str]:
    """Return the names that are full ones, each once: no others are there."""
    return [name for name in dict.fromkeys(names) if _FULL.fullmatch(name)]


def _longer(beginning: str) -> list[str]:
    """Return the beginnings that are one step longer, sorted, with which all names go on."""
    for prefix in ("art-", "ctx-"):
        if beginning.startswith(prefix):
            return [beginning + digit for digit in _DIGITS]
    return [prefix for prefix in ("art-", "ctx-") if prefix.startswith(beginning)]


def _slices(names: Iterable[str]) -> Iterator[list[str]]:
    left = iter(names)
    while some := list(islice(left, wire.MOST_NAMES)):
        yield some
