"""`log_in`: the OAuth login of a person at a server, with the flow of the SDK.

The provider of the SDK determines each request: discovery, registration, and the token for the code
from the browser (PKCE). This module sends each request, and only to places that may get a secret:
over https, or on this machine for a local server. No response appears in a message, because it may
contain a token.

Source: the authorization of MCP 2025-11-25; RFC 9728, 8414, 7591, 7636, 8707.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.exceptions import OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from harken.errors import ConfigError
from harken.world.mcp.auth.bearer import check_token, post_form, with_token
from harken.world.mcp.auth.oauth_requests import (
    REQUEST_S,
    VERSION,
    check_place,
    send_oauth_requests,
)
from harken.world.mcp.auth.redirect_server import Callback
from harken.world.mcp.auth.token_store import Login, Logins, place_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.server_config import McpServerConfig

WAIT_S = 300.0
"""The time that a person has to log in."""

# The SDK logs the response of a failed login, with tokens.
logging.getLogger("mcp.client.auth.oauth2").addFilter(lambda _: False)


@dataclass(slots=True)
class MemoryTokenStorage:
    """The state of the SDK during a login; nothing is stored before it is complete."""

    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)
    fresh: OAuthToken | None = field(default=None, repr=False)
    """The tokens from this login."""

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens of the previous login, so that its scopes are requested again."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Set the new tokens. Raises ConfigError."""
        check_token(tokens)
        self.fresh = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client registration, if it is configured."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Set the client registration."""
        self.client = client_info


async def log_in(
    server: McpServerConfig,
    logins: Logins,
    callback: Callback,
    show: Callable[[str], None],
    *,
    wait_s: float = WAIT_S,
    request_s: float = REQUEST_S,
) -> Login:
    """Let a person log in at a server with resolved variables; store and return the login.

    `show` is called with the URL to open; `callback` listens. request_s: the time limit of each
    response. Raises ConfigError, on one line, if the login fails or the server has none; a stored
    login then stays.
    """
    url = server.url or ""
    check_place(url, url)
    before = logins.get(server)
    memory = MemoryTokenStorage(
        client=_configured_client(server, callback.address), tokens=_previous_tokens(before)
    )
    provider = _create_provider(server, memory, callback, _LoginPrompt(show, callback, url, wait_s))
    token = await run_oauth_flow(provider, server, memory, before, request_s)
    if memory.client is None:
        raise ConfigError("the authorization server issued no token")
    login = _build_login(server, provider, memory.client, token)
    logins.put(server, login)
    return login


async def run_oauth_flow(
    provider: OAuthClientProvider,
    server: McpServerConfig,
    memory: MemoryTokenStorage,
    before: Login | None = None,
    request_s: float = REQUEST_S,
) -> OAuthToken:
    """Run the flow of a provider and return its token. Raises ConfigError, on one line."""
    try:
        await send_oauth_requests(
            provider, server, before, lambda: memory.fresh is not None, request_s
        )
    except ConfigError:
        raise
    except (OAuthFlowError, httpx2.InvalidURL, ValueError, OverflowError) as error:
        raise ConfigError(_format_reason(error, provider)) from None
    except (httpx2.HTTPError, TimeoutError) as error:
        raise ConfigError(
            f"the authorization server cannot be reached ({_format_connection_error(error)})"
        ) from None
    if memory.fresh is None:
        raise ConfigError("the authorization server issued no token")
    return memory.fresh


async def log_out(logins: Logins, name: str) -> list[Login]:
    """Remove all logins of servers of a name, revoke their tokens, and return the logins.

    Raises ConfigError if the file cannot be changed; failing revocations are ignored.
    """
    removed = logins.remove(name)
    for login in removed:
        token = login.refresh_token or login.access_token
        if login.revoke_url and token:
            try:
                await post_form(login, login.revoke_url, {"token": token})
            except ConfigError:
                continue
    return removed


