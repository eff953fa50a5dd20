"""The store interface over HTTP, one route per method, as used by `RemoteStore`.

All routes are POST requests with a JSON object, because there may be many names and texts of any
kind. Stored objects are JSON values, or in MessagePack the canonical bytes that are hashed.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter
from fastapi.responses import Response

from harken.core import commits
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, HeadName
from harken.service.body import Json, RequestBody
from harken.service.dependencies import WRITE_DEPENDENCIES, BodyLimit, OpenStore
from harken.service.openapi import operation
from harken.store.base import StoredCommit
from harken.store.notes import compute_notes_digests, iter_encoded_notes
from harken.store.remote import wire
from harken.store.remote.paging import (
    cut_labels,
    cut_mapping,
    cut_sequence,
    list_names,
    list_newest,
)

routes = APIRouter(prefix="/v1/store", tags=["store"])
_BATCH_NAMES = 500
T = TypeVar("T")
Depth = Annotated[int, msgspec.Meta(ge=0, le=wire.MAX_NAMES)]


class KeysRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of derived artifacts."""

    keys: wire.Names


class ChainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit, and the maximal length of its chain."""

    name: CommitId
    depth: Depth = wire.MAX_NAMES


class PageRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list: the position before it (`next` of the previous one), and its limit."""

    after: str = ""
    limit: BodyLimit = wire.MAX_NAMES


class CommitNameRequest(PageRequest, frozen=True, kw_only=True):
    """The full name of a commit."""

    name: CommitId


class LatestRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A principal, and a time (RFC 3339)."""

    principal: str
    at: str


class NewestRequest(PageRequest, frozen=True, kw_only=True):
    """The maximal number of commits."""

    limit: BodyLimit = 20


class PrefixRequest(PageRequest, frozen=True, kw_only=True):
    """A prefix of names, and the maximal number of names."""

    beginning: str
    limit: BodyLimit = 20


class LabelRequest(PageRequest, frozen=True, kw_only=True):
    """A label. Null selects all labels."""

    label: str | None = None


class NotesReplacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The complete new notes of a commit."""

    name: CommitId
    notes: CommitNotes
    was: CommitNotes | None = None
    """The required current notes; null accepts any."""


class BranchMoveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move of the head of a branch. Null: the branch does not exist before, or afterwards."""

    name: str
    to: CommitId | None = None
    expected: CommitId | None = None
    """The required current head."""


class BranchQuery(PageRequest, frozen=True, kw_only=True):
    """The name of a branch, or the beginning of the names of branches. Empty: all branches."""

    prefix: str = ""
    name: str | None = None


class HeadQuery(PageRequest, frozen=True, kw_only=True):
    """The beginning of the names of heads. Empty: all heads."""

    prefix: str = ""


class HeadMoveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move of the head of a ticket or an imported file. Null: it is new."""

    name: HeadName
    to: ArtifactRef
    expected: ArtifactRef | None = None
    """The required current head."""


class HeadSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New heads of imported files by name. Null removes a head."""

    heads: dict[HeadName, ArtifactRef | None]


class RawBodies(msgspec.Struct, frozen=True):
    """Raw bytes, in base64, of the first `asked` names. Request the remaining names again."""

    found: dict[str, bytes]
    asked: int


class Objects(msgspec.Struct, frozen=True):
    """Parts and messages of the first `asked` names. Request the remaining names again."""

    found: dict[str, Any]
    asked: int


class Deltas(msgspec.Struct, frozen=True):
    """Deltas of the first `asked` names, their entries oldest first."""

    found: dict[str, list[DeltaEntry]]
    asked: int


class Sequences(msgspec.Struct, frozen=True):
    """Sequences of the first `asked` names."""

    found: dict[str, list[ArtifactRef]]
    asked: int


class CommitBody(msgspec.Struct, frozen=True):
    """A commit and its mutable notes."""

    id: CommitId
    commit: Commit
    notes: CommitNotes


class CommitBodies(msgspec.Struct, frozen=True):
    """Commits and their notes, of the first `asked` names or ancestors."""

    commits: list[CommitBody]
    asked: int


@routes.post(
    "/write",
    **operation(wire.DoneBody, wire.PlainBatch, names=True, takes_packed=True),
    dependencies=WRITE_DEPENDENCIES,
)
def write(store: OpenStore, body: RequestBody) -> Json:
    """Write a batch atomically. It is durable when the response arrives."""
    if body.is_packed:
        batch = wire.decode_batch(body.data)
    else:
        batch = wire.batch_from_json(body.json(wire.PlainBatch))
    store.write(batch)
    return Json(wire.DoneBody())


@routes.post("/objects", **operation(Objects, wire.NamesRequest, packed=True))
def objects(store: OpenStore, body: RequestBody) -> Response:
    """Return parts and messages."""
    names = body.json(wire.NamesRequest).names
    objects_by_name, name_count = _read_some(names, store.objects, len)
    return body.respond(
        lambda: wire.PackedBodies(objects_by_name, name_count),
        lambda: Objects(wire.decode_bodies(objects_by_name), name_count),
    )


@routes.post("/raws", **operation(RawBodies, wire.NamesRequest, packed=True))
def raws(store: OpenStore, body: RequestBody) -> Response:
    """Return raw bytes, without files of several chunks."""
    names = body.json(wire.NamesRequest).names
    raw_by_name, name_count = _read_some(names, store.raws, len)
    return body.respond(
        lambda: wire.PackedBodies(raw_by_name, name_count),
        lambda: RawBodies(raw_by_name, name_count),
    )


@routes.post("/deltas", **operation(Deltas, wire.NamesRequest, packed=True))
def deltas(store: OpenStore, body: RequestBody) -> Response:
    """Return deltas."""
    names = body.json(wire.NamesRequest).names
    deltas_by_name, name_count = _read_some(names, store.deltas, lambda entries: 200 * len(entries))
    return body.respond(
        lambda: wire.PackedBodies(
            {k: commits.encode_delta(v)[1] for k, v in deltas_by_name.items()}, name_count
        ),
        lambda: Deltas(deltas_by_name, name_count),
    )


@routes.post("/sequences", **operation(Sequences, wire.NamesRequest, packed=True))
def sequences(store: OpenStore, body: RequestBody) -> Response:
    """Return sequences."""
    names = body.json(wire.NamesRequest).names
    sequences_by_name, name_count = _read_some(names, store.sequences, lambda refs: 70 * len(refs))
    return body.respond(
        lambda: wire.PackedBodies(
            {k: commits.encode_sequence(v)[1] for k, v in sequences_by_name.items()}, name_count
        ),
        lambda: Sequences(sequences_by_name, name_count),
    )


@routes.post("/commits", **operation(CommitBodies, wire.NamesRequest, packed=True))
def known(store: OpenStore, body: RequestBody) -> Response:
    """Return commits."""
    names = body.json(wire.NamesRequest).names
    commits_by_name, name_count = _read_some(names, store.commits, lambda _: 1000)
    return _build_response(
        body, [commits_by_name[name] for name in names if name in commits_by_name], name_count
    )


@routes.post("/chain", **operation(CommitBodies, ChainRequest, names=True, packed=True))
def chain(store: OpenStore, body: RequestBody) -> Response:
    """Return a commit and its ancestors, newest first."""
    fields = body.json(ChainRequest)
    stored_commits = store.chain(fields.name, fields.depth)
    return _build_response(body, stored_commits, len(stored_commits))


@routes.post("/children", **operation(wire.CommitList, CommitNameRequest))
def children(store: OpenStore, body: RequestBody) -> Json:
    """List the children of a commit, oldest first."""
    fields = body.json(CommitNameRequest)
    page = cut_sequence(store.children(fields.name), fields.after, fields.limit)
    return Json(wire.CommitList(page.rows, page.next))


@routes.post("/latest", **operation(wire.OptionalCommit, LatestRequest))
def latest(store: OpenStore, body: RequestBody) -> Json:
    """Return the last commit of a principal at or before a time, or null."""
    fields = body.json(LatestRequest)
    return Json(wire.OptionalCommit(store.latest_commit(fields.principal, fields.at)))


@routes.post("/newest", **operation(wire.CommitList, NewestRequest))
def newest(store: OpenStore, body: RequestBody) -> Json:
    """List the most recently written commits, newest first."""
    fields = body.json(NewestRequest)
    page = list_newest(store, fields.after, fields.limit)
    return Json(wire.CommitList(page.rows, page.next))


@routes.post("/named", **operation(wire.NameList, PrefixRequest))
def named(store: OpenStore, body: RequestBody) -> Json:
    """List the names of commits and artifacts with this prefix, sorted."""
    fields = body.json(PrefixRequest)
    page = list_names(store, fields.beginning, fields.after, fields.limit)
    return Json(wire.NameList([*page.rows], page.next))


@routes.get("/notes-digests", **operation(wire.NotesDigests))
def notes_digests(store: OpenStore) -> Json:
    """Return hashes of the notes of all commits, in groups, to find notes that changed."""
    return Json(wire.NotesDigests(compute_notes_digests(iter_encoded_notes(store))))


@routes.post(
    "/annotate",
    **operation(wire.DoneBody, NotesReplacement, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def annotate(store: OpenStore, body: RequestBody) -> Json:
    """Replace the notes of a commit."""
    fields = body.json(NotesReplacement)
    store.update_notes(fields.name, fields.notes, was=fields.was)
    return Json(wire.DoneBody())


@routes.post("/branches", **operation(wire.BranchList, BranchQuery))
def branches(store: OpenStore, body: RequestBody) -> Json:
    """List the heads of branches: of one name, or with a prefix."""
    fields = body.json(BranchQuery)
    if fields.name is None:
        page = cut_mapping(store.branches(fields.prefix), fields.after, fields.limit)
        return Json(wire.BranchList(page.rows, page.next))
    head = store.find_branch(fields.name)
    return Json(wire.BranchList({} if head is None else {fields.name: head}))


@routes.post(
    "/move-branch",
    **operation(wire.DoneBody, BranchMoveRequest),
    dependencies=WRITE_DEPENDENCIES,
)
def move_branch(store: OpenStore, body: RequestBody) -> Json:
    """Move the head of a branch, if it is the expected one."""
    fields = body.json(BranchMoveRequest)
    store.move_branch(fields.name, fields.to, expected=fields.expected)
    return Json(wire.DoneBody())


@routes.post("/heads", **operation(wire.HeadList, HeadQuery))
def heads(store: OpenStore, body: RequestBody) -> Json:
    """List the heads of artifacts whose names have this prefix."""
    fields = body.json(HeadQuery)
    page = cut_mapping(store.heads(fields.prefix), fields.after, fields.limit)
    return Json(wire.HeadList(page.rows, page.next))


@routes.post(
    "/move-head",
    **operation(wire.DoneBody, HeadMoveRequest),
    dependencies=WRITE_DEPENDENCIES,
)
def move_head(store: OpenStore, body: RequestBody) -> Json:
    """Move the head of a ticket or an imported file, if it is the expected one."""
    fields = body.json(HeadMoveRequest)
    store.move_head(fields.name, fields.to, expected=fields.expected)
    return Json(wire.DoneBody())


@routes.post(
    "/set-heads",
    **operation(wire.DoneBody, HeadSetting),
    dependencies=WRITE_DEPENDENCIES,
)
def set_heads(store: OpenStore, body: RequestBody) -> Json:
    """Set or remove the heads of imported files."""
    store.set_heads(body.json(HeadSetting).heads)
    return Json(wire.DoneBody())


@routes.post("/labelled", **operation(wire.LabelList, LabelRequest))
def labelled(store: OpenStore, body: RequestBody) -> Json:
    """List labels with their commits, oldest first."""
    fields = body.json(LabelRequest)
    page = cut_labels(store.commits_by_label(fields.label), fields.after, fields.limit)
    return Json(wire.LabelList(page.rows, page.next))


@routes.post("/derived", **operation(wire.Derived, KeysRequest))
def derived(store: OpenStore, body: RequestBody) -> Json:
    """Return the derived artifacts of these keys that still exist."""
    return Json(wire.Derived(store.find_derived(body.json(KeysRequest).keys)))


def _read_some(
    names: list[str],
    read: Callable[[list[Any]], Mapping[Any, T]],
    size: Callable[[T], int],
) -> tuple[dict[str, T], int]:
    """Read the objects of as many names as fit into a response; return them and that number."""
    result: dict[str, T] = {}
    name_count = size_bytes = 0
    while name_count < len(names) and size_bytes < wire.MAX_RESPONSE_BYTES:
        batch = read(names[name_count : name_count + _BATCH_NAMES])
        result.update(batch)
        size_bytes += sum(map(size, batch.values()))
        name_count += _BATCH_NAMES
    return result, min(name_count, len(names))


def _build_response(body: RequestBody, stored: list[StoredCommit], name_count: int) -> Response:
    return body.respond(
        lambda: wire.PackedCommits(wire.encode_commits(stored), name_count),
        lambda: CommitBodies(
            [
                CommitBody(stored_commit.id, stored_commit.commit, stored_commit.notes)
                for stored_commit in stored
            ],
            name_count,
        ),
    )
