"""The content of commits: the entries of a delta, or bytes in the format of a runtime.

Bytes are parsed only when their entries are needed, by the reader of their format. So a commit in
an unknown format is a commit like any other; until a reader exists, its bytes are shown in the
conversation unchanged, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from harken.context.message_reader import (
    check_size,
    iter_leaves,
    read_entry_messages,
    read_messages,
)
from harken.core import structs
from harken.core.commits import ArtifactRef, DeltaEntry, Hash, encode_entry
from harken.core.messages import Message
from harken.errors import ArtifactNotMessages, FormatError, NameNotFound
from harken.formats.base import ConversationEntry
from harken.formats.registry import FORMATS, FormatRegistry
from harken.store.base import Store, StoredCommit

MAX_PREVIEW_BYTES = 50_000
"""The limit of unreadable bytes that are shown in a conversation."""


class CommitContent(msgspec.Struct, frozen=True):
    """The content of one commit."""

    stored: StoredCommit
    entries: list[ConversationEntry] | None
    """The entries of a delta. None if the artifact is bytes."""
    data: bytes = b""

    @property
    def format(self) -> str:
        """The format of the commit."""
        return self.stored.commit.format


def read_entries(
    store: Store, commits: Sequence[StoredCommit], formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of commits, oldest first, with a note in place of unreadable content.

    Raises ObjectNotFound, ObjectCorrupted.
    """
    contents = read_contents(store, commits)
    return [entry for content in contents for entry in entries_or_note(content, formats)]


def read_commit_messages(store: Store, commits: Sequence[StoredCommit]) -> list[Message]:
    """Return the messages of commits, oldest first. Errors as `read_entries`."""
    try:
        return read_messages(store, [commit.commit.artifact for commit in commits])
    except ArtifactNotMessages:  # The bytes are parsed by the reader of their format.
        return [entry.message for entry in read_entries(store, commits)]


def read_delta_entries(
    store: Store, commits: Sequence[StoredCommit]
) -> tuple[list[DeltaEntry], dict[Hash, bytes]]:
    """Return the entries of commits as those of one delta, oldest first, and the objects they need.

    The objects are those that were parsed from bytes. Errors are as for `entries_in`.
    """
    commits, deltas = _flatten_sequences(store, commits)
    entries: list[DeltaEntry] = []
    objects: dict[Hash, bytes] = {}
    for stored in commits:
        if stored.commit.artifact in deltas:
            entries += deltas[stored.commit.artifact]
            continue
        for parsed in read_entries(store, [stored]):
            entry, needed = encode_entry(parsed.message, time=parsed.time, source=parsed.source)
            entries.append(entry)
            objects |= needed
    return entries, objects


def read_contents(store: Store, commits: Sequence[StoredCommit]) -> list[CommitContent]:
    """Read the contents of commits: a few round trips, and one for each commit with bytes.

    A commit with a sequence yields one content for each of its artifacts. Raises ObjectNotFound,
    ObjectCorrupted.
    """
    commits, deltas = _flatten_sequences(store, commits)
    entries = _read_entries(store, deltas)
    return [
        CommitContent(stored, entries[stored.commit.artifact])
        if stored.commit.artifact in entries
        else CommitContent(stored, None, store.raw(stored.commit.artifact))
        for stored in commits
    ]


def read_content(
    content: CommitContent, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of a content.

    Raises NameNotFound for a format without a reader, FormatError for bytes that are not in the
    format.
    """
    if content.entries is not None:
        return content.entries
    return read_data(content.data, content.format, formats)


def read_artifact(
    store: Store, artifact: ArtifactRef, format: str, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of an artifact that has no commit yet. Raises as `read_content`.

    Also raises ObjectNotFound, ObjectCorrupted.
    """
    deltas = store.deltas([artifact])
    names = list(iter_leaves(store, [artifact], deltas))
    check_size(names, deltas)
    entries_by_name = _read_entries(store, deltas)
    entries: list[ConversationEntry] = []
    for name in names:
        entries += (
            entries_by_name[name]
            if name in entries_by_name
            else read_data(store.raw(name), format, formats)
        )
    return entries


def read_data(
    data: bytes, format: str, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of bytes that are not stored yet. Raises as `read_content`."""
    reader = formats.find_reader(format)
    if reader is None:
        raise NameNotFound("readable format", format, formats.list_names())
    return reader(data)


def entries_or_note(
    content: CommitContent, formats: FormatRegistry = FORMATS
) -> list[ConversationEntry]:
    """Return the entries of a content, or one entry that shows its unreadable bytes."""
    try:
        return read_content(content, formats)
    except (NameNotFound, FormatError):
        return [_build_note(content)]


def _build_note(content: CommitContent) -> ConversationEntry:
    data, commit = content.data, content.stored.commit
    preview = data[:MAX_PREVIEW_BYTES].decode("utf-8", "backslashreplace")
    cut_note = (
        "" if len(data) <= MAX_PREVIEW_BYTES else f", of which the first {MAX_PREVIEW_BYTES} follow"
    )
    note = (
        f"[{len(data)} bytes in the format {commit.format!a}, which cannot be read here{cut_note}; "
        f"all of them: `harken cat {commit.artifact}`]"
    )
    return ConversationEntry(Message("user", f"{note}\n\n{preview}"), commit.created_at)


def _flatten_sequences(
    store: Store, commits: Sequence[StoredCommit]
) -> tuple[Sequence[StoredCommit], dict[ArtifactRef, list[DeltaEntry]]]:
    """Return commits, with one per artifact in place of a sequence, and all their deltas."""
    deltas = store.deltas(dict.fromkeys(stored.commit.artifact for stored in commits))
    flat: list[StoredCommit] = []
    for stored in commits:
        if stored.commit.artifact in deltas:
            flat.append(stored)
        else:
            names = list(iter_leaves(store, [stored.commit.artifact], deltas))
            check_size(names, deltas)
            flat += [_with_artifact(stored, name) for name in names]
    check_size((stored.commit.artifact for stored in flat), deltas)
    return flat, deltas


def _with_artifact(stored: StoredCommit, artifact: ArtifactRef) -> StoredCommit:
    commit = structs.replace(stored.commit, artifact=artifact)
    return StoredCommit(stored.id, commit, stored.notes)


def _read_entries(
    store: Store, deltas: Mapping[ArtifactRef, Sequence[DeltaEntry]]
) -> dict[ArtifactRef, list[ConversationEntry]]:
    """Return the entries of deltas with their messages, in one read."""
    all_entries: Iterable[DeltaEntry] = (entry for entries in deltas.values() for entry in entries)
    messages = iter(read_entry_messages(store, [*all_entries]))
    return {
        ref: [ConversationEntry(next(messages), entry.time, entry.source) for entry in entries]
        for ref, entries in deltas.items()
    }
