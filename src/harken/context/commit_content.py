"""What commits hold: the entries of a delta, or bytes in the format of some runtime.

One idea: bytes are read when somebody wants what they say, by whoever knows their format then. So
a commit in a format that nobody knows yet is a commit like any other; until somebody does, its
bytes stand in the conversation as they are, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from harken.context.message_reader import check_size, leaves, messages_of
from harken.core.commits import ArtifactRef, Entry, Hash, entry_of
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


def entries_in(
    store: Store, commits: Sequence[Stored], formats: Formats = FORMATS
) -> list[WholeEntry]:
    """Return the entries that commits hold, oldest first, and notes on what cannot be read.

    Raises ObjectMissing, ObjectDamaged.
    """
    contents = contents_of(store, commits)
    return [entry for content in contents for entry in entries_or_note(content, formats)]


def as_deltas(store: Store, commits: Sequence[Stored]) -> tuple[list[Entry], dict[Hash, bytes]]:
    """Return the entries of commits as a delta has them, oldest first.

    Where a commit holds bytes, also the objects that what they say needs. As `entries_in`.
    """
    commits, deltas = _flat(store, commits)
    entries: list[Entry] = []
    objects: dict[Hash, bytes] = {}
    for one in commits:
        if one.commit.artifact in deltas:
            entries += deltas[one.commit.artifact]
            continue
        for whole in entries_in(store, [one]):
            entry, needed = entry_of(whole.message, time=whole.time, source=whole.source)
            entries.append(entry)
            objects |= needed
    return entries, objects


def contents_of(store: Store, commits: Sequence[Stored]) -> list[Content]:
    """Return what commits hold: a few round trips, and one for each that holds bytes.

    One that holds a sequence gives a content for each artifact of it. Raises ObjectMissing,
    ObjectDamaged.
    """
    commits, deltas = _flat(store, commits)
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
    return _read_bytes(content.data, content.format, formats)


def read_artifact(
    store: Store, artifact: ArtifactRef, format: str, formats: Formats = FORMATS
) -> list[WholeEntry]:
    """Return the entries of an artifact that no commit names yet. As `read_content`.

    Raises ObjectMissing, ObjectDamaged, too.
    """
    deltas = store.deltas([artifact])
    names = list(leaves(store, [artifact], deltas))
    check_size(names, deltas)
    known = _whole(store, deltas)
    found: list[WholeEntry] = []
    for name in names:
        found += known[name] if name in known else _read_bytes(store.raw(name), format, formats)
    return found


def _read_bytes(data: bytes, format: str, formats: Formats) -> list[WholeEntry]:
    reads = formats.reader(format)
    if reads is None:
        raise UnknownName("format to be read", format, formats.names())
    return reads(data)


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


def _flat(
    store: Store, commits: Sequence[Stored]
) -> tuple[Sequence[Stored], dict[ArtifactRef, list[Entry]]]:
    """Return commits, one with a sequence for each artifact of it, and all deltas of theirs."""
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    flat: list[Stored] = []
    for one in commits:
        if one.commit.artifact in deltas:
            flat.append(one)
        else:
            names = list(leaves(store, [one.commit.artifact], deltas))
            check_size(names, deltas)
            flat += [_holding(one, name) for name in names]
    check_size((one.commit.artifact for one in flat), deltas)
    return flat, deltas


def _holding(one: Stored, artifact: ArtifactRef) -> Stored:
    held = msgspec.structs.replace(one.commit, artifact=artifact)
    return Stored(one.id, held, one.notes)


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
