"""An MCP server over HTTP (the transport "streamable HTTP"), at `/mcp`.

Each request is complete: there are no sessions and no streams, so nothing is lost when the server
restarts, and no connection is held open. The access rules are those of the service: no requests of
web pages, and a token.
"""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from harken.service.access import AccessCheck
from harken.service.dependencies import ServiceLimits
from harken.service.middleware import ErrorMiddleware

PATH = "/mcp"
LIMITS = ServiceLimits(requests=64, connections=128)


def make_mcp_app(server: Server[Any], gate: AccessCheck) -> ErrorMiddleware:
    """Return the server as an ASGI application."""
    # The access check is the one place that decides which hosts and origins are served.
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return ErrorMiddleware(_PostOnly(app), gate, LIMITS)


class _PostOnly:
    """Rejects other methods: a GET would open a stream of notifications, which nothing sends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_other = scope["type"] == "http" and scope["method"] != "POST"
        app = Response(status_code=405, headers={"allow": "POST"}) if is_other else self._app
        await app(scope, receive, send)
