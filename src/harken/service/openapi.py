"""Generate the OpenAPI description: requests, responses and errors of each operation.

Schemas are generated from the types that requests are decoded into and responses encoded from, so
that the description is accurate.
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

_REF_TEMPLATE = "#/components/schemas/{name}"
FAILURES = {
    401: "The token is missing or wrong.",
    403: "The request comes from a web page, names another host, or writes to a read-only service.",
    404: "The name or path does not exist.",
    408: "The body did not arrive in time.",
    409: "The prefix is ambiguous, another process is writing, or the current state differs.",
    413: "The body is too large.",
    415: "The body is neither JSON nor MessagePack, or is compressed.",
    429: "The quota of the user is used up.",
    422: "The request is not valid for this operation.",
    500: "A stored object is corrupted, or the service has a bug.",
    503: "There are too many requests, or the store cannot be used.",
    507: "The disk is full: nothing was written.",
}
_COMMON_STATUSES = (401, 403, 500, 503)
_STORE_STATUSES = (409, 422, 507)
_BODY_STATUSES = (408, 413, 415, 429)


class OpenApiSchemas:
    """Collects the JSON schemas of all request and response types."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type. Referenced types are added to the components."""
        (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF_TEMPLATE)
        self.components |= components
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
    """Return the FastAPI arguments of a route.

    `gives` is the type of the response; None means bytes. `takes` is the type of the body; None
    means no body. `names` means that the operation may not find a name. `packed` means that the
    response is available as MessagePack, `takes_packed` the same for the body. `takes_bytes` means
    that the body is bytes.
    """
    has_body = takes is not None or takes_bytes
    statuses = [
        *_COMMON_STATUSES,
        *_STORE_STATUSES,
        *([404] if names else []),
        *(_BODY_STATUSES if has_body else ()),
    ]
    responses: dict[int, Any] = {
        200: {"description": "Success.", "content": _response_content(gives, packed)}
    }
    responses |= {status: error_response(status) for status in sorted(statuses)}
    arguments: dict[str, Any] = {
        "response_class": Json,
        "response_model": None,
        "responses": responses,
    }
    if takes is not None:
        content: dict[str, Any] = {JSON: {"schema": SCHEMAS.of(takes)}}
        if takes_packed:
            content[PACKED] = {"schema": _BINARY}
        arguments["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    elif takes_bytes:
        content = {BYTES: {"schema": _BINARY}}
        arguments["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return arguments


def error_response(status: int) -> dict[str, Any]:
    """Return the OpenAPI response of an error status."""
    return {
        "description": FAILURES[status],
        "content": {JSON: {"schema": SCHEMAS.of(ErrorBody)}},
    }


def describe(app: FastAPI) -> Mapping[str, Any]:
    """Return the OpenAPI description of the service."""
    if app.openapi_schema is None:
        description = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        components = description.setdefault("components", {})
        components["schemas"] = dict(sorted(SCHEMAS.components.items()))
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
        app.openapi_schema = description
    return app.openapi_schema


def methods_of(app: FastAPI, path: str) -> list[str]:
    """Return the methods of a path, sorted."""
    methods: list[str] = []
    for template, operations in describe(app)["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            methods += [method.upper() for method in operations]
    return sorted(methods)


_BINARY = {"type": "string", "format": "binary"}


def _response_content(gives: Any, packed: bool) -> dict[str, Any]:  # noqa: FBT001 - named by its caller
    if gives is None:
        return {BYTES: {"schema": _BINARY}}
    content: dict[str, Any] = {JSON: {"schema": SCHEMAS.of(gives)}}
    if packed:
        content[PACKED] = {"schema": _BINARY}
    return content
