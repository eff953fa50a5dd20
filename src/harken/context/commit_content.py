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
from harken.core.commits import ArtifactRef, DeltaEntry, Hash, encode_entry
from harken.core.messages import Message
from harken.errors import FormatError, NameNotFound
from harken.formats.base import ConversationEntry
from harken.formats.registry import FORMATS, FormatRegistry
from harken.store.base import Store, StoredCommit

MOST_SHOWN = 50_000
"""How many bytes that nobody can read stand in a conversation."""


@dataclass(frozen=True, slots=True)
class CommitContent:
    """What one commit holds."""

    stored: StoredCommit
    entries: list[ConversationEntry] | None
    """Of a delta; None: the artifact is bytes."""
    data: bytes = b""

    @property
    def format(self) -> str:
        """The format that the commit says."""
        return self.stored.commit.format


def entries_in(
    store: Store, commits: Sequence[StoredCommit], formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries that commits hold, oldest first, and notes on what cannot be read.

    Raises ObjectNotFound, ObjectCorrupted.
    """
    contents = contents_of(store, commits)
    return [entry for content in contents for entry in entries_or_note(content, formats)]


def as_deltas(
    store: Store, commits: Sequence[StoredCommit]
) -> tuple[list[DeltaEntry], dict[Hash, bytes]]:
    """Return the entries of commits as a delta has them, oldest first.

    Where a commit holds bytes, also the objects that what they say needs. As `entries_in`.
    """
    commits, deltas = _flat(store, commits)
    entries: list[DeltaEntry] = []
    objects: dict[Hash, bytes] = {}
    for one in commits:
        if one.commit.artifact in deltas:
            entries += deltas[one.commit.artifact]
            continue
        for whole in entries_in(store, [one]):
            entry, needed = encode_entry(whole.message, time=whole.time, source=whole.source)
            entries.append(entry)
            objects |= needed
    return entries, objects


def contents_of(store: Store, commits: Sequence[StoredCommit]) -> list[CommitContent]:
    """Return what commits hold: a few round trips, and one for each that holds bytes.

    One that holds a sequence gives a content for each artifact of it. Raises ObjectNotFound,
    ObjectCorrupted.
    """
    commits, deltas = _flat(store, commits)
    entries = _whole(store, deltas)
    return [
        CommitContent(one, entries[one.commit.artifact])
        if one.commit.artifact in entries
        else CommitContent(one, None, store.raw(one.commit.artifact))
        for one in commits
    ]


def read_content(
    content: CommitContent, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of a content.

    Raises NameNotFound for a format that nobody here reads, FormatError for bytes that are none.
    """
    if content.entries is not None:
        return content.entries
    return _read_bytes(content.data, content.format, formats)


def read_artifact(
    store: Store, artifact: ArtifactRef, format: str, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of an artifact that no commit names yet. As `read_content`.

    Raises ObjectNotFound, ObjectCorrupted, too.
    """
    deltas = store.deltas([artifact])
    names = list(leaves(store, [artifact], deltas))
    check_size(names, deltas)
    known = _whole(store, deltas)
    found: list[ConversationEntry] = []
    for name in names:
        found += known[name] if name in known else _read_bytes(store.raw(name), format, formats)
    return found


def _read_bytes(data: bytes, format: str, formats: FormatRegistry) -> list[ConversationEntry]:
    reads = formats.reader(format)
    if reads is None:
        raise NameNotFound("format to be read", format, formats.names())
    return reads(data)


def entries_or_note(
    content: CommitContent, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of a content; where it cannot be read, one that shows its bytes."""
    try:
        return read_content(content, formats)
    except (NameNotFound, FormatError):
        return [_note(content)]


def _note(content: CommitContent) -> ConversationEntry:
    data, commit = content.data, content.stored.commit
    shown = data[:MOST_SHOWN].decode("utf-8", "backslashreplace")
    first = "" if len(data) <= MOST_SHOWN else f", of which the first {MOST_SHOWN} follow"
    note = (
        f"[{len(data)} bytes in the format {commit.format!a}, which cannot be read here{first}; "
        f"all of them: `harken cat {commit.artifact}`]"
    )
    return ConversationEntry(Message("user", f"{note}\n\n{shown}"), commit.created_at)


def _flat(
    store: Store, commits: Sequence[StoredCommit]
) -> tuple[Sequence[StoredCommit], dict[ArtifactRef, list[DeltaEntry]]]:
    """Return commits, one with a sequence for each artifact of it, and all deltas of theirs."""
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    flat: list[StoredCommit] = []
    for one in commits:
        if one.commit.artifact in deltas:
            flat.append(one)
        else:
            names = list(leaves(store, [one.commit.artifact], deltas))
            check_size(names, deltas)
            flat += [_holding(one, name) for name in names]
    check_size((one.commit.artifact for one in flat), deltas)
    return flat, deltas


def _holding(one: StoredCommit, artifact: ArtifactRef) -> StoredCommit:
    held = msgspec.structs.replace(one.commit, artifact=artifact)
    return StoredCommit(one.id, held, one.notes)


def _whole(
    store: Store, deltas: Mapping[ArtifactRef, Sequence[DeltaEntry]]
) -> dict[ArtifactRef, list[ConversationEntry]]:
    """Return the entries of deltas with their messages, all read at once."""
    every: Iterable[DeltaEntry] = (entry for entries in deltas.values() for entry in entries)
    messages = iter(messages_of(store, [*every]))
    return {
        ref: [ConversationEntry(next(messages), entry.time, entry.source) for entry in entries]
        for ref, entries in deltas.items()
    }
