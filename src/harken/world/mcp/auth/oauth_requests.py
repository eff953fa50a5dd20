"""`walk`: the requests of a login, sent one after the other, and only to where a secret may go.

The SDK's provider says which request comes next. They are not sent through its client but here: so
each address is looked at before, and of each answer no more is read than anybody can use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider

from harken.core import canonical
from harken.errors import ConfigError
from harken.world.mcp.auth.bearer import read_limited_body
from harken.world.mcp.auth.token_store import Login, place_of
from harken.world.mcp.errors import one_line
from harken.world.mcp.server_config import McpServerConfig

VERSION = "2025-11-25"
"""The revision of the protocol of which a login is."""
REQUEST_S = 30.0
"""How long an answer may take, all of it."""
_MOST_REQUESTS = 40
_MOST_REDIRECTS = 5
_LOCAL = ("localhost", "127.0.0.1", "::1")


async def send_oauth_requests(
    provider: OAuthClientProvider,
    server: McpServerConfig,
    before: Login | None,
    has_token: Callable[[], bool],
    request_s: float = REQUEST_S,
) -> None:
    """Send what the provider wants sent, until it is done.

    before: what is kept of the login before. has_token: whether a token was given meanwhile. Raises
    what the provider raises, httpx2.HTTPError, TimeoutError, ConfigError.
    """
    first = _first(server)
    flow, is_asked, url = provider.async_auth_flow(first), False, str(first.url)
    async with httpx2.AsyncClient(timeout=request_s) as client:
        try:
            request = await anext(flow)
            for _ in range(_MOST_REQUESTS):
                check_place(str(request.url), url)
                if request is not first:
                    _check_offer(provider, request, is_asked=is_asked)
                    response = await _sent(client, request, request_s)
                elif not has_token():
                    response = await _tried(client, request, request_s)
                    is_asked = response.status_code == 401
                    response = _challenge(response, before, server.oauth.scope)
                else:
                    response = await _tried(client, request, request_s)
                    if response.status_code == 401:
                        raise ConfigError("it does not accept the token that was just given for it")
                request = await flow.asend(response)
            raise ConfigError("the login leads from one place to the next, without an end")
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _first(server: McpServerConfig) -> httpx2.Request:
    """Return a request that whoever is not logged in is refused, and that changes nothing."""
    headers = {
        **server.headers,
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
    }
    message = canonical.to_json_line({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    return httpx2.Request("POST", server.url or "", content=message, headers=headers)


async def _sent(
    client: httpx2.AsyncClient, request: httpx2.Request, within_s: float
) -> httpx2.Response:
    """Send a request and return the whole answer. Raises httpx2.HTTPError, ConfigError.

    Raises TimeoutError where it is not whole by then: one that comes byte by byte has no silence.
    """
    request.headers["accept-encoding"] = "identity"
    async with asyncio.timeout(within_s):
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            whole = httpx2.Response(
                response.status_code,
                headers=[(k, v) for k, v in response.headers.items() if k != "content-encoding"],
                content=await read_limited_body(response),
                request=request,
            )
            whole.next_request = response.next_request
            return whole
        finally:
            await response.aclose()


async def _tried(
    client: httpx2.AsyncClient, request: httpx2.Request, within_s: float
) -> httpx2.Response:
    """Send the first request, also to where it is sent on to within its host; return the answer.

    What is in it is not read: it may have no end. Raises httpx2.HTTPError, TimeoutError.
    """
    for _ in range(_MOST_REDIRECTS):
        async with asyncio.timeout(within_s):
            response = await client.send(request, stream=True, follow_redirects=False)
        await response.aclose()
        following = response.next_request
        is_same = following is not None and following.method == request.method
        if following is None or not is_same or not _same_host(following.url, request.url):
            break
        request = following
    return httpx2.Response(response.status_code, headers=response.headers, request=request)


def _same_host(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _challenge(response: httpx2.Response, before: Login | None, scope: str) -> httpx2.Response:
    """Return what the server wants: what it said in a call, else what it says now.

    One that lets anybody in at first may want a login later. scope: what we ask for in place of
    what it says now; of several the SDK takes the first.
    """
    status, said = 401, response.headers.get("www-authenticate")
    if before is not None and before.challenge:
        status, said = 403, before.challenge
    elif response.status_code not in (401, 403):
        said = None
    if scope and status == 401:
        said = f'Bearer scope="{scope}", {said or ""}'
    # A letter that is not ASCII, once it is kept, would let no later login begin.
    plain = (said or "").encode("ascii", "replace").decode()
    headers = {} if said is None else {"www-authenticate": plain}
    return httpx2.Response(status, headers=headers, request=response.request)


def _check_offer(provider: OAuthClientProvider, request: httpx2.Request, *, is_asked: bool) -> None:
    """Refuse to register at a server that wants no login and names nobody who logs people in."""
    found = provider.context
    is_named = found.oauth_metadata is not None or found.protected_resource_metadata is not None
    if request.method == "POST" and not is_asked and not is_named:
        raise ConfigError("it asks for no login")


def check_place(address: str, server_url: str) -> None:
    """Refuse an address that no secret may go to. Raises ConfigError.

    >>> check_place("http://localhost:1/token", "http://127.0.0.1:2/mcp")
    >>> check_place("http://localhost:1/token", "https://a.example/mcp")
    Traceback (most recent call last):
        ...
    harken.errors.ConfigError: a login needs https, and http://localhost:1 is not
    """
    try:
        parts, server = urlsplit(address), urlsplit(server_url)
        is_local = parts.hostname in _LOCAL and server.hostname in _LOCAL
        is_fit = parts.scheme == "https" or (parts.scheme == "http" and is_local)
    except ValueError:
        is_fit = False
    if not is_fit or not parts.hostname or parts.username is not None:
        raise ConfigError(f"a login needs https, and {one_line(place_of(address))} is not")
