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
from harken.service.dependencies import WRITE_DEPENDENCIES, OpenStore, PageLimit, StreamLimiter
from harken.service.openapi import operation
from harken.service.streaming import join_pieces, stream_response
from harken.store.base import GcResult, StoredObject, StoreStats, Tombstone
from harken.store.remote import wire
from harken.store.remote.paging import cut_mapping
from harken.store.remote.wire import MAX_NAMES

routes = APIRouter(prefix="/v1/store", tags=["store"])


@routes.get("/raw/{name}", **operation(names=True))
async def raw(store: OpenStore, streams: StreamLimiter, name: str) -> Response:
    """Stream the bytes of a raw artifact or a file."""
    return await stream_response(lambda: store.read_chunks(ArtifactRef(name)), streams, wire.BYTES)


@routes.get("/chunks/{name}", **operation(wire.ChunkList, names=True))
def chunks(store: OpenStore, name: str, after: int = 0, limit: PageLimit = MAX_NAMES) -> Json:
    """List the raw artifacts that are the chunks of a file. Raw bytes are their own chunk.

    `after`: the number of chunks that are skipped.
    """
    names = store.chunk_names(ArtifactRef(name))
    end = max(after, 0) + limit
    return Json(wire.ChunkList(names[max(after, 0) : end], str(end) if end < len(names) else None))


@routes.get("/things", **operation())
async def things(store: OpenStore, streams: StreamLimiter) -> Response:
    """Stream all objects as frames, each object after the objects that it names."""
    return await stream_response(
        lambda: join_pieces(_frames(store.iter_objects())), streams, wire.BYTES
    )


@routes.get("/stats", **operation(StoreStats))
def stats(store: OpenStore) -> Json:
    """Return object counts and sizes of the store."""
    return Json(store.stats())


@routes.get("/kept", **operation(wire.RetentionList))
def kept(store: OpenStore, after: str = "", limit: PageLimit = MAX_NAMES) -> Json:
    """List the retention policies of commits and artifacts."""
    page = cut_mapping(store.retention(), after, limit)
    return Json(wire.RetentionList(dict(page.rows.items()), page.next))


@routes.post(
    "/keep",
    **operation(wire.DoneBody, wire.RetentionBody, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def keep(store: OpenStore, body: RequestBody) -> Json:
    """Set the retention policies of commits and artifacts. Null restores the default."""
    fields = body.json(wire.RetentionBody).kept
    store.set_retention({ArtifactRef(name): policy for name, policy in fields.items()})
    return Json(wire.DoneBody())


@routes.post("/collect", **operation(GcResult, wire.Collection), dependencies=WRITE_DEPENDENCIES)
def collect(store: OpenStore, body: RequestBody) -> Json:
    """Remove unreferenced and expired objects. An interrupted request may be repeated."""
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
    """Replace objects by stand-ins, permanently."""
    if body.is_packed:
        purge = wire.unpack(body.data, wire.PackedPurge)
        store.purge(purge.stand_ins, wire.read_json(purge.tombstone, Tombstone))
    else:
        fields = body.json(wire.PlainPurge)
        values = {
            name: canonical.to_canonical_bytes(value) for name, value in fields.stand_ins.items()
        }
        store.purge({**values, **fields.raw}, fields.tombstone)
    return Json(wire.DoneBody())


@routes.get("/tombstones", **operation(wire.Tombstones))
def tombstones(store: OpenStore, after: str = "", limit: PageLimit = MAX_NAMES) -> Json:
    """List the tombstones of purged objects."""
    page = cut_mapping(store.tombstones(), after, limit)
    return Json(wire.Tombstones(page.rows, page.next))


def _frames(objects: Iterator[StoredObject]) -> Iterator[bytes]:
    for stored_object in objects:
        yield wire.encode_frame(wire.PackedObject(stored_object.kind, stored_object.body))
    yield wire.END
