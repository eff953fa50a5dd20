"""Which servers `harken proxy` asks, and what a client's environment must say to be passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from harken.capture.proxy.upstreams import (
    VARIABLES,
    VENDORS,
    Upstream,
    Upstreams,
    upstream,
    without_user,
)
from harken.core.loopback import is_loopback
from harken.errors import ConfigError


def upstreams_of(
    wanted: Sequence[str], environ: Mapping[str, str], server: str, token: str
) -> Upstreams:
    """Return the servers: those that are named, else those of the environment, else the vendors'.

    wanted: `NAME=URL`. server: the address of the proxy itself. Raises ConfigError.
    """
    urls = dict(VENDORS)
    for name, variable in VARIABLES.items():
        url = environ.get(variable, "").strip()
        if url and not _is_own(url, server, token):
            urls[name] = url
    for one in wanted:
        name, equals, url = one.partition("=")
        if not equals:
            raise ConfigError(f"{one}: --upstream takes NAME=URL, such as anthropic=https://...")
        urls[name] = url
    found = {name: _upstream(name, url, environ) for name, url in urls.items()}
    for url in urls.values():
        if _is_own(url, server, token):
            raise ConfigError(f"{url}: the proxy would ask itself; name another server")
    return Upstreams(found, token)


def for_command(
    command: Sequence[str], environ: Mapping[str, str], addresses: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the words and the environment with which a client asks through the proxy.

    addresses: of each provider, at the proxy.
    """
    found = dict(environ)
    for name, variable in VARIABLES.items():
        found[variable] = addresses[name]
    for variable in ("NO_PROXY", "no_proxy"):  # else it would ask the proxy of the network for us
        found[variable] = ",".join(filter(None, [found.get(variable, ""), "127.0.0.1"]))
    words = list(command)
    if Path(words[0]).name == "codex":  # which does not look into the environment
        words[1:1] = ["-c", f'openai_base_url="{addresses["openai"]}"']
    return words, found


def _upstream(name: str, url: str, environ: Mapping[str, str]) -> Upstream:
    return upstream(name, url, _network_proxy(url, environ))


def _network_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy of the network that the environment names for this server."""
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    found = next((environ[name] for name in names if environ.get(name)), None)
    without = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if found is None or is_loopback(host) or _is_among(host, without):
        return None
    if urlsplit(found).scheme != "http":
        shown = without_user(found)
        raise ConfigError(f"{shown}: only proxies of the network with http:// can be used here")
    return found


def _is_among(host: str, names: str) -> bool:
    """Whether a host is one of these, or below one of them.

    >>> [_is_among("api.example.com", names) for names in ("example.com, a", ".example.com", "*")]
    [True, True, True]
    >>> _is_among("example.com", "le.com")
    False
    """
    ends = [name.strip().removeprefix("*").lstrip(".") for name in names.split(",") if name.strip()]
    return any(not end or host == end or host.endswith(f".{end}") for end in ends)


def _is_own(url: str, server: str, token: str) -> bool:
    """Whether an address is one of this home's proxies: that of a shell may still be one."""
    try:
        parts, own = urlsplit(url), urlsplit(server)
        is_here = is_loopback(parts.hostname or "")
        return is_here and (parts.port == own.port or (bool(token) and token in parts.path))
    except ValueError:
        return False
