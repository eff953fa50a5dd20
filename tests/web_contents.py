"""The contents of a page in one file, read without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

CONTENTS = re.compile(rb'<script type="text/plain" id="contents">([^<]*)</script>')


def read_contents(page: bytes) -> bytes:
    """Return the data in a page, as JSON text."""
    match = CONTENTS.search(page)
    assert match is not None
    return gzip.decompress(base64.b64decode(match[1]))


def unpack_root(page: bytes) -> Any:
    """Return the whole contents of a session in a page."""
    document = json.loads(read_contents(page))["session"]
    return unpack(document, document["root"])


def unpack(document: dict[str, Any], packed: Any) -> Any:
    """Return a packed value as it was, by the description in `packing`."""
    if not isinstance(packed, list):
        return packed
    if packed[:1] == [-1]:
        return [unpack(document, item) for item in packed[1:]]
    if packed[:1] == [-2]:
        triples = [packed[at : at + 3] for at in range(1, len(packed), 3)]
        return [
            unpack(document, [table, row])
            for table, first, count in triples
            for row in range(first, first + count)
        ]
    if len(packed) == 1:
        return document["texts"][packed[0]]
    table = document["tables"][packed[0]]
    members = [unpack(document, column[packed[1]]) for column in table["columns"]]
    return dict(zip(table["names"], members, strict=True))
