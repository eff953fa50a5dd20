"""`Logins`: the file of what servers gave us when a person logged in: tokens, and who we are there.

One idea: a login belongs to a server's name and its address together. Whoever writes another
address under a known name, such as a project's configuration, finds nothing. Only the file's owner
can read it; it is read anew whenever it matters, since other programs of ours renew tokens, too.

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
"""How long another program may take that changes the file, or renews a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What is known of one login. None of the secrets in it is ever shown."""

    name: str
    """The server's."""
    place: str
    """Where it answers, for a person: without path and query, in which secrets may stand."""
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    method: str = ""
    """How the secret is sent: `client_secret_basic`, `client_secret_post`; else it is not."""
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at_s: float = 0.0
    """When the access token ends, in seconds since the epoch; 0: it is not known."""
    scope: str = ""
    """What the person let us do."""
    token_url: str = ""
    """Where tokens are renewed."""
    revoke_url: str = ""
    """Where they are given back; empty: nowhere."""
    resource: str = ""
    """What the tokens are for, where the server wants that said."""
    challenge: str = field(default="", repr=False)
    """What the server said last that it wants beyond what we may do there."""


class _File(msgspec.Struct, frozen=True):
    version: int
    logins: dict[str, Login]


def login_key(server: McpServerConfig) -> str:
    """Return what a login of a server is kept under: its name and its address, variables filled in.

    >>> one = McpServerConfig(name="docs", url="https://a.example/mcp")
    >>> login_key(one) == login_key(McpServerConfig(name="docs", url="https://b.example/mcp"))
    False
    """
    return sha256(f"{server.name}\n{server.url}".encode()).hexdigest()


def place_of(url: str) -> str:
    """Return the beginning of an address, in which no secret stands.

    >>> place_of("https://a.example:8443/mcp?key=k")
    'https://a.example:8443'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "what is no address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


@dataclass(frozen=True, slots=True)
class Logins:
    """The logins in one file; there may be none."""

    file: Path
    patience_s: float = LOCK_S

    def get(self, server: McpServerConfig) -> Login | None:
        """Return the login of a server, its variables filled in. Raises ConfigError."""
        return self.all().get(login_key(server))

    def all(self) -> dict[str, Login]:
        """Return all logins, by their keys. Raises ConfigError where the file cannot be used."""
        what, then = "the tokens in it", "log in again"
        try:
            data = read_own_file(self.file, MAX_BYTES, what=what, then=then)
            return msgspec.json.decode(data, type=_File).logins
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConfigError(f"{self.file}: is damaged; remove it, and {then}") from None

    def put(self, server: McpServerConfig, login: Login) -> None:
        """Keep the login of a server, in place of the one before. Raises ConfigError."""
        with self._changing() as logins:
            logins[login_key(server)] = login

    def remove(self, name: str) -> list[Login]:
        """Forget all logins of servers of this name, and return them. Raises ConfigError."""
        with self._changing() as logins:
            gone = [key for key, one in logins.items() if one.name == name]
            return [logins.pop(key) for key in gone]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Login]]:
        """Yield all logins, and write them down at the end, where they changed.

        Another program that does the same is waited for: it takes no longer than a file does.
        """
        until = time.monotonic() + self.patience_s
        with self._locked("") as descriptor:
            while not _is_ours(descriptor):
                if time.monotonic() > until:
                    raise ConfigError(f"{self.file}: another program changes it, without an end")
                time.sleep(0.02)
            logins = self.all()
            before = dict(logins)
            yield logins
            if logins != before:
                self._write(logins)

    @asynccontextmanager
    async def renewing(self, server: McpServerConfig) -> AsyncIterator[None]:
        """Keep other programs from renewing the token of a server: it can be done once only.

        Raises ConfigError where one does not come to an end with it.
        """
        until = time.monotonic() + self.patience_s
        with self._locked(f".{login_key(server)[:12]}") as descriptor:
            while not _is_ours(descriptor):
                if time.monotonic() > until:
                    raise ConfigError("another program renews its token, without an end")
                await asyncio.sleep(0.05)
            yield

    @contextmanager
    def _locked(self, which: str) -> Iterator[int]:
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = self.file.with_name(f"{self.file.name}{which}.lock")
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(
                f"{self.file}: cannot be written ({error.strerror or error})"
            ) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, logins: dict[str, Login]) -> None:
        """Replace the file in one step; nobody else can read it at any moment."""
        data = msgspec.json.format(msgspec.json.encode(_File(1, logins)), indent=1)
        try:
            replace_file(self.file, data)
        except OSError as error:
            raise ConfigError(
                f"{self.file}: cannot be written ({error.strerror or error})"
            ) from None


def _is_ours(descriptor: int) -> bool:
    """Try to lock a file; whether it is locked by us now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
