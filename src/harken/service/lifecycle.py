"""What is in the store as a whole, over HTTP: bytes however many, all things, how much there is.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import Response

from harken.core.commits import ArtifactRef
from harken.service.bodies import Json
from harken.service.description import operation
from harken.service.opened import Open, Streams
from harken.service.stream import gathered, streamed
from harken.store.base import Stats, Thing
from harken.store.remote import wire

routes = APIRouter(prefix="/v1", tags=["store"])


@routes.get("/raw/{name}", **operation(names=True))
async def raw(store: Open, streams: Streams, name: str) -> Response:
    """Give raw bytes, however many they are."""
    return await streamed(lambda: store.pieces(ArtifactRef(name)), streams, wire.BYTES)


@routes.get("/things", **operation())
async def things(store: Open, streams: Streams) -> Response:
    """Give everything that is there, what is needed before what needs it, as a stream of frames."""
    return await streamed(lambda: gathered(_frames(store.things())), streams, wire.BYTES)


@routes.get("/stats", **operation(Stats))
def stats(store: Open) -> Json:
    """Say how much is there."""
    return Json(store.stats())


def _frames(things: Iterator[Thing]) -> Iterator[bytes]:
    for thing in things:
        yield wire.frame(wire.PackedThing(thing.kind, thing.body))
    yield wire.END
