"""An MCP server that requires a login, and its authorization server, both made with the SDK."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.routing import Route

from tests.mcp_http import ServedApp

TOKEN_S = 3600


@dataclass
class AuthorizationServer(
    OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]
):
    """An authorization server that grants each login unless `is_refusing` is set."""

    base: str = ""
    is_refusing: bool = False
    token_s: int = TOKEN_S
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    refresh_tokens: dict[str, RefreshToken] = field(default_factory=dict)
    access_tokens: dict[str, AccessToken] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    """All issued codes, tokens and client secrets."""
    refresh_count: int = 0
    revoked: list[str] = field(default_factory=list)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info
        if client_info.client_secret:
            self.secrets.append(client_info.client_secret)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        if self.is_refusing:
            raise AuthorizeError(error="access_denied", error_description="not \x1b[31mtoday")
        code = f"code-{secrets.token_hex(16)}"
        self.secrets.append(code)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id or "",
            scopes=params.scopes or ["read"],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue_tokens(authorization_code.client_id, authorization_code.scopes)

    def issue_tokens(self, client_id: str, scopes: list[str]) -> OAuthToken:
        token, refresh_token = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.secrets += [token, refresh_token]
        self.access_tokens[token] = AccessToken(
            token=token, client_id=client_id, scopes=scopes, resource=None
        )
        self.refresh_tokens[refresh_token] = RefreshToken(
            token=refresh_token, client_id=client_id, scopes=scopes
        )
        return OAuthToken(
            access_token=token,
            expires_in=self.token_s,
            refresh_token=refresh_token,
            scope=" ".join(scopes),
        )

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh_tokens[refresh_token.token]  # it can be used once
        self.refresh_count += 1
        return self.issue_tokens(refresh_token.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access_tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.access_tokens.clear()
        self.refresh_tokens.clear()

    def routes(self) -> list[Route]:
        """Return routes that take precedence over those of the SDK."""
        return []

    def expire_access_tokens(self) -> None:
        """Invalidate all access tokens."""
        self.access_tokens.clear()


@dataclass
class ProtectedServer:
    """The address of the MCP server, and its authorization server."""

    url: str
    auth_server: AuthorizationServer


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@contextmanager
def serve_protected(
    office: AuthorizationServer | None = None, *, registers: bool = True
) -> Iterator[ProtectedServer]:
    """Serve both servers until the end of the block."""
    office = office or AuthorizationServer()
    auth_listener, listener = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    office.base = f"http://127.0.0.1:{auth_listener.getsockname()[1]}"
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    routes = office.routes() + create_auth_routes(
        office,
        AnyHttpUrl(office.base),
        client_registration_options=ClientRegistrationOptions(
            enabled=registers, valid_scopes=["read", "write"], default_scopes=["read"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(office.base),
        resource_server_url=AnyHttpUrl(url),
        required_scopes=["read"],
        validate_token_resource=False,
    )
    server = MCPServer(
        "guarded", log_level="CRITICAL", token_verifier=ProviderTokenVerifier(office), auth=settings
    )
    server.add_tool(greet)
    with (
        ServedApp(Starlette(routes=routes), auth_listener),
        ServedApp(server.streamable_http_app(), listener),
    ):
        yield ProtectedServer(url, office)


def visit(address: str) -> Any:
    """Open an address as a browser does, in a thread of its own."""

    def go() -> None:
        try:
            with urllib.request.urlopen(address, timeout=10) as page:
                page.read()
        except urllib.error.URLError:
            pass

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    return thread
