"""What comes in and goes out: bodies read within limits, answers in JSON or MessagePack.

JSON goes through `core.codec`, so that a lone surrogate in a text comes and goes as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from harken.core import canonical
from harken.service.dependencies import ServiceLimits
from harken.store.remote.errors import RequestRefused
from harken.store.remote.wire import BYTES, JSON, PACKED, pack, read_json

T = TypeVar("T")


class Json(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:
        return canonical.to_json_line(content)


@dataclass(frozen=True, slots=True)
class Body:
    """What somebody sent, and in which form they want the answer."""

    data: bytes
    is_packed: bool
    wants_packed: bool

    def json(self, kind: type[T]) -> T:
        """Read it as JSON. Raises ValueError, Refused."""
        if self.is_packed:
            raise RequestRefused("unsupported_media", f"this takes {JSON} only")
        return read_json(self.data, kind)

    def answer(self, packed: Callable[[], object], plain: Callable[[], object]) -> Response:
        """Return an answer in the form that is wanted."""
        if self.wants_packed:
            return Response(pack(packed()), media_type=PACKED)
        return Json(plain())


async def read(request: Request) -> Body:
    """Read a body. Raises Refused for one that is too large, too slow or in another form."""
    kind = _kind(request, JSON, PACKED)
    data = await _read_whole(request)
    accepts = request.headers.get("accept", "")
    return Body(data, kind == PACKED, wants_packed=PACKED in accepts)


async def read_bytes(request: Request) -> bytes:
    """Read a body that is bytes. Raises as `read`."""
    _kind(request, BYTES)
    return await _read_whole(request)


def _kind(request: Request, *taken: str) -> str:
    """Return what a body is said to be; the first where nothing is. Raises Refused."""
    kind = request.headers.get("content-type", taken[0]).partition(";")[0].strip().lower()
    if kind not in taken:
        raise RequestRefused("unsupported_media", f"send {' or '.join(taken)}")
    return kind


async def _read_whole(request: Request) -> bytes:
    limits: ServiceLimits = request.app.state.limits
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused("unsupported_media", "send it as it is, not compressed")
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


async def only_known(request: Request) -> None:
    """Raise Refused for a parameter that an operation does not have, or has twice: a slip."""
    known = {one.alias for one in request.scope["route"].dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise RequestRefused(
                "invalid", f"there is no parameter {name!r} here; there is: {there}"
            )
        if given.count(name) > 1:
            raise RequestRefused("invalid", f"{name} is given more than once")


def _too_large(limits: ServiceLimits) -> RequestRefused:
    size_mb = limits.body_bytes / 1024 / 1024
    return RequestRefused("too_large", f"a body has at most {size_mb:g} MB here: send less at once")


Given = Annotated[Body, Depends(read)]
Sent = Annotated[bytes, Depends(read_bytes)]
