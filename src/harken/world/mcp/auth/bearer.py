"""`Bearer`: authorize requests to a server with the token of a login.

An expiring token is renewed before a request; a refused one is renewed once. If neither helps, the
response becomes an error with the next step, and the connection stays open: after a login, by any
program, the next call works.

The SDK's `OAuthClientProvider` is used for the login (`authorization_code.py`), not for calls: it
holds a lock until the server responds, which serializes calls; it loses the token endpoint with its
process; and it starts a login where no person is present.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

import httpx2
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from harken.core import canonical
from harken.errors import ConfigError
from harken.world.mcp.auth.token_store import Login, Logins
from harken.world.mcp.server_config import McpServerConfig

EARLY_S = 30.0
"""A token with less remaining time is renewed before it is used."""
RENEW_S = 30.0
MAX_BYTES = 1 << 20
_MAX_LIFETIME_S = 1 << 32
"""The maximum lifetime of a token: more than a century."""
_REFUSED_CODE = -32001
"""The code of the error that replaces a refusal."""
_MAX_CHALLENGE_CHARS = 2000
_TOKEN_PATTERN = re.compile(r"[!-~]+")


class Bearer(httpx2.Auth):
    """The authorization of requests to one server."""

    def __init__(
        self,
        server: McpServerConfig,
        logins: Logins | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create it for a server with resolved variables. Without `logins` no login is possible."""
        assert server.url is not None
        self._server, self._logins, self._clock = server, logins, clock
        self._has_user_header = any(name.lower() == "authorization" for name in server.headers)
        self._origin = _origin(httpx2.URL(server.url))
        self._login: Login | None = None
        self._is_read = False
        self._obstacle = ""
        """The reason why the last attempt to get a token failed."""
        self.required_action = ""
        """The action that a person must take after the last refusal; empty if none."""
        self.needs_login = False
        """Whether that action is a login."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token of the login, and again with a renewed one."""
        applies = not self._has_user_header and _origin(request.url) == self._origin
        token = await self._token() if applies else ""
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and applies:
            token = await self._token(refused=token)
            if token:
                request.headers["authorization"] = f"Bearer {token}"
                response = yield request
        self.required_action, self.needs_login = "", False
        if response.status_code in (401, 403):
            self.required_action = self._format_action(response)
            await _replace_by_error(response, self.required_action)

    async def _token(self, refused: str | None = None) -> str:
        """Return a token that may be accepted, other than `refused`; empty if there is none.

        Raises nothing: without a token, the server refuses the request, and `_format_action` gives
        the reason.
        """
        login = self._login
        if refused is not None or not self._is_read or (login and self._ends_soon(login)):
            self._is_read, self._obstacle = True, ""
            try:
                self._login = login = await self._get_login(refused)
            except ConfigError as error:
                self._obstacle = str(error)
        return "" if login is None or login.access_token == refused else login.access_token

    async def _get_login(self, refused: str | None) -> Login | None:
        """Return the current login, with a new token if that is needed and possible.

        Raises ConfigError if the file of logins or the token endpoint cannot be used now.
        """
        logins = self._logins
        login = None if logins is None else logins.get(self._server)
        if logins is None or login is None or not (login.refresh_token and login.token_url):
            return login
        if login.access_token != refused and not self._ends_soon(login):
            return login
        async with logins.lock_renewal(self._server):
            now = logins.get(self._server)
            if now is None or now.access_token != login.access_token:
                return now  # Another Harken process has renewed the token.
            renewed = await renew(now, self._clock)
            if renewed is not None:
                logins.put(self._server, renewed)
            return renewed or now

    def _ends_soon(self, login: Login) -> bool:
        renewable = login.refresh_token and login.token_url and login.expires_at_s
        return bool(renewable) and self._clock() > login.expires_at_s - EARLY_S

    def _format_action(self, response: httpx2.Response) -> str:
        """Return the action that would grant access."""
        name, status = self._server.name, response.status_code
        if self._has_user_header or self._logins is None:
            return f"HTTP {status}: set an authorization header in `headers`"
        if status == 401 and self._obstacle:
            return f"it needs a login that it does not get: {self._obstacle}"
        if status == 401:
            self.needs_login = True
            return f"it needs a login: `harken mcp login {name}`"
        challenge = response.headers.get("www-authenticate", "")[:_MAX_CHALLENGE_CHARS]
        if "insufficient_scope" not in challenge or self._login is None:
            return "HTTP 403: the login does not permit this"
        self.needs_login = True
        self._note(self._logins, challenge)
        return f"it requires more permissions than the login has: `harken mcp login {name}`"

    def _note(self, logins: Logins, challenge: str) -> None:
        """Store the challenge of the server, so that the next login requests more scopes."""
        with suppress(ConfigError):
            login = logins.get(self._server)
            if login is not None and login.challenge != challenge:
                logins.put(self._server, replace(login, challenge=challenge))


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _replace_by_error(response: httpx2.Response, text: str) -> None:
    """Replace a response by a JSON-RPC error with this text."""
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        await stream.aclose()
    error = {"code": _REFUSED_CODE, "message": text}
    response.stream = httpx2.ByteStream(
        canonical.to_json_line({"jsonrpc": "2.0", "id": None, "error": error})
    )
    response.headers["content-type"] = "application/json"


async def renew(login: Login, clock: Callable[[], float] = time.time) -> Login | None:
    """Return a login with a new token. Return None if the old one is no longer accepted.

    Raises ConfigError if the token endpoint cannot be asked now.
    """
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource:
        form["resource"] = login.resource
    status_code, data = await post_form(login, login.token_url, form)
    if status_code >= 500 or status_code == 429:
        raise ConfigError(f"its token cannot be refreshed now (HTTP {status_code})")
    if status_code not in (200, 201):
        return None
    try:
        token = OAuthToken.model_validate_json(data)
    except ValidationError:  # The error text would repeat the response.
        return None
    return with_token(login, token, clock())


async def post_form(
    login: Login, url: str, form: dict[str, str], within_s: float = RENEW_S
) -> tuple[int, bytes]:
    """Send a form to the token endpoint, authenticated as the client; return status and body.

    Raises ConfigError if there is no complete response within the time limit.
    """
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    form = {**form, "client_id": login.client_id}
    if login.method == "client_secret_basic" and login.client_secret:
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    elif login.method == "client_secret_post" and login.client_secret:
        form["client_secret"] = login.client_secret
    try:
        async with (
            asyncio.timeout(within_s),
            httpx2.AsyncClient(timeout=within_s) as client,
            client.stream("POST", url, data=form, headers=headers) as response,
        ):
            return response.status_code, await read_limited_body(response)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise ConfigError(f"its token cannot be renewed now ({type(error).__name__})") from None


async def read_limited_body(response: httpx2.Response) -> bytes:
    """Return the body of a response. Raises ConfigError if it is too long."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > MAX_BYTES:
            raise ConfigError("the response of the token endpoint is too large")
    return bytes(data)


def with_token(login: Login, token: OAuthToken, now_s: float) -> Login:
    """Return a login with a new token.

    Raises ConfigError if the token cannot be sent.
    """
    check_token(token)
    return replace(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        expires_at_s=now_s + min(token.expires_in, _MAX_LIFETIME_S) if token.expires_in else 0.0,
        scope=token.scope or login.scope,
    )


def check_token(token: OAuthToken) -> None:
    """Raise ConfigError for a token that is no valid header value, which an error would repeat."""
    if not _TOKEN_PATTERN.fullmatch(token.access_token):
        raise ConfigError("the token endpoint issued a token that is not a valid header value")
