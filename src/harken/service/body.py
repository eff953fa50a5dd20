"""Read request bodies within limits, and send responses as JSON or MessagePack.

JSON is encoded by `core.canonical`, which supports lone surrogates in texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from harken.core import canonical
from harken.core.arguments import format_existing
from harken.service.dependencies import ServiceLimits
from harken.store.remote.errors import RequestRefused
from harken.store.remote.wire import BYTES, JSON, PACKED, pack, read_json

T = TypeVar("T")


class Json(JSONResponse):
    """A response in JSON."""

    def render(self, content: Any) -> bytes:
        return canonical.to_json_line(content)


class Body(msgspec.Struct, frozen=True):
    """A request body, and the requested format of the response."""

    data: bytes
    is_packed: bool
    wants_packed: bool

    def json(self, kind: type[T]) -> T:
        """Decode the body as JSON. Raises ValueError, RequestRefused."""
        if self.is_packed:
            raise RequestRefused("unsupported_media", f"send {JSON}")
        return read_json(self.data, kind)

    def respond(self, packed: Callable[[], object], plain: Callable[[], object]) -> Response:
        """Return a response in the requested format."""
        if self.wants_packed:
            return Response(pack(packed()), media_type=PACKED)
        return Json(plain())


async def read(request: Request) -> Body:
    """Read a body. Raises RequestRefused if it is too large, too slow, or in another format."""
    kind = _get_content_type(request, JSON, PACKED)
    data = await _read_body(request)
    accepts = request.headers.get("accept", "")
    return Body(data, kind == PACKED, wants_packed=PACKED in accepts)


async def read_bytes(request: Request) -> bytes:
    """Read a body of raw bytes. Raises as `read`."""
    _get_content_type(request, BYTES)
    return await _read_body(request)


def _get_content_type(request: Request, *accepted: str) -> str:
    """Return the content type of a body, by default the first one. Raises RequestRefused."""
    media_type = request.headers.get("content-type", accepted[0]).partition(";")[0].strip().lower()
    if media_type not in accepted:
        raise RequestRefused("unsupported_media", f"send {' or '.join(accepted)}")
    return media_type


async def _read_body(request: Request) -> bytes:
    limits: ServiceLimits = request.app.state.limits
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused("unsupported_media", "send it uncompressed")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.body_bytes:
        raise _too_large(limits)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            async for piece in request.stream():
                data += piece
                if len(data) > limits.body_bytes:
                    raise _too_large(limits)
    except (TimeoutError, ClientDisconnect):
        raise RequestRefused(
            "too_slow", f"the body did not arrive in {limits.body_s:g} s"
        ) from None
    return bytes(data)


async def reject_unknown_parameters(request: Request) -> None:
    """Raise RequestRefused for an unknown or repeated query parameter."""
    known_names = {*_iter_parameters(request.scope["route"].dependant)}
    given_names = [name for name, _ in request.query_params.multi_items()]
    for name in given_names:
        if name not in known_names:
            existing = format_existing(sorted(known_names), "parameters")
            raise RequestRefused("invalid", f"parameter {name!r} not found{existing}")
        if given_names.count(name) > 1:
            raise RequestRefused("invalid", f"{name} is given more than once")


def _iter_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and of its dependencies."""
    for param in dependant.query_params:
        model = param.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            fields = model.model_fields.items()
            yield from (field.alias or name for name, field in fields)
        else:
            yield param.alias
    for dependency in dependant.dependencies:
        yield from _iter_parameters(dependency)


def _too_large(limits: ServiceLimits) -> RequestRefused:
    size_mb = limits.body_bytes / 1024 / 1024
    return RequestRefused("too_large", f"the body is too large: send at most {size_mb:g} MB")


RequestBody = Annotated[Body, Depends(read)]
RawBody = Annotated[bytes, Depends(read_bytes)]
