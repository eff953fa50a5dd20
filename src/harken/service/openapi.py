"""The OpenAPI description: what each operation takes and gives, and all the ways it may fail.

One idea: schemas are made from the very types that requests are read into and answers written
from, so the description says what is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from harken.service.body import Json
from harken.store.remote.errors import ErrorBody
from harken.store.remote.wire import BYTES, JSON, PACKED

_REF = "#/components/schemas/{name}"
FAILURES = {
    401: "There is no token, or another one.",
    403: "Not from a page of a browser, not under another host's name, not in a read-only service.",
    404: "Nothing has this name.",
    408: "The body did not arrive in time.",
    409: "The name is the beginning of several, others are writing, or what is there differs.",
    413: "The body is too large.",
    415: "The body is neither JSON nor MessagePack, or is compressed.",
    422: "The request is not what this operation takes.",
    500: "What is stored is damaged, or there is a bug in the service.",
    503: "Too much is asked at once, or the store cannot be used.",
    507: "The disk refused: nothing was written.",
}
_ALWAYS = (401, 403, 500, 503)
_OF_STORES = (409, 422, 507)
_OF_BODIES = (408, 413, 415)


class OpenApiSchemas:
    """The JSON schemas of all types that the API takes and gives, each once."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type; those that it refers to are among the components."""
        (schema,), found = msgspec.json.schema_components([kind], ref_template=_REF)
        self.components |= found
        return schema


SCHEMAS = OpenApiSchemas()


def operation(
    gives: Any = None,
    takes: Any = None,
    *,
    names: bool = False,
    packed: bool = False,
    takes_packed: bool = False,
    takes_bytes: bool = False,
) -> dict[str, Any]:
    """Return what FastAPI is told of a route of the store.

    `gives`: the type of the answer, None: bytes. `takes`: the type of the body, None: there is
    none. `names`: something is named that may not be there. `packed`: the answer has a form in
    MessagePack, `takes_packed`: the body also. `takes_bytes`: the body is bytes.
    """
    has_body = takes is not None or takes_bytes
    fails = [*_ALWAYS, *_OF_STORES, *([404] if names else []), *(_OF_BODIES if has_body else ())]
    responses: dict[int, Any] = {200: {"description": "Done.", "content": _given(gives, packed)}}
    responses |= {status: failure(status) for status in sorted(fails)}
    told: dict[str, Any] = {"response_class": Json, "response_model": None, "responses": responses}
    if takes is not None:
        content: dict[str, Any] = {JSON: {"schema": SCHEMAS.of(takes)}}
        if takes_packed:
            content[PACKED] = {"schema": _BINARY}
        told["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    elif takes_bytes:
        content = {BYTES: {"schema": _BINARY}}
        told["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return told


def failure(status: int) -> dict[str, Any]:
    """Return what the description says of a failure."""
    return {
        "description": FAILURES[status],
        "content": {JSON: {"schema": SCHEMAS.of(ErrorBody)}},
    }


def describe(app: FastAPI) -> Mapping[str, Any]:
    """Return the OpenAPI description of the service."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        components = made.setdefault("components", {})
        components["schemas"] = dict(sorted(SCHEMAS.components.items()))
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        app.openapi_schema = made
    return app.openapi_schema


def methods_of(app: FastAPI, path: str) -> list[str]:
    """Return the methods with which a path is asked, sorted."""
    found: list[str] = []
    for template, operations in describe(app)["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            found += [method.upper() for method in operations]
    return sorted(found)


_BINARY = {"type": "string", "format": "binary"}


def _given(gives: Any, packed: bool) -> dict[str, Any]:  # noqa: FBT001 - named by its caller
    if gives is None:
        return {BYTES: {"schema": _BINARY}}
    content: dict[str, Any] = {JSON: {"schema": SCHEMAS.of(gives)}}
    if packed:
        content[PACKED] = {"schema": _BINARY}
    return content
