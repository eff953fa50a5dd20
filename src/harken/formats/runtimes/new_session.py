"""What sessions that are written anew have in common: where their names and times come from.

One idea: the same conversation gives the same bytes. So nothing here asks a clock or draws lots:
names follow from the name of the session, and that, where nobody gives one, from what was said.

`format_of`: what any kind of files of another runtime is as a `Format`.

One idea: reading such a file gives steps, and a format gives entries: those that are read at the
end of its main conversation. And what is written of entries is a session that is named by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import NAMESPACE_URL, UUID, uuid5

from harken.core import canonical
from harken.formats.base import ConversationEntry, Format
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat, conversation, time_of

_NO_TIME = "1970-01-01T00:00:00.000000Z"
_MILLISECONDS = len("1970-01-01T00:00:00.000")


def named_by_content(entries: Iterable[ConversationEntry]) -> NewSessionInfo:
    """Return the session that a conversation becomes where nobody says what it is called.

    >>> named_by_content([]).folder
    '/'
    """
    digest = hashlib.sha256()
    first = None
    for entry in entries:
        digest.update(canonical.to_json_line([entry.message, entry.time]))
        first = first or time_of(entry.time)
    id_ = UUID(bytes=digest.digest()[:16], version=4)
    return NewSessionInfo(id=str(id_), folder="/", time=first or _NO_TIME)


def timed(
    entries: Iterable[ConversationEntry], session: NewSessionInfo
) -> Iterator[tuple[ConversationEntry, str]]:
    """Yield entries with their times, in milliseconds; who has none has that of the one before."""
    last = session.time
    for entry in entries:
        last = time_of(entry.time) or last
        yield entry, milliseconds(last)


def milliseconds(time: str) -> str:
    """Return a time as most runtimes write it.

    >>> milliseconds("2026-01-31T12:00:00.005999Z"), milliseconds("noon")
    ('2026-01-31T12:00:00.005Z', '1970-01-01T00:00:00.000Z')
    """
    return f"{(time_of(time) or _NO_TIME)[:_MILLISECONDS]}Z"


@dataclass(slots=True)
class RecordNames:
    """Gives the records of a session names: UUIDs that follow from its own."""

    session: NewSessionInfo
    _taken: set[str] = field(default_factory=set)

    def own(self, name: object) -> str | None:
        """Return a name that a record had before, if it is a UUID and nobody has it here."""
        is_free = isinstance(name, str) and _is_uuid(name) and name not in self._taken
        if not isinstance(name, str) or not is_free:
            return None
        self._taken.add(name)
        return name

    def new(self) -> UUID:
        """Return another name each time."""
        name = uuid5(_uuid(self.session.id), str(len(self._taken)))
        while str(name) in self._taken:
            name = uuid5(name, "again")
        self._taken.add(str(name))
        return name


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _uuid(name: str) -> UUID:
    return (
        UUID(name)
        if _is_uuid(name)
        else uuid5(NAMESPACE_URL, canonical.to_json_line(name).decode())
    )


def format_of(native: RuntimeFormat, media_type: str) -> Format:
    """Return the format with the same bytes; it is written where sessions can be."""
    writes = native.writes

    def written(entries: Sequence[ConversationEntry]) -> bytes | None:
        return None if writes is None else writes(entries, named_by_content(entries))

    return Format(
        name=native.name,
        media_type=media_type,
        reads=partial(conversation, native.steps),
        writes=None if writes is None else written,
    )
