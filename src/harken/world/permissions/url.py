"""`UrlSubject`: a page, and how the pattern of a rule is compared with where it is.

`https://docs.python.org/*` is about URLs; what has no `://` is about hosts: `*.python.org`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from harken.world.permissions.pattern import compiled, escaped, folded

_PORTS = {"http": 80, "https": 443}


class UrlSubject:
    """A URL in its one form: small host, no port where it is the usual one, no fragment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._host, self._url = "", ""
        try:
            parts = urlsplit(text.strip())
            host, port = (parts.hostname or "").rstrip("."), parts.port
            host = host if host.isascii() else host.encode("idna").decode().lower()
        except (ValueError, UnicodeError):
            return
        if parts.scheme in _PORTS and host and "@" not in parts.netloc and text.isprintable():
            shown = f"[{host}]" if ":" in host else host
            at = shown if port in (None, _PORTS[parts.scheme]) else f"{shown}:{port}"
            query = f"?{parts.query}" if parts.query else ""
            self._host, self._url = host, f"{parts.scheme}://{at}{parts.path or '/'}{query}"

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it fits one of these patterns; what is no plain URL fits none."""
        return bool(self._url) and any(
            compiled(pattern).matches(self._url if "://" in pattern else self._host)
            for pattern in patterns
        )

    def is_held(self, pattern: str) -> Literal["yes", "no", "unknown"]:
        """Whether it fits, whichever scheme, upper or lower case; a host with all of its pages."""
        if not self._url:
            return "unknown"
        wanted = folded(pattern)
        if "://" not in wanted:
            return "yes" if compiled(wanted).matches(folded(self._host)) else "no"
        mine = folded(self._url.partition("://")[2])
        rest = wanted.partition("://")[2]
        fits = any(compiled(one).matches(mine) for one in (rest, f"{rest}/", f"{rest}/*"))
        return "yes" if fits else "no"

    def offers(self) -> list[str]:
        """Offer this page, then all of its host."""
        if not self._url or len(self._url) > 300:
            return []
        scheme, _, rest = self._url.partition("://")
        return [escaped(self._url), f"{scheme}://{escaped(rest.partition('/')[0])}/*"]
