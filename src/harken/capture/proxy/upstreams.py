"""Upstreams: whose server a request is for, by the first word of its path.

A client is given `http://127.0.0.1:PORT/TOKEN/NAME` in place of the address of the provider NAME.
What it appends to the one is appended to the other, and nothing is guessed: a credential never goes
to another server than the one that the address names.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode, urlsplit

from harken.core.secrets.redaction import redact
from harken.errors import ConfigError

VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
}
VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
"""Where clients look for the address of a provider."""
CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex asks for those who are logged in with ChatGPT, and not with a key."""
CHATGPT_HEADER = "chatgpt-account-id"
_USER = re.compile(r"(?<=://)[^/@]*@")
_SECRET_NAMES = re.compile(r"key|token|secret|auth|sig|code|password", re.IGNORECASE)
"""In the name of a part of a query: its value may be a credential."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that is asked."""

    name: str
    url: str
    """Without a slash at its end."""
    proxy: str | None = None
    """The proxy of the network that leads there."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    upstream: Upstream
    rest: str
    """What is appended to the address: a path with its query."""

    @property
    def url(self) -> str:
        return self.upstream.url + self.rest

    @property
    def path(self) -> str:
        """The path at the server, with its query, without what is secret in it."""
        return without_credentials(urlsplit(self.upstream.url).path + self.rest)


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """Why a request goes nowhere."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Upstreams:
    """All servers that may be asked, by name."""

    by_name: Mapping[str, Upstream]
    token: str = ""
    """What must stand first in the path; empty: nothing."""

    def find(self, path: str, headers: Mapping[str, str]) -> Target | UpstreamError:
        """Return where a request goes, by its path as it was sent. Header names in any case."""
        if self.token:
            given, path = _first_word(path)
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return UpstreamError(
                    403, "the address must begin with the token that `harken proxy` says"
                )
        name, rest = _first_word(path)
        upstream = self.by_name.get(name)
        if upstream is None:
            known = ", ".join(f"/{one}" for one in self.by_name)
            return UpstreamError(404, f"no provider is called {name[:60]!r}; there are {known}")
        if upstream.url == VENDORS["openai"] and CHATGPT_HEADER in headers:
            upstream = replace(upstream, url=CHATGPT)
        return Target(upstream, rest)

    def address(self, name: str, server: str) -> str:
        """Return what a client is given as the address of a provider."""
        return "/".join([server, *([self.token] if self.token else []), name])


def without_user(url: str) -> str:
    """Return an address without what stands before it of a user.

    >>> without_user("http://jill:secret@localhost:80/v1")
    'http://...@localhost:80/v1'
    """
    return _USER.sub("...@", url)


def upstream(name: str, url: str, proxy: str | None = None) -> Upstream:
    """Check an address. Raises ConfigError.

    >>> upstream("local", "http://127.0.0.1:11434/v1/").url
    'http://127.0.0.1:11434/v1'
    """
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or parts.username is not None:
        shown = without_user(url)
        raise ConfigError(f"{shown}: is no address of a server; such as https://api.example.com/v1")
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise ConfigError(f"{name!r}: is no name for a provider; take letters, digits and -")
    return Upstream(name, url.rstrip("/"), proxy)


def without_credentials(path: str) -> str:
    """Return a path with its query, without keys in it.

    >>> without_credentials("/v1beta/models/m:generateContent?alt=sse&key=AIzaSy")
    '/v1beta/models/m:generateContent?alt=sse'
    """
    path, mark, query = path.partition("?")
    if mark:
        pairs = parse_qsl(query, keep_blank_values=True)
        kept = [pair for pair in pairs if not _SECRET_NAMES.search(pair[0])]
        if len(kept) < len(pairs):
            query = urlencode(kept)
    return redact(f"{path}?{query}" if query else path).text


def _first_word(path: str) -> tuple[str, str]:
    """Return the first segment of a path, and the rest, which begins with a slash or a query.

    >>> _first_word("/openai/responses?x=/"), _first_word("/openai?x=/y"), _first_word("/a")
    (('openai', '/responses?x=/'), ('openai', '?x=/y'), ('a', ''))
    """
    path = path.removeprefix("/")
    end = min((at for at in (path.find("/"), path.find("?")) if at >= 0), default=len(path))
    return path[:end], path[end:]
