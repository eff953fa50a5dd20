"""`UrlSubject`: a page, and how the pattern of a rule is compared with where it is.

`https://docs.python.org/*` is about URLs; what has no `://` is about hosts: `*.python.org`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

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
            url = f"{parts.scheme}://{at}{parts.path or '/'}{query}"
            self._host, self._url = host, "" if _leads_up(parts.path) else url

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it fits one of these patterns; what is no plain URL fits none."""
        return bool(self._url) and any(
            compiled(pattern).matches(self._url if "://" in pattern else self._host)
            for pattern in patterns
        )

    def is_held(self, pattern: str) -> Literal["yes", "no", "unknown"]:
        """Whether it fits, whichever scheme, upper or lower case, and however it is escaped.

        A host is meant with all of its pages.
        """
        wanted = folded(pattern)
        if self._host and "://" not in wanted:
            return "yes" if compiled(wanted).matches(folded(self._host)) else "no"
        if not self._url:
            return "unknown"
        written, rest = self._url.partition("://")[2], wanted.partition("://")[2]
        mine = {folded(written), folded(re.sub("//+", "/", unquote(written)))}
        patterns = (rest, f"{rest}/", f"{rest}/*")
        fits = any(compiled(pattern).matches(one) for pattern in patterns for one in mine)
        return "yes" if fits else "no"

    def offers(self) -> list[str]:
        """Offer this page, then all of its host."""
        if not self._url or len(self._url) > 300:
            return []
        scheme, _, rest = self._url.partition("://")
        return [escaped(self._url), f"{scheme}://{escaped(rest.partition('/')[0])}/*"]


def _leads_up(path: str) -> bool:
    """Whether a path has a name in it that stands for another one: `..`, also escaped."""
    return not {".", ".."}.isdisjoint(re.split(r"[/\\;]", unquote(path)))
