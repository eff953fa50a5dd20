"""Checks that reject requests of web pages to a server on this machine.

A web page can make a browser send requests to a port of this machine. The browser adds the
`Origin` of the page, and as `Host` the name under which it found the port, which an attacker may
let resolve to 127.0.0.1 (DNS rebinding). It omits the origin if a page loads an image or
the like, and sends `Sec-Fetch-Site`. Every server for local clients calls `browser_refusal` first,
also if it requires a token. Webhooks and the redirect of a browser login have secret addresses.

Source: RFC 6454 (Origin), RFC 9110 section 7.2 (Host), Fetch Metadata (Sec-Fetch-Site).
"""

from __future__ import annotations

import re
from ipaddress import ip_address

_HOST_PATTERN = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[]*))(?::[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback one.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "example.org", "0.0.0.0")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_host_header(header: str) -> str:
    """Return the name in a `Host` header without the port, or "" if the header is malformed.

    >>> [
    ...     parse_host_header(text)
    ...     for text in ("127.0.0.1:8420", "[::1]:8420", "localhost", "a:b", "[::1]x1")
    ... ]
    ['127.0.0.1', '::1', 'localhost', '', '']
    """
    match = _HOST_PATTERN.fullmatch(header)
    return "" if match is None else (match["v6"] or match["name"] or "").lower()


def browser_refusal(
    origin: str | None, host: str | None, site: str | None, *, any_host: bool = False
) -> str:
    """Return the reason to refuse a request with these headers as one of a web page, or "".

    `site`: `Sec-Fetch-Site`, which is `none` if the user typed the address. `any_host`: other
    machines may send requests, under other host names.
    """
    if origin is not None:
        return "pages of browsers are not answered (Origin)"
    if site is not None and site != "none":
        return "pages of browsers are not answered (Sec-Fetch-Site)"
    # No browser omits the host; a client that speaks HTTP/1.0 may.
    if not any_host and host is not None and not is_loopback(parse_host_header(host)):
        return "ask by the name of this machine, such as 127.0.0.1 (Host)"
    return ""


def foreign_page_refusal(origin: str | None, host: str | None, site: str | None) -> str:
    """Return the reason to refuse a request with these headers as one of a foreign page, or "".

    Requests of the server's own page are accepted: their origin is the address of the server.
    """
    if host is None or not is_loopback(parse_host_header(host)):
        return "ask by the name of this machine, such as 127.0.0.1 (Host)"
    if origin is not None and origin != f"http://{host}":
        return "pages of other servers are not answered (Origin)"
    if site not in (None, "none", "same-origin"):
        return "pages of other servers are not answered (Sec-Fetch-Site)"
    return ""
