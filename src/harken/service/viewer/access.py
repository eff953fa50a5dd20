"""Access control of the viewer: its own page only, a token for all data, a proof of the server.

The proof is an HMAC of a nonce of the page with the token. A page sends the token, and all other
requests, only to a server that has proven to have it: another program may listen at the same port
after the viewer has stopped.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

import msgspec

from harken.core.loopback import foreign_page_refusal
from harken.service.access import check_bearer_token
from harken.service.viewer.responses.headers import API_PREFIX
from harken.store.remote.errors import RequestRefused

PROOF_PATH = f"{API_PREFIX}proof"
_PROOF_PREFIX = b"harken ui proof:"
"""The proof is of no other text, so it is useless for other purposes."""


def make_page_token() -> str:
    """Return a new token: one for each start of the viewer, and in no file.

    What a browser has of it is worthless when the viewer has stopped.
    """
    return secrets.token_urlsafe(32)


class PageAccessCheck(msgspec.Struct, frozen=True):
    """Checks that a request comes from the page of the viewer, or from a local program."""

    token: str

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise RequestRefused for a request that is not allowed.

        A link to the page may be opened from anywhere, since the built files have no data.
        """
        is_data = path.startswith(API_PREFIX)
        is_navigation = not is_data and headers.get("sec-fetch-mode") == "navigate"
        refusal = foreign_page_refusal(
            headers.get("origin"),
            headers.get("host"),
            None if is_navigation else headers.get("sec-fetch-site"),
        )
        if refusal:
            raise RequestRefused("forbidden", refusal)
        if is_data and path != PROOF_PATH:
            check_bearer_token(headers, self.token)

    def prove(self, nonce: str) -> str:
        """Return the HMAC-SHA256 of a nonce with the token, as 64 hexadecimal digits."""
        return hmac.digest(self.token.encode(), _PROOF_PREFIX + nonce.encode(), "sha256").hex()
