"""Network addresses that a page may be fetched from.

A host name is resolved once, all of its addresses are checked, and the connection uses a checked
address, so a later change in DNS has no effect. By default no page is fetched from this machine or
from networks that are not public, because services there trust every client.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

import msgspec

from harken.world.result import InvalidArguments, ToolError

Address: TypeAlias = IPv4Address | IPv6Address
MAX_URL_CHARS = 8000
"""The maximum length of a URL in characters."""
_EMBEDDING_NETWORKS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
"""IPv6 networks with an IPv4 address in the last 32 bits."""
_INTERNAL_NETWORKS = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "64:ff9b:1::/48"))
)
"""Formally public networks with internal services: clouds (Oracle, Azure), local NAT64."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class FetchTarget(msgspec.Struct, frozen=True):
    """The parsed target of a URL."""

    scheme: str
    host: str
    """In lowercase ASCII, without the brackets of IPv6."""
    port: int
    path: str
    """With the query; it begins with a slash."""

    @classmethod
    def of(cls, url: str) -> FetchTarget:
        """Parse a URL. Raises InvalidArguments."""
        if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url.strip():
            raise InvalidArguments(
                "not a valid URL: too long, or with blanks or invalid characters"
            )
        try:
            parts = urlsplit(url.strip())
            host, port = _normalize_host(parts), parts.port
        except (ValueError, UnicodeError):
            raise InvalidArguments(f"{url[:200]} is not a URL") from None
        if parts.scheme not in _DEFAULT_PORTS:
            raise InvalidArguments("only http:// and https:// can be fetched")
        if not host or port == 0:
            raise InvalidArguments(f"{url[:200]} has no host")
        if parts.username or parts.password:
            raise InvalidArguments("URLs with a user or a password cannot be fetched")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme], path)

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the normalized URL."""
        return f"{self.scheme}://{self.authority}{self.path}"


def _normalize_host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    return host if host.isascii() else host.encode("idna").decode().lower()


class NetworkPolicy(msgspec.Struct, frozen=True):
    """The networks that may be reached besides public ones."""

    allowed: Sequence[str] = ()
    """Hosts by name, or networks: `wiki.internal`, `10.0.0.0/8`, `127.0.0.1`."""

    async def addresses(self, place: FetchTarget) -> list[str]:
        """Resolve a host and check all addresses. Raises ToolError, without the addresses."""
        try:
            loop = asyncio.get_running_loop()
            entries = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ToolError(f"host {place.host} not found") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        if place.host in self.allowed:
            return addresses
        if not addresses or not all(map(self._is_allowed, addresses)):
            raise ToolError(
                f"{place.host} is this machine, or in a private network; the user can "
                "allow it in config.toml: [web] allow = [...]"
            )
        return addresses

    def _is_allowed(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(address in network for network in self._networks()):
            return True
        return all(map(_is_public, _iter_embedded(address)))

    def _networks(self) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        for entry in self.allowed:
            try:
                yield ipaddress.ip_network(entry, strict=False)
            except ValueError:
                continue  # The entry is a host name.


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    is_internal = address.is_multicast or any(address in network for network in _INTERNAL_NETWORKS)
    return address.is_global and not is_internal


def _iter_embedded(address: Address) -> Iterator[Address]:
    """Yield an address, and the addresses embedded in it."""
    yield address
    if isinstance(address, IPv6Address):
        teredo = address.teredo or ()
        for inner in (address.ipv4_mapped, address.sixtofour, *teredo):
            if inner is not None:
                yield inner
        if any(address in network for network in _EMBEDDING_NETWORKS):
            yield IPv4Address(int(address) & 0xFFFFFFFF)
