"""`Upstreams`: find the server for a request from the first segment of its path.

A client uses `http://127.0.0.1:PORT/TOKEN/NAME` instead of the address of the provider NAME. The
rest of the path is appended to the provider's address without changes. So a credential is only sent
to the server that the address names.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from harken.core import structs
from harken.core.secrets.redaction import redact
from harken.errors import ConfigError

VENDOR_URLS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
}
VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
"""The environment variables with which clients are given the address of a provider."""
CHATGPT_URL = "https://chatgpt.com/backend-api/codex"
"""The server of Codex for users who are logged in with ChatGPT instead of a key."""
CHATGPT_HEADER = "chatgpt-account-id"
_USER_PATTERN = re.compile(r"(?<=://)[^/@]*@")
_SECRET_NAME_PATTERN = re.compile(r"key|token|secret|auth|sig|code|password", re.IGNORECASE)
"""Matches names of query parameters that may be credentials."""


class Upstream(msgspec.Struct, frozen=True):
    """The server of a provider."""

    name: str
    url: str
    """The address, without a slash at the end."""
    proxy: str | None = None
    """The network proxy for this server."""


class Target(msgspec.Struct, frozen=True):
    """The destination of a request."""

    upstream: Upstream
    path_and_query: str
    """The path and the query that are appended to the address."""

    @property
    def url(self) -> str:
        return self.upstream.url + self.path_and_query

    @property
    def path(self) -> str:
        """The path at the server, with its query, without credentials."""
        return without_credentials(urlsplit(self.upstream.url).path + self.path_and_query)


class UpstreamError(msgspec.Struct, frozen=True):
    """Why a request has no destination."""

    status: int
    reason: str


class Upstreams(msgspec.Struct, frozen=True):
    """The configured servers, by name."""

    by_name: Mapping[str, Upstream]
    token: str = ""
    """The required first path segment. Empty if there is none."""

    def find(self, path: str, headers: Mapping[str, str]) -> Target | UpstreamError:
        """Return the destination of a request. Header names may be in any case."""
        if self.token:
            path_token, path = _split_first_segment(path)
            if not hmac.compare_digest(path_token.encode(), self.token.encode()):
                return UpstreamError(
                    403, "the address must begin with the token that `harken proxy` says"
                )
        name, remaining_path = _split_first_segment(path)
        upstream = self.by_name.get(name)
        if upstream is None:
            provider_paths = ", ".join(f"/{provider}" for provider in self.by_name)
            return UpstreamError(
                404, f"no provider is called {name[:60]!r}; there are {provider_paths}"
            )
        if upstream.url == VENDOR_URLS["openai"] and CHATGPT_HEADER in headers:
            upstream = structs.replace(upstream, url=CHATGPT_URL)
        return Target(upstream, remaining_path)

    def address(self, name: str, server: str) -> str:
        """Return the address of a provider for clients."""
        return "/".join([server, *([self.token] if self.token else []), name])


def without_user(url: str) -> str:
    """Return an address without its user information.

    >>> without_user("http://jill:secret@localhost:80/v1")
    'http://...@localhost:80/v1'
    """
    return _USER_PATTERN.sub("...@", url)


def upstream(name: str, url: str, proxy: str | None = None) -> Upstream:
    """Create an upstream from an address. Raises ConfigError if it is invalid.

    >>> upstream("local", "http://127.0.0.1:11434/v1/").url
    'http://127.0.0.1:11434/v1'
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or parts.username is not None:
        safe_url = without_user(url)
        raise ConfigError(
            f"{safe_url}: not the address of a server, such as https://api.example.com/v1"
        )
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise ConfigError(f"{name!r} is not a valid provider name: use letters, digits and -")
    return Upstream(name, url.rstrip("/"), proxy)


def without_credentials(path: str) -> str:
    """Return a path with its query, without credentials.

    >>> without_credentials("/v1beta/models/m:generateContent?alt=sse&key=AIzaSy")
    '/v1beta/models/m:generateContent?alt=sse'
    """
    path, mark, query = path.partition("?")
    if mark:
        pairs = parse_qsl(query, keep_blank_values=True)
        safe_pairs = [pair for pair in pairs if not _SECRET_NAME_PATTERN.search(pair[0])]
        if len(safe_pairs) < len(pairs):
            query = urlencode(safe_pairs)
    return redact(f"{path}?{query}" if query else path).text


def _split_first_segment(path: str) -> tuple[str, str]:
    """Return the first segment of a path, and the remainder, which starts with a slash or a query.

    >>> _split_first_segment("/openai/responses?x=/"), _split_first_segment("/openai?x=/y")
    (('openai', '/responses?x=/'), ('openai', '?x=/y'))
    >>> _split_first_segment("/a")
    ('a', '')
    """
    path = path.removeprefix("/")
    end = min(
        (position for position in (path.find("/"), path.find("?")) if position >= 0),
        default=len(path),
    )
    return path[:end], path[end:]
