"""`RemoteStore`: a client of a store that another process serves.

Responses are not trusted: bodies are hashed, chains are followed, and only valid names are
accepted.

Source: docs/formats/service.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar
from urllib.parse import quote

from blake3 import blake3

from harken.core import canonical, structs
from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash, HeadName
from harken.errors import (
    BranchConflict,
    NameNotFound,
    NotesConflict,
    ObjectCorrupted,
    ObjectNotFound,
    StoreError,
)
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    Progress,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import compute_name, parse_needs
from harken.store.branches import check_branch, check_head_name, check_source
from harken.store.changes import ChangePage
from harken.store.remote import wire
from harken.store.remote.connection import ServiceConnection

LOCAL = "http://localhost"
_FULL_NAME_PATTERN = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")
_POSTED_LISTS = {"children", "newest", "named", "branches", "heads", "labelled"}
_MAX_RESTARTS = 10
"""A list begins again if the row of a position was removed."""
_COLLECT_TIMEOUT_S = 3600.0
"""The timeout of a collection or a purge, which read everything in the store."""
P = ParamSpec("P")
T = TypeVar("T")


class _Page(Protocol):
    @property
    def next(self) -> str | None: ...


AnyPage = TypeVar("AnyPage", bound=_Page)


@check_arguments
class RemoteStore:
    """A client of the store at `url` (with a `token`) or at a Unix `socket`.

    Threads may share it. Broken connections are retried for about `patience_s`: every request may
    be repeated. `ca_file` and `project`: as for `ServiceConnection`. Raises ConfigError; all
    methods raise StoreError if the service is unavailable.
    """

    page_limit = wire.MAX_NAMES
    """The limit of rows in a response to a list, which is read in pages."""

    def __init__(
        self,
        url: str = LOCAL,
        *,
        token: str = "",
        socket: str | Path | None = None,
        patience_s: float = 1.0,
        ca_file: str | Path | None = None,
        project: str = "",
    ) -> None:
        self._connection = ServiceConnection(
            url,
            token=token,
            socket=socket,
            patience_s=patience_s,
            ca_file=ca_file,
            project=project,
        )
        self.address = self._connection.address
        self._tombstones: dict[Name, Tombstone] = {}
        """Cached on demand; the service may have more."""

    def write(self, batch: WriteBatch) -> None:
        try:
            self._connection.request("/v1/store/write", wire.encode_batch(batch), sends=wire.PACKED)
        # This may be our own move: the response was lost, and the request was repeated.
        except BranchConflict:
            if any(self.find_branch(name) != move.to for name, move in batch.moves.items()):
                raise
            self.write(structs.replace(batch, moves={}))

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        bodies = self._read_bodies("objects", names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): body for name, body in bodies.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        return self._read_decoded("deltas", names, ObjectKind.DELTA, values.decode_delta)

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        return self._read_decoded("sequences", names, ObjectKind.SEQUENCE, values.decode_sequence)

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        bodies = self._read_bodies("raws", names, ObjectKind.RAW)
        return {ArtifactRef(name): body for name, body in bodies.items()}

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        if not _FULL_NAME_PATTERN.fullmatch(name):
            raise ObjectNotFound(self.address, name)
        parts = self._connection.stream(f"/v1/store/raw/{name}")
        first = next(parts, b"")
        return self._iter_verified(name, chain([first], parts))

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        if not _FULL_NAME_PATTERN.fullmatch(name):
            raise ObjectNotFound(self.address, name)
        pages = self._iter_pages(f"chunks/{name}", wire.ChunkList)
        return [chunk for page in pages for chunk in page.chunks]

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        derived: dict[str, ArtifactRef] = {}
        for batch in _slices(keys):
            derived |= self._post("derived", wire.Derived, keys=batch).derived
        return derived

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        commits: dict[CommitId, StoredCommit] = {}
        remaining = _valid_names(names)
        while remaining:
            batch = remaining[: wire.MAX_NAMES]
            response = self._read_commits("commits", names=batch)
            by_id = {commit.id: commit for commit in self._decode_commits(response)}
            commits |= {name: by_id[name] for name in map(CommitId, batch) if name in by_id}
            remaining = self._remaining_names(remaining, response.asked)
        return commits

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        commits: list[StoredCommit] = []
        next_name: CommitId | None = name
        while next_name is not None:
            depth_left = wire.MAX_NAMES if depth is None else max(depth - len(commits), 0)
            links = self._read_chain(next_name, min(depth_left, wire.MAX_NAMES), commits)[
                :depth_left
            ]
            for stored in links:
                if next_name is None or stored.id != next_name:
                    raise ObjectCorrupted(self.address, name, reason="its chain leads elsewhere")
                commits.append(stored)
                next_name = stored.commit.parent
            if not links or len(commits) == depth:
                break
        return commits

    def children(self, name: CommitId) -> list[CommitId]:
        pages = self._iter_pages("children", wire.CommitList, name=name)
        return [*dict.fromkeys(child for page in pages for child in page.commits)]

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        return self._post("latest", wire.OptionalCommit, principal=principal, at=at).id

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        if before is not None and not self.commits([before]):
            raise NameNotFound("commit", before, self.newest_commits(3))
        if limit < 1:
            return []
        names: dict[CommitId, None] = {}
        size = min(limit, self.page_limit)
        for page in self._iter_pages("newest", wire.CommitList, after=before or "", limit=size):
            names |= dict.fromkeys(page.commits)
            if len(names) >= limit:
                break
        return [*names][:limit]

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        names: list[CommitId | ArtifactRef] = []
        if limit < 1:
            return names
        size = min(limit, self.page_limit)
        for page in self._iter_pages("named", wire.NameList, beginning=beginning, limit=size):
            if not all(name.startswith(beginning) for name in page.names):
                raise self._invalid_response("names that were not requested")
            names += map(ArtifactRef, page.names)
            if len(names) >= limit:
                break
        return names[:limit]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        try:
            self._post("annotate", wire.DoneBody, name=name, notes=notes, was=was)
        # This may be our own write: the response was lost, and the request was repeated.
        except NotesConflict:
            if self.commits([name])[name].notes != notes:
                raise

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        pages = self._iter_pages("branches", wire.BranchList, prefix=prefix)
        return {name: head for page in pages for name, head in page.branches.items()}

    def find_branch(self, name: str) -> CommitId | None:
        return self._post("branches", wire.BranchList, name=name).branches.get(name)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_branch(name)
        try:
            self._post("move-branch", wire.DoneBody, name=name, to=to, expected=expected)
        # This may be our own move: the response was lost, and the request was repeated.
        except BranchConflict as error:
            if to is None or error.actual != to:
                raise

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        pages = self._iter_pages("heads", wire.HeadList, prefix=prefix)
        return {name: head for page in pages for name, head in page.heads.items()}

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_head_name(name)
        try:
            self._post("move-head", wire.DoneBody, name=name, to=to, expected=expected)
        # As for a branch: this may be our own move.
        except BranchConflict as error:
            if error.actual != to:
                raise

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        for name in heads:
            check_source(name)
        self._post("set-heads", wire.DoneBody, heads=dict(heads))

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        labels: dict[str, dict[CommitId, None]] = {}
        for page in self._iter_pages("labelled", wire.LabelList, label=label):
            for text, names in page.labels.items():
                labels.setdefault(text, {}).update(dict.fromkeys(names))
        return {text: [*names] for text, names in labels.items()}

    def iter_objects(self) -> Iterator[StoredObject]:
        frames = wire.iter_frames(self._connection.stream("/v1/store/things"))
        while (data := self._decode_response(next, frames, None)) is not None:
            obj = self._decode_response(wire.unpack, data, wire.PackedObject)
            name = self._decode_response(compute_name, obj.kind, obj.body)
            needs = self._decode_response(parse_needs, obj.kind, obj.body)
            yield StoredObject(obj.kind, name, obj.body, needs)

    def stats(self) -> StoreStats:
        return self._get("stats", StoreStats)

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        self._post("keep", wire.DoneBody, kept=dict(names))

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        pages = self._iter_pages("kept", wire.RetentionList)
        return {ArtifactRef(name): policy for page in pages for name, policy in page.kept.items()}

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        request = wire.Collection(now, [*roots], grace_s, dry_run)
        response = self._connection.request(
            "/v1/store/collect", canonical.to_json_line(request), silence_s=_COLLECT_TIMEOUT_S
        )
        return self._decode_response(wire.read_json, response, GcResult)

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        body = wire.pack(wire.PackedPurge(dict(stand_ins), canonical.to_json_line(tombstone)))
        self._connection.request(
            "/v1/store/purge", body, sends=wire.PACKED, silence_s=_COLLECT_TIMEOUT_S
        )

    def tombstones(self) -> dict[Name, Tombstone]:
        pages = self._iter_pages("tombstones", wire.Tombstones)
        return {name: stone for page in pages for name, stone in page.tombstones.items()}

    def changes(self, after: int = 0, limit: int = 1000) -> ChangePage:
        """As `ChangeStore.changes`: those that the token may read."""
        path = f"changes?after={after}&limit={max(1, min(limit, wire.MAX_NAMES))}"
        response = self._connection.request(f"/v1/{path}", method="GET")
        return self._decode_response(wire.read_json, response, ChangePage)

    def notes_digests(self) -> list[str]:
        """Return the digests of the notes of all commits: see `harken.store.notes`."""
        return self._get("notes-digests", wire.NotesDigests).digests

    def iter_logs(self) -> Iterator[wire.ListedLog]:
        """Yield the logs on the service, sorted by name."""
        last = ""
        while True:
            path = f"/v1/logs?after={quote(last, safe='')}&limit={self.page_limit}"
            response = self._connection.request(path, method="GET")
            page = self._decode_response(wire.read_json, response, wire.LogList)
            for log in page.logs:
                if log.name <= last:
                    raise self._invalid_response("logs that are not sorted")
                last = log.name
                yield log
            if page.next is None:
                return
            if page.next < last or not (page.logs or page.next > last):
                raise self._invalid_response("the same page twice")
            last = page.next

    def log_end(self, name: str, limit_bytes: int | None = None) -> wire.LogEndBody:
        """Return the end of a session's log on the service, which is 0 if there is none.

        limit_bytes: the end of these first bytes of it.
        """
        limit = "" if limit_bytes is None else f"?to={limit_bytes}"
        response = self._connection.request(f"/v1/logs/{quote(name, safe='')}{limit}", method="GET")
        return self._decode_response(wire.read_json, response, wire.LogEndBody)

    def read_log(self, name: str, start: int, stop: int) -> bytes:
        """Return complete lines of a log between two offsets, the first ones if there are many.

        The lines are not verified. Empty if no group of lines is complete.
        """
        path = f"/v1/logs/{quote(name, safe='')}/lines?from={start}&to={stop}"
        lines = self._connection.request(path, method="GET", accepts=wire.BYTES)
        if len(lines) > stop - start or (lines and not lines.endswith(b"\n")):
            raise self._invalid_response("other lines than were requested")
        return lines

    def append_log(self, name: str, at: int, lines: bytes) -> wire.LogEndBody:
        """Append complete lines to a log at offset `at`, except those that it has already.

        On return they are durable on the service. Raises LogError if the log has other lines, or
        another program writes it; StoreError.
        """
        path = f"/v1/logs/{quote(name, safe='')}?from={at}"
        response = self._connection.request(path, lines, sends=wire.BYTES)
        return self._decode_response(wire.read_json, response, wire.LogEndBody)

    def close(self) -> None:
        self._connection.close()

    def _read_bodies(
        self, endpoint: str, names: Iterable[str], *kinds: ObjectKind
    ) -> dict[str, bytes]:
        """Read the bodies of the names that exist, and verify each."""
        bodies: dict[str, bytes] = {}
        remaining = _valid_names(names)
        while remaining:
            body = canonical.to_json_line({"names": remaining[: wire.MAX_NAMES]})
            encoded = self._connection.request(f"/v1/store/{endpoint}", body, accepts=wire.PACKED)
            response = self._decode_response(wire.unpack, encoded, wire.PackedBodies)
            for name in remaining[: response.asked]:
                if name in response.found:
                    bodies[name] = response.found[name]
                    self._verify(name, bodies[name], *kinds)
            remaining = self._remaining_names(remaining, response.asked)
        return bodies

    def _read_decoded(
        self,
        endpoint: str,
        names: Iterable[ArtifactRef],
        kind: ObjectKind,
        decode: Callable[[bytes], T],
    ) -> dict[ArtifactRef, T]:
        bodies = self._read_bodies(endpoint, names, kind)
        return {
            ArtifactRef(name): self._decode_response(decode, body) for name, body in bodies.items()
        }

    def _read_chain(
        self, name: CommitId, depth: int, commits: list[StoredCommit]
    ) -> list[StoredCommit]:
        """Return the next commits of a chain. `found` are those before."""
        try:
            return self._decode_commits(self._read_commits("chain", name=name, depth=depth))
        except NameNotFound:
            if not commits:
                raise
            raise ObjectNotFound(self.address, name, needed_by=commits[-1].id) from None

    def _read_commits(self, endpoint: str, **query: object) -> wire.PackedCommits:
        body = canonical.to_json_line(query)
        response = self._connection.request(f"/v1/store/{endpoint}", body, accepts=wire.PACKED)
        return self._decode_response(wire.unpack, response, wire.PackedCommits)

    def _decode_commits(self, response: wire.PackedCommits) -> list[StoredCommit]:
        stored: list[StoredCommit] = []
        for name, body, notes in response.commits:
            self._verify(name, body, ObjectKind.COMMIT)
            commit = self._decode_response(values.decode_commit, body)
            stored.append(
                StoredCommit(name, commit, self._decode_response(wire.decode_notes, notes))
            )
        return stored

    def _post(self, endpoint: str, response_type: type[T], **query: object) -> T:
        response = self._connection.request(f"/v1/store/{endpoint}", canonical.to_json_line(query))
        return self._decode_response(wire.read_json, response, response_type)

    def _iter_pages(
        self, endpoint: str, page_type: type[AnyPage], **query: object
    ) -> Iterator[AnyPage]:
        """Yield the pages of a list. Raises StoreError, also if a page does not follow."""
        is_post = endpoint in _POSTED_LISTS
        after = str(query.pop("after", ""))
        limit = query.pop("limit", self.page_limit)
        passed, restarts = {after}, 0
        while True:
            if is_post:
                page = self._post(endpoint, page_type, after=after, limit=limit, **query)
            else:
                position = f"&after={quote(after, safe='')}" if after else ""
                page = self._get(f"{endpoint}?limit={limit}{position}", page_type)
            yield page
            if page.next is None:
                return
            if page.next in passed:
                passed, restarts = set(), restarts + 1
            if page.next == after or restarts > _MAX_RESTARTS:
                raise self._invalid_response("the same page twice")
            passed.add(after := page.next)

    def _get(self, endpoint: str, response_type: type[T]) -> T:
        response = self._connection.request(f"/v1/store/{endpoint}", method="GET")
        return self._decode_response(wire.read_json, response, response_type)

    def _remaining_names(self, names: list[str], count: int) -> list[str]:
        if not 0 < count <= len(names):
            raise self._invalid_response(f"to {count} of {len(names)} names")
        return names[count:]

    def _verify(self, name: str, body: bytes, *kinds: ObjectKind) -> None:
        """Raise ObjectCorrupted if the body does not match the name."""
        self._verify_name(name, *(compute_name(kind, body) for kind in kinds))

    def _iter_verified(self, name: ArtifactRef, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield chunks of raw bytes. After the last, raise ObjectCorrupted if they do not match."""
        hasher = blake3(canonical.RAW_DOMAIN)
        for part in parts:
            hasher.update(part)
            yield part
        self._verify_name(name, f"art-{hasher.hexdigest()}")

    def _verify_name(self, name: str, *computed: str) -> None:
        """Raise ObjectCorrupted if the computed names differ, and none is the stand-in."""
        if name in computed or self._stands_in(name, computed):
            return
        self._tombstones = self.tombstones()
        if not self._stands_in(name, computed):
            reason = f"what came has the name {computed[0]}"
            raise ObjectCorrupted(self.address, name, reason=reason)

    def _stands_in(self, name: str, computed: Container[str]) -> bool:
        tombstone = self._tombstones.get(name)
        return tombstone is not None and tombstone.stand_in in computed

    def _decode_response(self, decode: Callable[P, T], *data: P.args, **options: P.kwargs) -> T:
        """Decode a response. Raises StoreError if it is invalid."""
        try:
            return decode(*data, **options)
        except (ValueError, RecursionError) as error:
            raise self._invalid_response(f"an invalid body ({error})") from None

    def _invalid_response(self, problem: str) -> StoreError:
        return StoreError(self.address, f"answers {problem}: is it a Harken service?")


def _valid_names(names: Iterable[str]) -> list[str]:
    """Return the distinct full names. No other names can exist."""
    return [name for name in dict.fromkeys(names) if _FULL_NAME_PATTERN.fullmatch(name)]


def _slices(names: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(names)
    while batch := list(islice(remaining, wire.MAX_NAMES)):
        yield batch
