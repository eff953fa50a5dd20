"""What Claude Code says of its requests: whether what is read here is what was sent.

One idea: newer versions record a hash of each message of each request, and those messages in full
that do not follow from the transcript, because reminders stand in them. So each hash is that of
such a message, or of one that is read here; what is neither was sent otherwise than it is read.

Source: docs/formats/claude-code.md, "Requests"; versions 2.1.329 and later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from harken.core import codec
from harken.formats.base import WholeEntry
from harken.formats.claude_code_sent import messages_in

REQUEST, MESSAGE = "api-request", "api-request-blob"


class Requests:
    """The hashes of a transcript, and what they are of."""

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}
        """Hash of a message -> the first request that holds it."""
        self._known: set[str] = set()

    def learn(self, record: Mapping[str, Any]) -> None:
        """Take a record of one of the two kinds; what has another shape tells nothing."""
        hash_, id_, tail = record.get("hash"), record.get("id"), record.get("tail")
        if record.get("type") == MESSAGE and isinstance(hash_, str):
            self._known.add(hash_)
        elif isinstance(id_, str) and isinstance(tail, list):
            for one in tail:
                if isinstance(one, str):
                    self._asked.setdefault(one, id_)

    def read(self, entries: Sequence[WholeEntry]) -> None:
        """Take what one step says."""
        if self._asked:
            self._known.update(map(hash_of, messages_in(entries)))

    def difference(self) -> str:
        """Return a line on what was sent otherwise than it is read; empty: nothing was."""
        strange = [hash_ for hash_ in self._asked if hash_ not in self._known]
        if not strange:
            return ""
        where = f"the first in the request {self._asked[strange[0]]}"
        return f"{len(strange)} of {len(self._asked)} messages were sent otherwise, {where}"


def hash_of(message: Mapping[str, Any]) -> str:
    """Return the hash by which the client names a message: 64 hex digits.

    >>> hash_of({"role": "user", "content": "hi"})[:12]
    'da3ac0b4d79d'
    """
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    plain = [{n: v for n, v in block.items() if n != "cache_control"} for block in content]
    return hashlib.sha256(codec.canonical({"content": plain, "role": message["role"]})).hexdigest()
