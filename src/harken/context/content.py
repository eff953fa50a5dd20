"""What commits hold: the entries of a delta, or bytes in the format of some runtime.

One idea: bytes are read when somebody wants what they say, by whoever knows their format then. So
a commit in a format that nobody knows yet is a commit like any other; until somebody does, its
bytes stand in the conversation as they are, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harken.context.messages import messages_of
from harken.core.commits import ArtifactRef, Entry
from harken.core.messages import Message
from harken.errors import FormatError, UnknownName
from harken.formats.base import WholeEntry
from harken.formats.registry import FORMATS, Formats
from harken.store.base import Store, Stored

MOST_SHOWN = 50_000
"""How many bytes that nobody can read stand in a conversation."""


@dataclass(frozen=True, slots=True)
class Content:
    """What one commit holds."""

    stored: Stored
    entries: list[WholeEntry] | None
    """Of a delta; None: the artifact is bytes."""
    data: bytes = b""

    @property
    def format(self) -> str:
        """The format that the commit says."""
        return self.stored.commit.format


def contents_of(store: Store, commits: Sequence[Stored]) -> list[Content]:
    """Return what commits hold: a few round trips, and one for each that holds bytes.

    Raises ObjectMissing, ObjectDamaged.
    """
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    entries = _whole(store, deltas)
    return [
        Content(one, entries[one.commit.artifact])
        if one.commit.artifact in entries
        else Content(one, None, store.raw(one.commit.artifact))
        for one in commits
    ]


def read_content(content: Content, formats: Formats = FORMATS) -> list[WholeEntry]:
    """Return the entries of a content.

    Raises UnknownName for a format that nobody here reads, FormatError for bytes that are none.
    """
    if content.entries is not None:
        return content.entries
    reads = formats.reader(content.format)
    if reads is None:
        raise UnknownName("format to be read", content.format, formats.names())
    return reads(content.data)


def entries_or_note(content: Content, formats: Formats = FORMATS) -> list[WholeEntry]:
    """Return the entries of a content; where it cannot be read, one that shows its bytes."""
    try:
        return read_content(content, formats)
    except (UnknownName, FormatError):
        return [_note(content)]


def _note(content: Content) -> WholeEntry:
    data, commit = content.data, content.stored.commit
    shown = data[:MOST_SHOWN].decode("utf-8", "backslashreplace")
    first = "" if len(data) <= MOST_SHOWN else f", of which the first {MOST_SHOWN} follow"
    note = (
        f"[{len(data)} bytes in the format {commit.format!a}, which cannot be read here{first}; "
        f"all of them: `harken cat {commit.artifact}`]"
    )
    return WholeEntry(Message("user", f"{note}\n\n{shown}"), commit.created_at)


def _whole(
    store: Store, deltas: Mapping[ArtifactRef, Sequence[Entry]]
) -> dict[ArtifactRef, list[WholeEntry]]:
    """Return the entries of deltas with their messages, all read at once."""
    every: Iterable[Entry] = (entry for entries in deltas.values() for entry in entries)
    messages = iter(messages_of(store, [*every]))
    return {
        ref: [WholeEntry(next(messages), entry.time, entry.source) for entry in entries]
        for ref, entries in deltas.items()
    }
