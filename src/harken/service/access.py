"""The access check of the service: no web page, and only requests with the token.

The token: a file that only its owner can read, made once.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harken.core.loopback import browser_refusal
from harken.errors import ConfigError
from harken.store.remote.errors import RequestRefused
from harken.world.private_file import read_own_file

_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")


_MOST_BYTES = 1024


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def made_token(path: Path) -> str:
    """Return the token in this file, which is made where there is none. Raises ConfigError."""
    try:
        return read_token(path)
    except FileNotFoundError:
        pass
    # Made whole under another name first: whoever reads it never finds half of one.
    whole = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(whole, _NEW, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another service was faster: that one counts
            os.link(whole, path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"{path}: no token can be made ({error.strerror or error})") from None
    finally:
        with suppress(OSError):
            whole.unlink()


def read_token(path: Path) -> str:
    """Return the token in this file.

    Raises FileNotFoundError, and ConfigError for a file that others can read or that holds none.
    """
    data = read_own_file(path, _MOST_BYTES, what="this token", then="a new one is made")
    text = data.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"{path}: holds no token: remove it, and a new one is made")
    return text


OPEN_PATH = "/v1/health"


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """Says who is refused."""

    token: str | None
    """None: whoever reaches the Unix socket is its owner already."""
    any_host: bool = False
    """Whether the service may be known by the names of other machines."""

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise Refused for who may not come in. `headers` have names in lower case."""
        origin, host = headers.get("origin"), headers.get("host")
        site = headers.get("sec-fetch-site")
        if refusal := browser_refusal(origin, host, site, any_host=self.any_host):
            raise RequestRefused("forbidden", refusal)
        if self.token is None or path == OPEN_PATH:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise RequestRefused(
                "unauthorized", "send the token of the service: Authorization: Bearer"
            )
        if not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise RequestRefused("unauthorized", "this is not the token of this service")