class _LoginPrompt(msgspec.Struct, frozen=True):
    """Shows the login page to a person and waits for the redirect."""

    show: Callable[[str], None]
    callback: Callback
    server_url: str
    wait_s: float

    async def open(self, address: str) -> None:
        """Show the URL, and expect a redirect with its state. Raises ConfigError."""
        check_place(address, self.server_url)
        self.callback.expect(dict(parse_qsl(urlsplit(address).query)).get("state", ""))
        self.show(address)

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for the redirect. Raises ConfigError if it is a refusal or does not come."""
        response = await self.callback.answer(self.wait_s)
        if response.error:
            reason = one_line(
                f"{response.error}: {response.about}" if response.about else response.error
            )
            raise ConfigError(f"the login was refused ({reason})")
        return AuthorizationCodeResult(
            code=response.code, state=response.state, iss=response.issuer
        )


def _create_provider(
    server: McpServerConfig, memory: MemoryTokenStorage, callback: Callback, person: _LoginPrompt
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="Harken", redirect_uris=[AnyUrl(callback.address)], response_types=["code"]
    )
    is_document = server.oauth.client_id.startswith("https://")
    try:
        return OAuthClientProvider(
            server.url or "",
            metadata,
            memory,
            person.open,
            person.answer,
            client_metadata_url=server.oauth.client_id if is_document else None,
        )
    except ValueError:
        raise ConfigError("its client_id is a URL without a path") from None


def _configured_client(server: McpServerConfig, redirect: str) -> OAuthClientInformationFull | None:
    """Return the configured client registration. Return None if registration is needed."""
    if not server.oauth.client_id or server.oauth.client_id.startswith("https://"):
        return None
    return OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=server.oauth.client_secret or None,
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="client_secret_basic" if server.oauth.client_secret else "none",
    )


def _previous_tokens(before: Login | None) -> OAuthToken | None:
    """Return the previous tokens if the server wants more scopes."""
    if before is None or not before.challenge:
        return None
    return OAuthToken(access_token=before.access_token, scope=before.scope or None)


def _build_login(
    server: McpServerConfig,
    provider: OAuthClientProvider,
    client: OAuthClientInformationFull,
    token: OAuthToken,
) -> Login:
    """Build the stored login. Raises ConfigError."""
    context, url = provider.context, server.url or ""
    metadata = context.oauth_metadata
    token_url = urljoin(place_of(url), "/token") if metadata is None else metadata.token_endpoint
    revoke_url = "" if metadata is None else metadata.revocation_endpoint or ""
    login = Login(
        name=server.name,
        place=place_of(url),
        client_id=client.client_id,
        client_secret=client.client_secret or "",
        method=client.token_endpoint_auth_method or "",
        token_url=str(token_url),
        revoke_url=str(revoke_url),
        resource=context.get_resource_url()
        if context.should_include_resource_param(VERSION)
        else "",
    )
    for address in filter(None, (login.token_url, login.revoke_url)):
        check_place(address, url)
    return with_token(login, token, time.time())


def _format_reason(error: Exception, provider: OAuthClientProvider) -> str:
    """Return the reason of a failure on one line, without the response: it may hold a token."""
    context, message = provider.context, str(error)
    if isinstance(error, OAuthRegistrationError):
        if context.oauth_metadata is None and context.protected_resource_metadata is None:
            return "it offers no login: set an authorization header in `headers`"
        if (
            context.oauth_metadata is not None
            and context.oauth_metadata.registration_endpoint is None
        ):
            return "it has no client registration: set your client_id in `oauth`"
        return f"the client registration failed{_format_status(message)}"
    if isinstance(error, OAuthTokenError):
        return f"it issued no token{_format_status(message)}"
    if not isinstance(error, OAuthFlowError):  # an address that is none, JSON of another shape
        return "the authorization server violates the protocol"
    return one_line(message)


def _format_status(message: str) -> str:
    r"""Return the status and error code in a message of the SDK.

    >>> _format_status('Token exchange failed (400): {"error": "invalid_grant", "x": "secret"}')
    ' (HTTP 400, invalid_grant)'
    """
    status = re.search(r"\b([1-5]\d\d)\b", message.partition("{")[0])
    word = re.search(r'"error"\s*:\s*"([a-z_]{1,40})"', message)
    parts = [f"HTTP {status[1]}" if status else "", word[1] if word else ""]
    note = ", ".join(filter(None, parts))
    return f" ({note})" if note else ""


def _format_connection_error(error: Exception) -> str:
    """Return why a server was not reached, without data that was sent."""
    is_plain = isinstance(error, httpx2.ConnectError) and str(error)
    return one_line(str(error)) if is_plain else type(error).__name__
