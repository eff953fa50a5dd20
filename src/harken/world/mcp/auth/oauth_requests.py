"""Send the requests of an OAuth login in sequence, and only to places that may get a secret.

The provider of the SDK determines each request. They are sent here and not through its client, so
that each URL is checked before, and the size of each response is limited.
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
"""The protocol revision of the login."""
REQUEST_S = 30.0
"""The time limit of a complete response."""
_MAX_REQUESTS = 40
_MAX_REDIRECTS = 5
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


async def send_oauth_requests(
    provider: OAuthClientProvider,
    server: McpServerConfig,
    before: Login | None,
    has_token: Callable[[], bool],
    request_s: float = REQUEST_S,
) -> None:
    """Send the requests of the provider until it is done.

    before: the stored previous login. has_token: whether a token was received. Raises the errors of
    the provider, httpx2.HTTPError, TimeoutError, ConfigError.
    """
    first_request = _build_first_request(server)
    flow, is_asked, url = provider.async_auth_flow(first_request), False, str(first_request.url)
    async with httpx2.AsyncClient(timeout=request_s) as client:
        try:
            request = await anext(flow)
            for _ in range(_MAX_REQUESTS):
                check_place(str(request.url), url)
                if request is not first_request:
                    _check_offer(provider, request, is_asked=is_asked)
                    response = await _send(client, request, request_s)
                elif not has_token():
                    response = await _send_first(client, request, request_s)
                    is_asked = response.status_code == 401
                    response = _build_challenge(response, before, server.oauth.scope)
                else:
                    response = await _send_first(client, request, request_s)
                    if response.status_code == 401:
                        raise ConfigError("it rejects the token that was just issued for it")
                request = await flow.asend(response)
            raise ConfigError("the login has too many redirects")
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _build_first_request(server: McpServerConfig) -> httpx2.Request:
    """Return a request that needs authorization and changes nothing."""
    headers = {
        **server.headers,
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
    }
    message = canonical.to_json_line({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    return httpx2.Request("POST", server.url or "", content=message, headers=headers)


async def _send(
    client: httpx2.AsyncClient, request: httpx2.Request, within_s: float
) -> httpx2.Response:
    """Send a request and return the full response. Raises httpx2.HTTPError, ConfigError.

    Raises TimeoutError if it is not complete in time, also if it arrives slowly.
    """
    request.headers["accept-encoding"] = "identity"
    async with asyncio.timeout(within_s):
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            full_response = httpx2.Response(
                response.status_code,
                headers=[(k, v) for k, v in response.headers.items() if k != "content-encoding"],
                content=await read_limited_body(response),
                request=request,
            )
            full_response.next_request = response.next_request
            return full_response
        finally:
            await response.aclose()


async def _send_first(
    client: httpx2.AsyncClient, request: httpx2.Request, within_s: float
) -> httpx2.Response:
    """Send the first request, follow redirects within its host, and return the response.

    Its body is not read, because it may be endless. Raises httpx2.HTTPError, TimeoutError.
    """
    for _ in range(_MAX_REDIRECTS):
        async with asyncio.timeout(within_s):
            response = await client.send(request, stream=True, follow_redirects=False)
        await response.aclose()
        next_request = response.next_request
        is_same = next_request is not None and next_request.method == request.method
        if next_request is None or not is_same or not _same_host(next_request.url, request.url):
            break
        request = next_request
    return httpx2.Response(response.status_code, headers=response.headers, request=request)


def _same_host(left: httpx2.URL, right: httpx2.URL) -> bool:
    return (left.scheme, left.host, left.port) == (right.scheme, right.host, right.port)


def _build_challenge(
    response: httpx2.Response, before: Login | None, scope: str
) -> httpx2.Response:
    """Return a response with the challenge of the server, from a call or from now.

    A server without a challenge may still require a login later. scope: replaces the requested
    scope; the SDK uses the first one.
    """
    status, challenge = 401, response.headers.get("www-authenticate")
    if before is not None and before.challenge:
        status, challenge = 403, before.challenge
    elif response.status_code not in (401, 403):
        challenge = None
    if scope and status == 401:
        challenge = f'Bearer scope="{scope}", {challenge or ""}'
    # A stored non-ASCII character would break every later login.
    ascii_challenge = (challenge or "").encode("ascii", "replace").decode()
    headers = {} if challenge is None else {"www-authenticate": ascii_challenge}
    return httpx2.Response(status, headers=headers, request=response.request)


def _check_offer(provider: OAuthClientProvider, request: httpx2.Request, *, is_asked: bool) -> None:
    """Raise ConfigError instead of registering at a server that requests no login."""
    context = provider.context
    is_named = context.oauth_metadata is not None or context.protected_resource_metadata is not None
    if request.method == "POST" and not is_asked and not is_named:
        raise ConfigError("it requires no login")


def check_place(address: str, server_url: str) -> None:
    """Raise ConfigError for a URL that must not get a secret.

    >>> check_place("http://localhost:1/token", "http://127.0.0.1:2/mcp")
    >>> check_place("http://localhost:1/token", "https://a.example/mcp")
    Traceback (most recent call last):
        ...
    harken.errors.ConfigError: a login needs https, and http://localhost:1 is not
    """
    try:
        parts, server = urlsplit(address), urlsplit(server_url)
        is_local = parts.hostname in _LOCAL_HOSTS and server.hostname in _LOCAL_HOSTS
        is_allowed = parts.scheme == "https" or (parts.scheme == "http" and is_local)
    except ValueError:
        is_allowed = False
    if not is_allowed or not parts.hostname or parts.username is not None:
        raise ConfigError(f"a login needs https, and {one_line(place_of(address))} is not")
