"""Redaction of a session before its answers are computed.

Events are redacted, not answers: a text that is cut or compared word by word no longer shows that
a credential was in it. The hashes that cover a text are computed again, as in a bundle, so a
redacted context is not taken for a damaged one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.messages import ChatMessage, Message
from harken.core.secrets.home_folders import HomeFolders
from harken.core.secrets.redaction import Credentials
from harken.core.secrets.removal import in_json
from harken.errors import HarkenError
from harken.service.viewer.library import SessionSource
from harken.session.fold import Resolver
from harken.session.rewrite import LogRewriter, PartOfStructure

_WORD = re.compile(r"[A-Za-z0-9_.-]{0,15}")
"""Matches a text that is too short for a credential, and has no name before one."""


class SessionRedaction:
    """Removes credentials and the names of home folders from texts, and counts them."""

    def __init__(self, homes: HomeFolders) -> None:
        self.credentials, self.homes = Credentials(), homes

    @property
    def counts(self) -> dict[str, Any]:
        """The numbers of different credentials by kind, and of home folders."""
        return {"credentials": self.credentials.kinds, "home_folders": self.homes.count}

    def count_event(self, event: ev.Event) -> None:
        """Count the credentials and home folders in an event."""
        self.redact_line(ev.encode_event(event))

    def replace(self, text: str) -> str:
        """Return a text without them."""
        if _WORD.fullmatch(text):
            return text
        return self.homes.replace(self.credentials.replace(text))

    def redact_json(self, value: object) -> Any:
        """Return a JSON value, or rows, with redacted texts as a JSON value."""
        return canonical.from_json(self.redact_line(canonical.to_json_line(value)))

    def redact_line(self, line: bytes) -> bytes:
        """Return a JSON text with redacted texts, also behind names such as `password`."""
        return in_json(self.credentials.replace_in_bytes(line), self.homes.replace)


class RedactedSource:
    """The redacted events of another source, which is not followed any more."""

    def __init__(self, source: SessionSource, redaction: SessionRedaction) -> None:
        """Nothing is read yet."""
        self.key = source.key
        self._source, self._redaction = source, redaction
        replace = redaction.replace
        self._rewriter = LogRewriter(replace, replace, self._resolve)

    @property
    def resolver(self) -> Resolver:
        """Return the redacted messages of commits that agents started from."""
        return self._resolve

    def read(self) -> Sequence[ev.Event]:
        """Return the redacted events since the last call.

        Raises HarkenError, also if a redacted event would be invalid.
        """
        lines = self._rewriter.lines(map(ev.encode_event, self._source.read()))
        try:
            return [ev.decode_event(self._redaction.redact_line(line)) for line in lines]
        except (PartOfStructure, ValueError):
            raise HarkenError(
                "a credential or a home folder is part of an id or a name that other events use; "
                "use --no-redact, or purge it first"
            ) from None

    def find_version(self) -> object:
        """Return None, since the source is read once."""

    def is_live(self) -> bool:
        """Return False, since the source is not followed."""
        return False

    def _resolve(self, event: ev.ContextLoaded) -> list[ChatMessage]:
        return [
            msgspec.convert(self._redaction.redact_json(message), Message)
            for message in self._source.resolver(event)
        ]
