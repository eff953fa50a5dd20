"""Ids and times of written sessions, and the `Format` of a session file format.

The same conversation gives the same bytes. So this module uses neither a clock nor random numbers:
record ids are derived from the session id, and a missing session id from the content.

`format_of` converts a RuntimeFormat to a Format: reading returns the entries at the end of the main
conversation, and writing creates a session with an id derived from the entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from harken.core import canonical
from harken.formats.base import ConversationEntry, Format
from harken.formats.runtimes.base import (
    NewSessionInfo,
    RuntimeFormat,
    parse_time,
    read_conversation,
)

_DEFAULT_TIME = "1970-01-01T00:00:00.000000Z"
_MILLISECONDS_CHARS = len("1970-01-01T00:00:00.000")


def derive_session_info(entries: Iterable[ConversationEntry]) -> NewSessionInfo:
    """Return a session with an id derived from the conversation.

    >>> derive_session_info([]).folder
    '/'
    """
    digest = hashlib.sha256()
    first = None
    for entry in entries:
        digest.update(canonical.to_json_line([entry.message, entry.time]))
        first = first or parse_time(entry.time)
    id_ = UUID(bytes=digest.digest()[:16], version=4)
    return NewSessionInfo(id=str(id_), folder="/", time=first or _DEFAULT_TIME)


def iter_timed(
    entries: Iterable[ConversationEntry], session: NewSessionInfo
) -> Iterator[tuple[ConversationEntry, str]]:
    """Yield entries with their times, in milliseconds.

    A missing time is that of the previous entry.
    """
    last = session.time
    for entry in entries:
        last = parse_time(entry.time) or last
        yield entry, format_milliseconds(last)


def format_milliseconds(time: str) -> str:
    """Return a time in the form of most runtimes.

    >>> format_milliseconds("2026-01-31T12:00:00.005999Z"), format_milliseconds("noon")
    ('2026-01-31T12:00:00.005Z', '1970-01-01T00:00:00.000Z')
    """
    return f"{(parse_time(time) or _DEFAULT_TIME)[:_MILLISECONDS_CHARS]}Z"


class RecordNames(msgspec.Struct):
    """Assigns ids to the records of a session: UUIDs derived from the session id."""

    session: NewSessionInfo
    _used_ids: set[str] = msgspec.field(default_factory=set)

    def reuse_id(self, name: object) -> str | None:
        """Return the original id of a record, if it is a UUID and not in use.

        Return None otherwise.
        """
        is_free = isinstance(name, str) and _is_uuid(name) and name not in self._used_ids
        if not isinstance(name, str) or not is_free:
            return None
        self._used_ids.add(name)
        return name

    def new(self) -> UUID:
        """Return a new unique id."""
        name = uuid5(_as_uuid(self.session.id), str(len(self._used_ids)))
        while str(name) in self._used_ids:
            name = uuid5(name, "again")
        self._used_ids.add(str(name))
        return name


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _as_uuid(name: str) -> UUID:
    return (
        UUID(name)
        if _is_uuid(name)
        else uuid5(NAMESPACE_URL, canonical.to_json_line(name).decode())
    )


def build_format(native: RuntimeFormat, media_type: str) -> Format:
    """Return the Format with the same bytes. It can be written if sessions can."""
    writes = native.writes

    def written(entries: Sequence[ConversationEntry]) -> bytes | None:
        return None if writes is None else writes(entries, derive_session_info(entries))

    return Format(
        name=native.name,
        media_type=media_type,
        reads=partial(read_conversation, native.steps),
        writes=None if writes is None else written,
    )
