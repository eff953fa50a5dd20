"""Items of agent frameworks as lines of JSON, with their members in their order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def encode_item(item: object) -> bytes:
    """Return the line of an item, without its end. Raises TypeError, ValueError if it is no JSON.

    >>> encode_item({"role": "user", "content": "Grüezi"}).decode()
    '{"role":"user","content":"Grüezi"}'
    """
    text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def decode_item(line: bytes) -> Any:
    """Return the item of a line. Raises ValueError, RecursionError."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


def join_lines(lines: Iterable[bytes]) -> bytes:
    """Return the bytes of a file with these lines."""
    return b"".join(b"%b\n" % line for line in lines)


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file that are not blank."""
    return [line for line in data.split(b"\n") if line.strip()]
