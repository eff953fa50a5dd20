"""Access control of the viewer: its own page only, and a token for all data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from harken.core.loopback import foreign_page_refusal
from harken.service.access import check_bearer_token
from harken.service.viewer.responses.headers import API_PREFIX
from harken.store.remote.errors import RequestRefused


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
        if is_data:
            check_bearer_token(headers, self.token)
