"""The store as a whole over HTTP: export, statistics, retention, garbage collection and purges.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import Response

from harken.core import canonical
from harken.core.commits import ArtifactRef
from harken.service.body import Json, RequestBody
from harken.service.dependencies import WRITE_DEPENDENCIES, OpenStore, StreamLimiter
from harken.service.openapi import operation
from harken.service.streaming import join_pieces, stream_response
from harken.store.base import GcResult, StoredObject, StoreStats, Tombstone
from harken.store.remote import wire

routes = APIRouter(prefix="/v1/store", tags=["store"])


@routes.get("/raw/{name}", **operation(names=True))
async def raw(store: OpenStore, streams: StreamLimiter, name: str) -> Response:
    """Give raw bytes, however many they are."""
    return await stream_response(lambda: store.read_chunks(ArtifactRef(name)), streams, wire.BYTES)


@routes.get("/things", **operation())
async def things(store: OpenStore, streams: StreamLimiter) -> Response:
    """Give everything that is there, what is needed before what needs it, as a stream of frames."""
    return await stream_response(
        lambda: join_pieces(_frames(store.iter_objects())), streams, wire.BYTES
    )


@routes.get("/stats", **operation(StoreStats))
def stats(store: OpenStore) -> Json:
    """Say how much is there."""
    return Json(store.stats())


@routes.get("/kept", **operation(wire.RetentionBody))
def kept(store: OpenStore) -> Json:
    """List what is kept otherwise than usual."""
    policies = store.retention()
    return Json(wire.RetentionBody({name: policies[name] for name in policies}))


@routes.post(
    "/keep",
    **operation(wire.DoneBody, wire.RetentionBody, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def keep(store: OpenStore, body: RequestBody) -> Json:
    """Say how long commits and artifacts are kept; null: as all others."""
    fields = body.json(wire.RetentionBody).kept
    store.set_retention({ArtifactRef(name): policy for name, policy in fields.items()})
    return Json(wire.DoneBody())


@routes.post("/collect", **operation(GcResult, wire.Collection), dependencies=WRITE_DEPENDENCIES)
def collect(store: OpenStore, body: RequestBody) -> Json:
    """Remove what nothing needs, and what has expired. It may be cut off, and asked for again."""
    fields = body.json(wire.Collection)
    result = store.collect(
        fields.roots, now=fields.now, grace_s=fields.grace_s, dry_run=fields.dry_run
    )
    return Json(result)


@routes.post(
    "/purge",
    **operation(wire.DoneBody, wire.PlainPurge, names=True, takes_packed=True),
    dependencies=WRITE_DEPENDENCIES,
)
def purge(store: OpenStore, body: RequestBody) -> Json:
    """Put other content in the place of things, for good."""
    if body.is_packed:
        packed = wire.unpack(body.data, wire.PackedPurge)
        store.purge(packed.stand_ins, wire.read_json(packed.tombstone, Tombstone))
    else:
        fields = body.json(wire.PlainPurge)
        values = {
            name: canonical.to_canonical_bytes(value) for name, value in fields.stand_ins.items()
        }
        store.purge({**values, **fields.raw}, fields.tombstone)
    return Json(wire.DoneBody())


@routes.get("/tombstones", **operation(wire.Tombstones))
def tombstones(store: OpenStore) -> Json:
    """List what was purged."""
    return Json(wire.Tombstones(dict(store.tombstones())))


def _frames(things: Iterator[StoredObject]) -> Iterator[bytes]:
    for stored_object in things:
        yield wire.encode_frame(wire.PackedThing(stored_object.kind, stored_object.body))
    yield wire.END
