"""`ProgramBearer`: authorize requests as a program, without a login of a person.

A token is requested when the server wants one, with the client in `oauth`, and again when it has
expired or is refused. It is kept in memory only, because it can be requested again at any time.

The secret goes to one place: the configured `issuer`, or the server itself. Otherwise the server
would decide where it is sent.

Source: the OAuth client credentials extension of MCP (SEP-1046); RFC 6749 §4.4, RFC 7523 §2.2.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import issuers_match

from harken.errors import ConfigError
from harken.world.mcp.auth.authorization_code import MemoryTokenStorage, run_oauth_flow
from harken.world.mcp.auth.bearer import Bearer, with_token
from harken.world.mcp.auth.oauth_requests import REQUEST_S, check_place
from harken.world.mcp.auth.token_store import Login, place_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.server_config import McpServerConfig, OAuthTable

PAUSE_S = 2.0
"""The pause after a failed request for a token: an issuer may lock out frequent clients."""


class ProgramBearer(Bearer):
    """The authorization of a program at one server."""

    def __init__(self, server: McpServerConfig, clock: Callable[[], float] = time.time) -> None:
        """Create it for a server with resolved variables and the grant `client_credentials`."""
        super().__init__(server, None, clock)
        self._token_lock = asyncio.Lock()
        self._failure, self._failed_at_s = "", 0.0

    async def _get_login(self, refused: str | None) -> Login | None:
        """Return a token that was not refused. Return None until one is needed. Raises ConfigError.

        Concurrent requests that need a token share one response.
        """
        if refused is None and self._login is None:
            return None
        async with self._token_lock:
            login = self._login
            if login and login.access_token != refused and not self._ends_soon(login):
                return login
            if self._failure and 0 <= self._clock() - self._failed_at_s < PAUSE_S:
                raise ConfigError(self._failure)
            try:
                self._login = await token_for(self._server, self._clock)
            except ConfigError as error:
                self._failure, self._failed_at_s = str(error), self._clock()
                raise
            return self._login

    def _ends_soon(self, login: Login) -> bool:
        """Whether it has expired: short-lived tokens are used until then."""
        return 0 < login.expires_at_s < self._clock()

    def _format_action(self, response: httpx2.Response) -> str:
        """Return the action that would grant access."""
        if self._has_user_header:
            return super()._format_action(response)
        if response.status_code == 401:
            why = self._obstacle or "it refused the new token"
            return f"it needs a token: {why}"
        if "insufficient_scope" in response.headers.get("www-authenticate", ""):
            return "its token has an insufficient scope: set `scope` in `oauth`"
        return "it answers HTTP 403: the client in `oauth` has no permission"


async def token_for(
    server: McpServerConfig, clock: Callable[[], float] = time.time, request_s: float = REQUEST_S
) -> Login:
    """Request a token of a program for a server with resolved variables.

    request_s: the time limit of each response. Raises ConfigError, on one line, on failure.
    """
    url, oauth = server.url or "", server.oauth
    issuer = oauth.issuer or place_of(url)
    for address in (url, issuer):
        check_place(address, url)
    if not (oauth.client_id and (oauth.client_secret or oauth.private_key)):
        raise ConfigError("the variables that its `oauth` names are empty")
    memory = MemoryTokenStorage()
    provider = _create_provider(url, oauth, issuer, memory)
    try:
        token = await run_oauth_flow(provider, server, memory, request_s=request_s)
    except ConfigError:
        _check_issuer(provider, url, issuer)
        raise
    return with_token(Login(name=server.name, place=place_of(url)), token, clock())


def _create_provider(
    url: str, oauth: OAuthTable, issuer: str, memory: MemoryTokenStorage
) -> OAuthClientProvider:
    if not oauth.private_key:
        return _SecretProvider(url, memory, oauth.client_id, oauth.client_secret, issuer=issuer)
    return PrivateKeyJWTOAuthProvider(
        url, memory, oauth.client_id, partial(_sign_assertion, oauth), issuer=issuer
    )


class _SecretProvider(ClientCredentialsOAuthProvider):
    """Sends the secret in a header, or in the form if the server requires that."""

    async def _perform_authorization(self) -> httpx2.Request:
        metadata, client = self.context.oauth_metadata, self.context.client_info
        methods = (metadata and metadata.token_endpoint_auth_methods_supported) or ()
        if client and "client_secret_post" in methods and "client_secret_basic" not in methods:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - a way to send one
        return await super()._perform_authorization()


async def _sign_assertion(oauth: OAuthTable, audience: str) -> str:
    """Return a short-lived signed assertion for one audience. Raises ConfigError."""
    sign = SignedJWTParameters(
        issuer=oauth.client_id,
        subject=oauth.client_id,
        signing_key=oauth.private_key.replace("\\n", "\n"),  # Environment files escape newlines.
        signing_algorithm=oauth.signing_algorithm,
    ).create_assertion_provider()
    try:
        return await sign(audience)
    except Exception:  # noqa: BLE001 - each kind of invalid key raises another error
        raise ConfigError(
            f"private_key is not a key for {oauth.signing_algorithm}: pass a PEM without a password"
        ) from None


def _check_issuer(provider: OAuthClientProvider, url: str, issuer: str) -> None:
    """Raise ConfigError if another issuer gives the tokens of the server."""
    issuer_url = provider.context.auth_server_url
    if issuer_url and not issuers_match(issuer_url, issuer):
        check_place(issuer_url, url)
        raise ConfigError(
            f"{one_line(issuer_url)} is its authorization server: if the secret is "
            "for that server, set it as issuer in `oauth`"
        ) from None
