"""`Bearer`: lets requests to a server be those of a person who logged in there.

A token that ends is renewed on the way; one that is refused is renewed once. Where neither helps,
the answer becomes an error that says what to do, and the connection stays: after a login, elsewhere
or in an hour, the next call simply works.

The SDK's `OAuthClientProvider` is what a person logs in with (`oauth.py`). Calls do not go through
it: it holds a lock until the server answers, so that calls wait for each other; it renews tokens at
a place that it forgot with its process; and it begins to log in where nobody is there to do so.
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
"""A token that ends so soon is renewed before it is used."""
RENEW_S = 30.0
MAX_BYTES = 1 << 20
_LONG_S = 1 << 32
"""A token that lasts longer than a century lasts so long."""
_REFUSED = -32001
"""The code of the error that stands for an answer which let nobody in."""
_CHALLENGE = 2000
_TOKEN = re.compile(r"[!-~]+")


class Bearer(httpx2.Auth):
    """What one server is sent to let us in."""

    def __init__(
        self,
        server: McpServerConfig,
        logins: Logins | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """server: its variables filled in. Without `logins` nobody can log in."""
        assert server.url is not None
        self._server, self._logins, self._clock = server, logins, clock
        self._own = any(name.lower() == "authorization" for name in server.headers)
        self._origin = _origin(httpx2.URL(server.url))
        self._login: Login | None = None
        self._is_read = False
        self._obstacle = ""
        """Why a token could not be had when one was looked for last."""
        self.wants = ""
        """What a person has to do, where the server did not let us in when it was asked last."""
        self.needs_login = False
        """Whether that is to log in."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request as the person who logged in; a second time where its token was renewed."""
        is_for_us = not self._own and _origin(request.url) == self._origin
        token = await self._token() if is_for_us else ""
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and is_for_us:
            token = await self._token(refused=token)
            if token:
                request.headers["authorization"] = f"Bearer {token}"
                response = yield request
        self.wants, self.needs_login = "", False
        if response.status_code in (401, 403):
            self.wants = self._why(response)
            await _says(response, self.wants)

    async def _token(self, refused: str | None = None) -> str:
        """Return a token that may let us in, another than was refused; empty where there is none.

        Raises nothing: where none can be had, the server says that it wants one, and `_why` why.
        """
        login = self._login
        if refused is not None or not self._is_read or (login and self._ends_soon(login)):
            self._is_read, self._obstacle = True, ""
            try:
                self._login = login = await self._found(refused)
            except ConfigError as error:
                self._obstacle = str(error)
        return "" if login is None or login.access_token == refused else login.access_token

    async def _found(self, refused: str | None) -> Login | None:
        """Return the login as it is now, with a new token where that is needed and can be had.

        Raises ConfigError where the file of logins, or who gives tokens, cannot be used now.
        """
        logins = self._logins
        login = None if logins is None else logins.get(self._server)
        if logins is None or login is None or not (login.refresh_token and login.token_url):
            return login
        if login.access_token != refused and not self._ends_soon(login):
            return login
        async with logins.renewing(self._server):
            now = logins.get(self._server)
            if now is None or now.access_token != login.access_token:
                return now  # another program of ours was faster
            found = await renew(now, self._clock)
            if found is not None:
                logins.put(self._server, found)
            return found or now

    def _ends_soon(self, login: Login) -> bool:
        renewable = login.refresh_token and login.token_url and login.expires_at_s
        return bool(renewable) and self._clock() > login.expires_at_s - EARLY_S

    def _why(self, response: httpx2.Response) -> str:
        """Say what lets us in."""
        name, status = self._server.name, response.status_code
        if self._own or self._logins is None:
            return f"it answers HTTP {status}: name a header that lets you in, in `headers`"
        if status == 401 and self._obstacle:
            return f"it needs a login that it does not get: {self._obstacle}"
        if status == 401:
            self.needs_login = True
            return f"it needs a login: `harken mcp login {name}`"
        challenge = response.headers.get("www-authenticate", "")[:_CHALLENGE]
        if "insufficient_scope" not in challenge or self._login is None:
            return "it answers HTTP 403: whoever logged in may not do that"
        self.needs_login = True
        self._note(self._logins, challenge)
        return f"it wants leave for more than you gave at the login: `harken mcp login {name}`"

    def _note(self, logins: Logins, challenge: str) -> None:
        """Keep what it wants beyond what we may: the next login asks for that, too."""
        with suppress(ConfigError):
            login = logins.get(self._server)
            if login is not None and login.challenge != challenge:
                logins.put(self._server, replace(login, challenge=challenge))


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _says(response: httpx2.Response, text: str) -> None:
    """Let an answer be an error of the protocol with this text, whatever the server wrote."""
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        await stream.aclose()
    error = {"code": _REFUSED, "message": text}
    response.stream = httpx2.ByteStream(
        canonical.to_json_line({"jsonrpc": "2.0", "id": None, "error": error})
    )
    response.headers["content-type"] = "application/json"


async def renew(login: Login, clock: Callable[[], float] = time.time) -> Login | None:
    """Return a login with a new token for its old one; None where there is none for it any more.

    Raises ConfigError where that cannot be asked now.
    """
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource:
        form["resource"] = login.resource
    status, data = await posted(login, login.token_url, form)
    if status >= 500 or status == 429:
        raise ConfigError(f"its token cannot be renewed now (HTTP {status})")
    if status not in (200, 201):
        return None
    try:
        token = OAuthToken.model_validate_json(data)
    except ValidationError:  # its text would repeat what was answered
        return None
    return with_token(login, token, clock())


async def posted(
    login: Login, url: str, form: dict[str, str], within_s: float = RENEW_S
) -> tuple[int, bytes]:
    """Send a form to who gives tokens, as who we are there; return the status and the answer.

    Raises ConfigError where there is none within that time, however slowly one comes.
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
    """Return the body of an answer. Raises ConfigError for one that is too long."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > MAX_BYTES:
            raise ConfigError("who gives tokens answers more than anybody can use")
    return bytes(data)


def with_token(login: Login, token: OAuthToken, now_s: float) -> Login:
    """Return a login with a token that was just given, in place of the one before.

    Raises ConfigError for one that cannot be sent.
    """
    check_token(token)
    return replace(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        expires_at_s=now_s + min(token.expires_in, _LONG_S) if token.expires_in else 0.0,
        scope=token.scope or login.scope,
    )


def check_token(token: OAuthToken) -> None:
    """Refuse one that cannot be sent: whoever tried would repeat it in an error.

    Raises ConfigError.
    """
    if not _TOKEN.fullmatch(token.access_token):
        raise ConfigError("who gives tokens gave one that cannot be sent")
