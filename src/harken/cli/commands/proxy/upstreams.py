"""The servers of `harken proxy`, and the environment of a client that uses the proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from harken.capture.proxy.upstreams import (
    VARIABLES,
    VENDOR_URLS,
    Upstream,
    Upstreams,
    upstream,
    without_user,
)
from harken.core.loopback import is_loopback
from harken.errors import ConfigError


def build_upstreams(
    selected_names: Sequence[str], environ: Mapping[str, str], server: str, token: str
) -> Upstreams:
    """Return the servers: the named ones, else those of the environment, else the vendors'.

    wanted: `NAME=URL`. server: the address of the proxy itself. Raises ConfigError.
    """
    urls = dict(VENDOR_URLS)
    for name, variable in VARIABLES.items():
        url = environ.get(variable, "").strip()
        if url and not _is_own_server(url, server, token):
            urls[name] = url
    for entry in selected_names:
        name, equals, url = entry.partition("=")
        if not equals:
            raise ConfigError(f"{entry}: --upstream needs NAME=URL, such as anthropic=https://...")
        urls[name] = url
    upstreams = {name: _upstream(name, url, environ) for name, url in urls.items()}
    for url in urls.values():
        if _is_own_server(url, server, token):
            raise ConfigError(f"{url}: this is the proxy itself; name another server")
    return Upstreams(upstreams, token)


def build_client_environment(
    command: Sequence[str], environ: Mapping[str, str], addresses: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a client that uses the proxy.

    addresses: of each provider, at the proxy.
    """
    variables = dict(environ)
    for name, variable in VARIABLES.items():
        variables[variable] = addresses[name]
    for variable in ("NO_PROXY", "no_proxy"):  # otherwise the client would use the network proxy
        variables[variable] = ",".join(filter(None, [variables.get(variable, ""), "127.0.0.1"]))
    words = list(command)
    if Path(words[0]).name == "codex":  # Codex ignores the environment
        words[1:1] = ["-c", f'openai_base_url="{addresses["openai"]}"']
    return words, variables


def _upstream(name: str, url: str, environ: Mapping[str, str]) -> Upstream:
    return upstream(name, url, _network_proxy(url, environ))


def _network_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the network proxy of the environment for this server."""
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    without = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if proxy is None or is_loopback(host) or _matches(host, without):
        return None
    if urlsplit(proxy).scheme != "http":
        shown_url = without_user(proxy)
        raise ConfigError(f"{shown_url}: only http:// URLs of network proxies are supported")
    return proxy


def _matches(host: str, names: str) -> bool:
    """Whether a host is one of these, or below one of them.

    >>> [_matches("api.example.com", names) for names in ("example.com, a", ".example.com", "*")]
    [True, True, True]
    >>> _matches("example.com", "le.com")
    False
    """
    ends = [name.strip().removeprefix("*").lstrip(".") for name in names.split(",") if name.strip()]
    return any(not end or host == end or host.endswith(f".{end}") for end in ends)


def _is_own_server(url: str, server: str, token: str) -> bool:
    """Whether an address is a proxy of this home: a shell may still have an old one."""
    try:
        parts, server_parts = urlsplit(url), urlsplit(server)
        is_here = is_loopback(parts.hostname or "")
        return is_here and (
            parts.port == server_parts.port or (bool(token) and token in parts.path)
        )
    except ValueError:
        return False
