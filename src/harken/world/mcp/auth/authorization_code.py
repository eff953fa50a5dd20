"""`log_in`: a person lets us use a server in their name. The SDK knows the way; we walk it.

The SDK's provider says which request comes next: what the server wants, who gives tokens, that we
are somebody there (registration), and the token for what the browser brought back (PKCE). Each
request is sent here, and only to where a secret may go: over https, or on this machine for a server
that is on this machine. What it is answered never stands in a message, for it may hold a token.

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
from harken.world.mcp.auth.bearer import check_token, posted, with_token
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
"""How long a person may take to log in."""

# What it logs of a login that fails repeats what was answered, tokens too.
logging.getLogger("mcp.client.auth.oauth2").addFilter(lambda _: False)


@dataclass(slots=True)
class MemoryTokenStorage:
    """What the SDK keeps of a login while it goes on; nothing is written before it is complete."""

    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)
    fresh: OAuthToken | None = field(default=None, repr=False)
    """The tokens that this login gave."""

    async def get_tokens(self) -> OAuthToken | None:
        """Return those of the login before: what it allowed is asked for again, too."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take those that were given. Raises ConfigError."""
        check_token(tokens)
        self.fresh = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return who we are there, where the person has said so."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take who we are there, as of now."""
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
    """Let a person log in at a server, its variables filled in; keep and return the login.

    `show` is told the address that they have to open; `callback` listens. request_s: how long each
    answer of who logs people in may take. Raises ConfigError, on
    one line, where there is no login there, or it came to nothing; what was kept then stays.
    """
    url = server.url or ""
    check_place(url, url)
    before = logins.get(server)
    memory = MemoryTokenStorage(client=_client(server, callback.address), tokens=_tokens(before))
    provider = _provider(server, memory, callback, _Person(show, callback, url, wait_s))
    token = await walked(provider, server, memory, before, request_s)
    if memory.client is None:
        raise ConfigError("no token was given")
    login = _login(server, provider, memory.client, token)
    logins.put(server, login)
    return login


async def walked(
    provider: OAuthClientProvider,
    server: McpServerConfig,
    memory: MemoryTokenStorage,
    before: Login | None = None,
    request_s: float = REQUEST_S,
) -> OAuthToken:
    """Walk a provider's way to a token and return it. Raises ConfigError, on one line."""
    try:
        await send_oauth_requests(
            provider, server, before, lambda: memory.fresh is not None, request_s
        )
    except ConfigError:
        raise
    except (OAuthFlowError, httpx2.InvalidURL, ValueError, OverflowError) as error:
        raise ConfigError(_reason(error, provider)) from None
    except (httpx2.HTTPError, TimeoutError) as error:
        raise ConfigError(f"who gives tokens cannot be reached ({_kind(error)})") from None
    if memory.fresh is None:
        raise ConfigError("no token was given")
    return memory.fresh


async def log_out(logins: Logins, name: str) -> list[Login]:
    """Forget all logins of servers of a name, give the tokens back, and return the logins.

    Raises ConfigError where the file cannot be changed; who cannot be told is not.
    """
    gone = logins.remove(name)
    for one in gone:
        token = one.refresh_token or one.access_token
        if one.revoke_url and token:
            try:
                await posted(one, one.revoke_url, {"token": token})
            except ConfigError:
                continue
    return gone


@dataclass(frozen=True, slots=True)
class _Person:
    """Who is shown where to log in, and waited for."""

    show: Callable[[str], None]
    callback: Callback
    server_url: str
    wait_s: float

    async def open(self, address: str) -> None:
        """Show it; the secret in it is what the answer has to know. Raises ConfigError."""
        check_place(address, self.server_url)
        self.callback.expect(dict(parse_qsl(urlsplit(address).query)).get("state", ""))
        self.show(address)

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for it. Raises ConfigError where it is a refusal, or does not come."""
        found = await self.callback.answer(self.wait_s)
        if found.error:
            why = one_line(f"{found.error}: {found.about}" if found.about else found.error)
            raise ConfigError(f"the login was refused ({why})")
        return AuthorizationCodeResult(code=found.code, state=found.state, iss=found.issuer)


def _provider(
    server: McpServerConfig, memory: MemoryTokenStorage, callback: Callback, person: _Person
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
        raise ConfigError("its client_id is an address without a path") from None


def _client(server: McpServerConfig, redirect: str) -> OAuthClientInformationFull | None:
    """Return who a person says that we are at the server; None where we have to register."""
    if not server.oauth.client_id or server.oauth.client_id.startswith("https://"):
        return None
    return OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=server.oauth.client_secret or None,
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="client_secret_basic" if server.oauth.client_secret else "none",
    )


def _tokens(before: Login | None) -> OAuthToken | None:
    """Return what is known of the tokens before, where more is wanted now: what they allow."""
    if before is None or not before.challenge:
        return None
    return OAuthToken(access_token=before.access_token, scope=before.scope or None)


def _login(
    server: McpServerConfig,
    provider: OAuthClientProvider,
    client: OAuthClientInformationFull,
    token: OAuthToken,
) -> Login:
    """Return what is kept of a login. Raises ConfigError."""
    found, url = provider.context, server.url or ""
    metadata = found.oauth_metadata
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
        resource=found.get_resource_url() if found.should_include_resource_param(VERSION) else "",
    )
    for one in filter(None, (login.token_url, login.revoke_url)):
        check_place(one, url)
    return with_token(login, token, time.time())


def _reason(error: Exception, provider: OAuthClientProvider) -> str:
    """Say on one line why there was no login, without what was answered: it may hold a token."""
    found, said = provider.context, str(error)
    if isinstance(error, OAuthRegistrationError):
        if found.oauth_metadata is None and found.protected_resource_metadata is None:
            return "it offers no login: name a header that lets you in, in `headers`"
        if found.oauth_metadata is not None and found.oauth_metadata.registration_endpoint is None:
            return "nobody can register there: write the client_id that you have there into `oauth`"
        return f"it did not register us{_told(said)}"
    if isinstance(error, OAuthTokenError):
        return f"it gave no token{_told(said)}"
    if not isinstance(error, OAuthFlowError):  # an address that is none, JSON of another shape
        return "who gives tokens answers what is not of the protocol"
    return one_line(said)


def _told(said: str) -> str:
    r"""Return what a message of the SDK says of an error: its status, and the protocol's word.

    >>> _told('Token exchange failed (400): {"error": "invalid_grant", "x": "secret"}')
    ' (HTTP 400, invalid_grant)'
    """
    status = re.search(r"\b([1-5]\d\d)\b", said.partition("{")[0])
    word = re.search(r'"error"\s*:\s*"([a-z_]{1,40})"', said)
    found = [f"HTTP {status[1]}" if status else "", word[1] if word else ""]
    told = ", ".join(filter(None, found))
    return f" ({told})" if told else ""


def _kind(error: Exception) -> str:
    """Say why nobody was reached; what else failed could repeat what was sent."""
    is_plain = isinstance(error, httpx2.ConnectError) and str(error)
    return one_line(str(error)) if is_plain else type(error).__name__
