"""`Logins`: the file with tokens and client registrations from logins at MCP servers.

A login belongs to the name and URL of a server together, so another URL under a known name, such as
in the configuration of a project, has no login. Only the owner can read the file. It is read again
before each use, because other processes renew tokens, too.

Source: docs/how-to/use-mcp-servers.md.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from harken.errors import ConfigError
from harken.world.mcp.server_config import McpServerConfig
from harken.world.private_file import read_own_file, replace_file

MAX_BYTES = 4 << 20
LOCK_S = 30.0
"""The time limit for another process that changes the file or renews a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A stored login. Its secrets are never shown."""

    name: str
    """The name of the server."""
    place: str
    """Its origin, for a person: without path and query, which may contain secrets."""
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    method: str = ""
    """The method to send the secret: `client_secret_basic`, `client_secret_post`, or else none."""
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at_s: float = 0.0
    """The expiry of the access token, in seconds since the epoch; 0 if unknown."""
    scope: str = ""
    """The granted scopes."""
    token_url: str = ""
    """The token endpoint."""
    revoke_url: str = ""
    """The revocation endpoint; empty if there is none."""
    resource: str = ""
    """The resource of the tokens, if the server requires it."""
    challenge: str = field(default="", repr=False)
    """The last challenge of the server for more scopes."""


class _File(msgspec.Struct, frozen=True):
    version: int
    logins: dict[str, Login]


def login_key(server: McpServerConfig) -> str:
    """Return the key of a login: a hash of the server's name and its URL with resolved variables.

    >>> one = McpServerConfig(name="docs", url="https://a.example/mcp")
    >>> login_key(one) == login_key(McpServerConfig(name="docs", url="https://b.example/mcp"))
    False
    """
    return sha256(f"{server.name}\n{server.url}".encode()).hexdigest()


def place_of(url: str) -> str:
    """Return the origin of a URL, which contains no secret.

    >>> place_of("https://a.example:8443/mcp?key=k")
    'https://a.example:8443'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class Logins(msgspec.Struct, frozen=True):
    """The logins in one file, which may not exist."""

    file: Path
    lock_timeout_s: float = LOCK_S

    def get(self, server: McpServerConfig) -> Login | None:
        """Return the login of a server with resolved variables. Raises ConfigError."""
        return self.by_key().get(login_key(server))

    def by_key(self) -> dict[str, Login]:
        """Return all logins by key. Raises ConfigError if the file cannot be used."""
        secrets_text, next_step = "the tokens in it", "log in again"
        try:
            data = read_own_file(self.file, MAX_BYTES, what=secrets_text, then=next_step)
            return msgspec.json.decode(data, type=_File).logins
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConfigError(f"{self.file}: damaged; remove it, and {next_step}") from None

    def put(self, server: McpServerConfig, login: Login) -> None:
        """Store the login of a server and replace the previous one. Raises ConfigError."""
        with self._edit() as logins:
            logins[login_key(server)] = login

    def remove(self, name: str) -> list[Login]:
        """Remove all logins of servers of this name, and return them. Raises ConfigError."""
        with self._edit() as logins:
            keys = [key for key, login in logins.items() if login.name == name]
            return [logins.pop(key) for key in keys]

    @contextmanager
    def _edit(self) -> Iterator[dict[str, Login]]:
        """Yield all logins, and write them at the end if they changed.

        It waits for another process that does the same, which is short.
        """
        deadline = time.monotonic() + self.lock_timeout_s
        with self._open_lock_file("") as descriptor:
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise ConfigError(f"{self.file}: locked by another process for too long")
                time.sleep(0.02)
            logins = self.by_key()
            previous = dict(logins)
            yield logins
            if logins != previous:
                self._write(logins)

    @asynccontextmanager
    async def lock_renewal(self, server: McpServerConfig) -> AsyncIterator[None]:
        """Prevent other processes from renewing the token of a server, which is possible once.

        Raises ConfigError if another process does not finish in time.
        """
        deadline = time.monotonic() + self.lock_timeout_s
        with self._open_lock_file(f".{login_key(server)[:12]}") as descriptor:
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise ConfigError("another process is refreshing the token for too long")
                await asyncio.sleep(0.05)
            yield

    @contextmanager
    def _open_lock_file(self, suffix: str) -> Iterator[int]:
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = self.file.with_name(f"{self.file.name}{suffix}.lock")
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.file}: write failed: {error.strerror or error}") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, logins: dict[str, Login]) -> None:
        """Replace the file atomically; other users can never read it."""
        data = msgspec.json.format(msgspec.json.encode(_File(1, logins)), indent=1)
        try:
            replace_file(self.file, data)
        except OSError as error:
            raise ConfigError(f"{self.file}: write failed: {error.strerror or error}") from None


def _try_lock(descriptor: int) -> bool:
    """Try to lock a file; return whether it succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
