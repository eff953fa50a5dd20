"""The access check of the service: no web page, and only requests with the token."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from harken.core.loopback import browser_refusal
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
        origin, host = headers.get("origin"), headers.get("host")
        site = headers.get("sec-fetch-site")
        if refusal := browser_refusal(origin, host, site, any_host=self.any_host):
            raise Refused("forbidden", refusal)
        if self.token is None or path == OPEN_PATH:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise Refused("unauthorized", "send the token of the service: Authorization: Bearer")
        if not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise Refused("unauthorized", "this is not the token of this service")
