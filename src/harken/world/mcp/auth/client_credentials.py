"""`ProgramBearer`: lets requests to a server be those of a program, where no person could log in.

A token is asked for when the server wants one, as who `oauth` says that we are, and again when it
has ended or is refused. It is kept here alone, and not on disk: it can be had again at any time.

The secret goes to one place: who gives tokens is `issuer`, or the server itself. Otherwise the
server would decide who is sent it.

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
from harken.world.mcp.auth.authorization_code import MemoryTokenStorage, walked
from harken.world.mcp.auth.bearer import Bearer, with_token
from harken.world.mcp.auth.oauth_requests import REQUEST_S, check_place
from harken.world.mcp.auth.token_store import Login, place_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.server_config import McpServerConfig, OAuthTable

PAUSE_S = 2.0
"""How long after it got no token it does not ask for one: who gives them may lock out whoever asks
too often, and calls that run side by side fail for one reason."""


class ProgramBearer(Bearer):
    """What one server is sent to let a program in."""

    def __init__(self, server: McpServerConfig, clock: Callable[[], float] = time.time) -> None:
        """server: its variables filled in, and its grant `client_credentials`."""
        super().__init__(server, None, clock)
        self._asking = asyncio.Lock()
        self._failure, self._failed_at_s = "", 0.0

    async def _found(self, refused: str | None) -> Login | None:
        """Return a token that was not refused; None as long as none is wanted. Raises ConfigError.

        Requests that need one at the same time wait for one answer, whatever it is.
        """
        if refused is None and self._login is None:
            return None
        async with self._asking:
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
        """Whether it has ended: some last for seconds only, and are good for as long."""
        return 0 < login.expires_at_s < self._clock()

    def _why(self, response: httpx2.Response) -> str:
        """Say what lets us in."""
        if self._own:
            return super()._why(response)
        if response.status_code == 401:
            why = self._obstacle or "the one that was just given for it is refused"
            return f"it needs a token that it does not get: {why}"
        if "insufficient_scope" in response.headers.get("www-authenticate", ""):
            return "it wants leave for more than its token gives: write `scope` into `oauth`"
        return "it answers HTTP 403: who `oauth` says that we are may not do that"


async def token_for(
    server: McpServerConfig, clock: Callable[[], float] = time.time, request_s: float = REQUEST_S
) -> Login:
    """Return a token that a program gets for a server, its variables filled in.

    request_s: how long each answer may take. Raises ConfigError, on one line, where there is none.
    """
    url, oauth = server.url or "", server.oauth
    issuer = oauth.issuer or place_of(url)
    for address in (url, issuer):
        check_place(address, url)
    if not (oauth.client_id and (oauth.client_secret or oauth.private_key)):
        raise ConfigError("the variables that its `oauth` names are empty")
    memory = MemoryTokenStorage()
    provider = _provider(url, oauth, issuer, memory)
    try:
        token = await walked(provider, server, memory, request_s=request_s)
    except ConfigError:
        _check_issuer(provider, url, issuer)
        raise
    return with_token(Login(name=server.name, place=place_of(url)), token, clock())


def _provider(
    url: str, oauth: OAuthTable, issuer: str, memory: MemoryTokenStorage
) -> OAuthClientProvider:
    if not oauth.private_key:
        return _BySecret(url, memory, oauth.client_id, oauth.client_secret, issuer=issuer)
    return PrivateKeyJWTOAuthProvider(
        url, memory, oauth.client_id, partial(_signed, oauth), issuer=issuer
    )


class _BySecret(ClientCredentialsOAuthProvider):
    """Sends the secret in a header, or where that is not taken, in the form."""

    async def _perform_authorization(self) -> httpx2.Request:
        metadata, client = self.context.oauth_metadata, self.context.client_info
        taken = (metadata and metadata.token_endpoint_auth_methods_supported) or ()
        if client and "client_secret_post" in taken and "client_secret_basic" not in taken:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - a way to send one
        return await super()._perform_authorization()


async def _signed(oauth: OAuthTable, audience: str) -> str:
    """Return what says, for a few minutes and to one place only, who we are. Raises ConfigError."""
    sign = SignedJWTParameters(
        issuer=oauth.client_id,
        subject=oauth.client_id,
        signing_key=oauth.private_key.replace("\\n", "\n"),  # as files of variables write it
        signing_algorithm=oauth.signing_algorithm,
    ).create_assertion_provider()
    try:
        return await sign(audience)
    except Exception:  # noqa: BLE001 - the border: each kind of wrong key has an error of its own
        raise ConfigError(
            f"private_key is no key that signs {oauth.signing_algorithm}: a PEM without a password"
        ) from None


def _check_issuer(provider: OAuthClientProvider, url: str, issuer: str) -> None:
    """Say who gives the server's tokens, where that is another. Raises ConfigError."""
    named = provider.context.auth_server_url
    if named and not issuers_match(named, issuer):
        check_place(named, url)
        raise ConfigError(
            f"{one_line(named)} gives its tokens: if the secret is for that place, write it into "
            f"`oauth` as issuer"
        ) from None
