"""What passes on the wire, as it may be recorded: a path without credentials, a body decompressed.

Whoever sees calls (the proxy, a wrapped client) uses it, so that all write the same down.
"""

from __future__ import annotations

import re
from urllib.parse import quote_plus, unquote_plus

from harken.core.redaction import redact
from harken.errors import FormatError
from harken.recording.encodings import plain

MOST_BYTES = 1 << 28
"""What is larger, decompressed, is not recorded."""
_SECRET = re.compile(
    r"(?:^|[-_.])(?:(?:api)?key|(?:access|auth|security|id|refresh)?token|sig(?:nature)?|secret"
    r"|password|credentials?|auth(?:orization)?|code)$",
    re.IGNORECASE,
)


def path_of(target: str) -> str:
    """Return the path of a request with its query, without what could be a credential.

    >>> path_of("/v1/messages?beta=true&key=AIza123&X-Amz-Signature=5f")
    '/v1/messages?beta=true'
    """
    path, _, query = target.partition("#")[0].partition("?")
    kept = [pair for pair in query.split("&") if pair and not _is_secret(pair)]
    path = path if redact(path).text == path else quote_plus(redact(path).text, safe="/")
    return f"{path}?{'&'.join(kept)}" if kept else path


def _is_secret(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return bool(_SECRET.search(unquote_plus(name)) or redact(unquote_plus(value)).found)


def body_of(data: bytes, encoding: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a body as it was before it was compressed; one that was cut off, as far as it came.

    encoding: the header `Content-Encoding`; empty: it was not. Raises FormatError for an encoding
    that cannot be read here, for data that is not of it, and for more than `most_bytes`.
    """
    found = plain(data, encoding, most_bytes)
    if found.problem:
        raise FormatError("body", found.problem)
    return found.data
