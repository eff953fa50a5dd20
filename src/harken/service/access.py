"""Access control of the service: reject browsers, and require a token.

The token is in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.core.loopback import browser_refusal
from harken.errors import ConfigError
from harken.store.remote.errors import RequestRefused
from harken.world.private_file import read_own_file

_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{32,256}")
_MAX_TOKEN_FILE_BYTES = 1024
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def ensure_token(path: Path) -> str:
    """Return the token in this file. Create the file if it does not exist. Raises ConfigError."""
    try:
        return read_token(path)
    except FileNotFoundError:
        pass
    # The file is written under a temporary name, so that readers never see an incomplete token.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, _CREATE_FLAGS, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # Another service created the token first.
            os.link(temporary, path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: the token cannot be created ({error.strerror or error})"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def read_token(path: Path) -> str:
    """Return the token in this file.

    Raises FileNotFoundError, and ConfigError if the file is invalid or readable by other users.
    """
    data = read_own_file(path, _MAX_TOKEN_FILE_BYTES, what="this token", then="a new one is made")
    text = data.decode("ascii", "replace").strip()
    if not _TOKEN_PATTERN.fullmatch(text):
        raise ConfigError(f"{path}: contains no token: remove the file, and a new one is created")
    return text


HEALTH_PATH = "/v1/health"


class AccessCheck(msgspec.Struct, frozen=True):
    """Checks whether a request is allowed."""

    token: str | None
    """None for a Unix socket, which only its owner can access."""
    any_host: bool = False
    """Whether requests may address the service by any host name."""

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise RequestRefused for a request that is not allowed.

        Header names are in lower case.
        """
        origin, host = headers.get("origin"), headers.get("host")
        site = headers.get("sec-fetch-site")
        if refusal := browser_refusal(origin, host, site, any_host=self.any_host):
            raise RequestRefused("forbidden", refusal)
        if self.token is None or path == HEALTH_PATH:
            return
        check_bearer_token(headers, self.token)

    def is_token(self, token: str) -> bool:
        """Whether this is the token of the service. The comparison takes constant time."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())


def check_bearer_token(headers: Mapping[str, str], token: str) -> None:
    """Raise RequestRefused unless the headers contain this token."""
    sent_token = parse_bearer_token(headers)
    if sent_token is None:
        raise RequestRefused("unauthorized", "send the token of the service: Authorization: Bearer")
    if not hmac.compare_digest(sent_token.encode(), token.encode()):
        raise RequestRefused("unauthorized", "this is not the token of this service")


def parse_bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of a request, or None if it has none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None
