"""Who may come in: whoever has the token, from this machine, and no page of a browser.

A page of any site can make a browser ask a port of this machine. It is told apart by what a
browser sends along: the `Origin` of the page, and as `Host` the name by which it found the port
(which an attacker may let point here). The token is the lock; this keeps pages from the door.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from harken.store.remote.connection import is_loopback
from harken.store.remote.failures import Refused

OPEN_PATH = "/v1/health"


@dataclass(frozen=True, slots=True)
class Gate:
    """Says who is refused."""

    token: str | None
    """None: whoever reaches the Unix socket is its owner already."""
    any_host: bool = False
    """Whether the service may be known by the names of other machines."""

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise Refused for who may not come in. `headers` have names in lower case."""
        if "origin" in headers:
            raise Refused("forbidden", "pages of browsers are not answered (Origin)")
        if not self.any_host and not is_loopback(host_of(headers.get("host", ""))):
            raise Refused("forbidden", "ask by the name of this machine, such as 127.0.0.1 (Host)")
        if self.token is None or path == OPEN_PATH:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise Refused("unauthorized", "send the token of the service: Authorization: Bearer")
        if not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise Refused("unauthorized", "this is not the token of this service")


def host_of(header: str) -> str:
    """Return the name in a `Host` header, without the port.

    >>> [host_of(text) for text in ("127.0.0.1:8420", "[::1]:8420", "localhost", "a:b:c")]
    ['127.0.0.1', '::1', 'localhost', '']
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    name, _, port = header.partition(":")
    return name.lower() if not port or port.isdigit() else ""
