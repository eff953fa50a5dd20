"""Addresses: which machines a page may come from.

A name is looked up once, all that it stands for is judged, and the connection goes to what was
judged: a name that stands for another machine the next time leads nowhere else. Without leave,
nothing is fetched from this machine and from networks that are not public: what answers there
believes whoever can reach it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from harken.world.result import InvalidArguments, ToolError

Address: TypeAlias = IPv4Address | IPv6Address
LONGEST = 8000
"""Characters of a URL."""
_CARRIERS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
"""Networks of IPv6 whose last 32 bits are an address of IPv4."""
_NEVER = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "64:ff9b:1::/48")))
"""Public by the letter, and inside in truth: services of clouds (Oracle, Azure), local NAT64."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """Where a URL leads."""

    scheme: str
    host: str
    """In small letters of ASCII, without the brackets of IPv6."""
    port: int
    path: str
    """With the query; it begins with a slash."""

    @classmethod
    def of(cls, url: str) -> FetchTarget:
        """Read a URL. Raises InvalidArguments."""
        if len(url) > LONGEST or not url.isprintable() or " " in url.strip():
            raise InvalidArguments(
                "the URL is none: too long, or with blanks or odd characters in it"
            )
        try:
            parts = urlsplit(url.strip())
            host, port = _host(parts), parts.port
        except (ValueError, UnicodeError):
            raise InvalidArguments(f"{url[:200]} is no URL") from None
        if parts.scheme not in _PORTS:
            raise InvalidArguments("only http:// and https:// can be fetched")
        if not host or port == 0:
            raise InvalidArguments(f"{url[:200]} names no host")
        if parts.username or parts.password:
            raise InvalidArguments("a URL with a user or a password in it is not fetched")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], path)

    @property
    def authority(self) -> str:
        """Host and port as a header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL, in its one form."""
        return f"{self.scheme}://{self.authority}{self.path}"


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    return host if host.isascii() else host.encode("idna").decode().lower()


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """What may be fetched beside what is public."""

    allowed: Sequence[str] = ()
    """Hosts by name, or networks: `wiki.internal`, `10.0.0.0/8`, `127.0.0.1`."""

    async def addresses(self, place: FetchTarget) -> list[str]:
        """Return the addresses of a host, all judged. Raises ToolError, without naming them."""
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ToolError(
                f"there is no host {place.host}, or its name cannot be looked up"
            ) from None
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if place.host in self.allowed:
            return addresses
        if not addresses or not all(map(self._may_be_reached, addresses)):
            raise ToolError(
                f"{place.host} is this machine, or in a network that is not public; whoever "
                f"configures this program can allow it: [web] allow = [...]"
            )
        return addresses

    def _may_be_reached(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(address in network for network in self._networks()):
            return True
        return all(map(_is_public, _meant(address)))

    def _networks(self) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        for one in self.allowed:
            try:
                yield ipaddress.ip_network(one, strict=False)
            except ValueError:
                continue  # it is a name


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    inside = address.is_multicast or any(address in network for network in _NEVER)
    return address.is_global and not inside


def _meant(address: Address) -> Iterator[Address]:
    """Yield an address, and those that it stands for."""
    yield address
    if isinstance(address, IPv6Address):
        teredo = address.teredo or ()
        for inner in (address.ipv4_mapped, address.sixtofour, *teredo):
            if inner is not None:
                yield inner
        if any(address in network for network in _CARRIERS):
            yield IPv4Address(int(address) & 0xFFFFFFFF)
