"""Which requests to a server on this machine come from a program of this machine.

A web page can make a browser send requests to a port of this machine. The browser sends along the
`Origin` of the page, and as `Host` the name under which it found the port, which an attacker may
let resolve to 127.0.0.1 (DNS rebinding). Every server of Harken calls `browser_refusal` first, also
where it wants a token.

Source: RFC 6454 (Origin), RFC 9110 section 7.2 (Host).
"""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of this machine and of no other.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "example.org", "0.0.0.0")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """Return the name in a `Host` header without the port; "" if the header is malformed.

    >>> [host_of(text) for text in ("127.0.0.1:8420", "[::1]:8420", "localhost", "a:b:c")]
    ['127.0.0.1', '::1', 'localhost', '']
    """
    if header.startswith("["):
        name, _, port = header[1:].partition("]")
        return name.lower() if not port or port[1:].isdigit() else ""
    name, _, port = header.partition(":")
    return name.lower() if not port or port.isdigit() else ""


def browser_refusal(origin: str | None, host: str | None, *, any_host: bool = False) -> str:
    """Return why a request with these headers is refused as one of a web page; "" if it is not.

    `any_host`: other machines may send requests, by names of their own.
    """
    if origin is not None:
        return "pages of browsers are not answered (Origin)"
    # No browser leaves the host out; a client that speaks HTTP/1.0 may.
    if not any_host and host is not None and not is_loopback(host_of(host)):
        return "ask by the name of this machine, such as 127.0.0.1 (Host)"
    return ""
