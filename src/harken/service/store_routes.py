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
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry
from harken.service.body import Given, Json
from harken.service.dependencies import CHANGES, Open
from harken.service.openapi import operation
from harken.store.base import StoredCommit
from harken.store.remote import wire

routes = APIRouter(prefix="/v1/store", tags=["store"])
_BATCH_NAMES = 500
T = TypeVar("T")
Depth = Annotated[int, msgspec.Meta(ge=0, le=wire.MOST_NAMES)]
Listed = Annotated[int, msgspec.Meta(ge=0, le=wire.MOST_LISTED)]


class AskedKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys that say how something was made."""

    keys: wire.Names


class AskedChain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit, and how many of its chain are wanted."""

    name: CommitId
    depth: Depth = wire.MOST_NAMES


class AskedName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The full name of a commit."""

    name: CommitId


class AskedLatest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A principal, and a time (RFC 3339)."""

    principal: str
    at: str


class AskedNewest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    limit: Listed = 20


class AskedNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How names begin, and how many."""

    beginning: str
    limit: Listed = 20


class AskedLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label; null: all."""

    label: str | None = None


class NewNotesOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a commit may change, whole."""

    name: CommitId
    notes: CommitNotes
    was: CommitNotes | None = None
    """What they must be now; null: whatever they are."""


class Objects(msgspec.Struct, frozen=True):
    """Parts and messages of the first `asked` names: ask again for the rest."""

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


class KnownCommit(msgspec.Struct, frozen=True):
    """A commit, and what of it may change."""

    id: CommitId
    commit: Commit
    notes: CommitNotes


class KnownCommits(msgspec.Struct, frozen=True):
    """Commits and their notes, of the first `asked` names or links."""

    commits: list[KnownCommit]
    asked: int


@routes.post(
    "/write",
    **operation(wire.DoneBody, wire.PlainBatch, names=True, takes_packed=True),
    dependencies=CHANGES,
)
def write(store: Open, given: Given) -> Json:
    """Write a batch, all or nothing; once answered it is durable."""
    if given.is_packed:
        batch = wire.batch_from(given.data)
    else:
        batch = wire.batch_of(given.json(wire.PlainBatch))
    store.write(batch)
    return Json(wire.DoneBody())


@routes.post("/objects", **operation(Objects, wire.AskedNames, packed=True))
def objects(store: Open, given: Given) -> Response:
    """Give parts and messages."""
    names = given.json(wire.AskedNames).names
    found, asked = _read_some(names, store.objects, len)
    return given.answer(
        lambda: wire.PackedFound(found, asked),
        lambda: Objects(wire.values_of(found), asked),
    )


@routes.post("/deltas", **operation(Deltas, wire.AskedNames, packed=True))
def deltas(store: Open, given: Given) -> Response:
    """Give deltas."""
    names = given.json(wire.AskedNames).names
    found, asked = _read_some(names, store.deltas, lambda entries: 200 * len(entries))
    return given.answer(
        lambda: wire.PackedFound({k: commits.encode_delta(v)[1] for k, v in found.items()}, asked),
        lambda: Deltas(found, asked),
    )


@routes.post("/sequences", **operation(Sequences, wire.AskedNames, packed=True))
def sequences(store: Open, given: Given) -> Response:
    """Give sequences."""
    names = given.json(wire.AskedNames).names
    found, asked = _read_some(names, store.sequences, lambda refs: 70 * len(refs))
    return given.answer(
        lambda: wire.PackedFound(
            {k: commits.encode_sequence(v)[1] for k, v in found.items()}, asked
        ),
        lambda: Sequences(found, asked),
    )


@routes.post("/commits", **operation(KnownCommits, wire.AskedNames, packed=True))
def known(store: Open, given: Given) -> Response:
    """Give commits."""
    names = given.json(wire.AskedNames).names
    found, asked = _read_some(names, store.commits, lambda _: 1000)
    return _build_response(given, [found[name] for name in names if name in found], asked)


@routes.post("/chain", **operation(KnownCommits, AskedChain, names=True, packed=True))
def chain(store: Open, given: Given) -> Response:
    """Give a commit and those before it, newest first."""
    asked = given.json(AskedChain)
    found = store.chain(asked.name, asked.depth)
    return _build_response(given, found, len(found))


@routes.post("/children", **operation(wire.CommitList, AskedName))
def children(store: Open, given: Given) -> Json:
    """List the commits whose parent this is, oldest first."""
    return Json(wire.CommitList(store.children(given.json(AskedName).name)))


@routes.post("/latest", **operation(wire.MaybeCommit, AskedLatest))
def latest(store: Open, given: Given) -> Json:
    """Give a principal's last commit at or before a time; null where it has none."""
    asked = given.json(AskedLatest)
    return Json(wire.MaybeCommit(store.latest_commit(asked.principal, asked.at)))


@routes.post("/newest", **operation(wire.CommitList, AskedNewest))
def newest(store: Open, given: Given) -> Json:
    """List the commits that were written last, the last first."""
    return Json(wire.CommitList(store.newest_commits(given.json(AskedNewest).limit)))


@routes.post("/named", **operation(wire.NameList, AskedNamed))
def list_names(store: Open, given: Given) -> Json:
    """List the names of commits and artifacts that begin so, sorted."""
    asked = given.json(AskedNamed)
    return Json(wire.NameList([*store.names_with_prefix(asked.beginning, asked.limit)]))


@routes.post("/annotate", **operation(wire.DoneBody, NewNotesOf, names=True), dependencies=CHANGES)
def annotate(store: Open, given: Given) -> Json:
    """Replace what of a commit may change."""
    asked = given.json(NewNotesOf)
    store.update_notes(asked.name, asked.notes, was=asked.was)
    return Json(wire.DoneBody())


@routes.post("/labelled", **operation(wire.LabelList, AskedLabel))
def labelled(store: Open, given: Given) -> Json:
    """List labels and the commits that have them, oldest first."""
    return Json(wire.LabelList(store.commits_by_label(given.json(AskedLabel).label)))


@routes.post("/derived", **operation(wire.Derived, AskedKeys))
def derived(store: Open, given: Given) -> Json:
    """Give what was derived under these keys and is still there."""
    return Json(wire.Derived(store.find_derived(given.json(AskedKeys).keys)))


def _read_some(
    names: list[str],
    read: Callable[[list[Any]], Mapping[Any, T]],
    size: Callable[[T], int],
) -> tuple[dict[str, T], int]:
    """Read the objects of as many names as fit into a response; return them and that number."""
    found: dict[str, T] = {}
    asked = size_bytes = 0
    while asked < len(names) and size_bytes < wire.ANSWER_BYTES:
        batch = read(names[asked : asked + _BATCH_NAMES])
        found.update(batch)
        size_bytes += sum(map(size, batch.values()))
        asked += _BATCH_NAMES
    return found, min(asked, len(names))


def _build_response(given: Given, stored: list[StoredCommit], asked: int) -> Response:
    return given.answer(
        lambda: wire.PackedCommits(wire.packed_commits(stored), asked),
        lambda: KnownCommits(
            [
                KnownCommit(stored_commit.id, stored_commit.commit, stored_commit.notes)
                for stored_commit in stored
            ],
            asked,
        ),
    )
