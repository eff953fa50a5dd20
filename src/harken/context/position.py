"""A position in a conversation: the context as it was at one message.

Messages are numbered from the beginning of a conversation, along all its commits, so a message
keeps its number whatever follows it, compactions too. The context at a message is the conversation
of its commit, up to that message: before a compaction, it is the one that was compacted.

A subagent's conversation begins with the snapshot that spawned it, since it did not read what came
before.

This module also counts the messages up to a position, and those that a summary replaces. A
compaction replaces the messages before it with a summary, and may repeat some of them. Messages are
counted where they first occur, in deltas; a summary is not counted, and a repeated message is
recognized by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.commit_content import read_entries
from harken.context.materialize import is_spawn, select_commits, walk
from harken.core.commits import CommitId, Hash
from harken.errors import AmbiguousName, NameNotFound
from harken.formats.base import ConversationEntry
from harken.store.base import Store, StoredCommit

_ID_MEMBERS = frozenset({"id", "uuid", "uuids", "message_id"})
"""The members of a source that identify a message, as runtimes name them."""
_MAX_DEPTH = 3
_MIN_DECIMAL_PREFIX = 8
"""A number with so many digits may be the prefix of an id."""


class ConversationPosition(msgspec.Struct, frozen=True):
    """The context at one message of a conversation."""

    ctx: CommitId
    """The commit that contains the message."""
    number: int
    """The number of the message, from 1; 0 in an empty conversation."""
    entries: list[ConversationEntry]
    """The context, oldest first. The message is the last one."""
    commit_entry_count: int
    """The number of entries that `ctx` itself contains: the last ones."""
    is_tip: bool = True
    """Whether these are all entries of the conversation of `ctx`."""


def find_position(store: Store, ctx: CommitId, at: str | None = None) -> ConversationPosition:
    """Return the context at a message of a conversation, or at its end if `at` is None.

    `at` is a message's number, `-N` for the Nth from the end, or a native id, or a unique prefix of
    one. If a compaction repeats a message, its first occurrence counts. Raises NameNotFound,
    AmbiguousName, ObjectNotFound, ObjectCorrupted.
    """
    chain = read_chain(store, ctx)
    ends = [*accumulate(stored.commit.message_count for stored in chain)]
    if at is None:
        entries = read_entries(store, select_commits(store, ctx))
        return ConversationPosition(ctx, ends[-1], entries, chain[-1].commit.message_count)
    number = _parse_position(store, chain, at, ends[-1])
    index = next(i for i, end in enumerate(ends) if number <= end)
    commit = chain[index]
    earlier = select_commits(store, commit.id)[:-1]
    commit_entries = read_entries(store, [commit])
    offset = number - (ends[index] - commit.commit.message_count)
    entries = [*read_entries(store, earlier), *commit_entries[:offset]]
    return ConversationPosition(
        commit.id,
        number,
        entries,
        min(offset, len(commit_entries)),
        is_tip=offset >= len(commit_entries),
    )


def get_or_create_commit(store: Store, position: ConversationPosition) -> CommitId:
    """Return the commit that ends at a position. Create one if the position is inside a commit.

    The same position gives the same commit. Raises StoreError.
    """
    if position.is_tip:
        return position.ctx
    commit = store.commits([position.ctx])[position.ctx].commit
    commit_entries = position.entries[-position.commit_entry_count :]
    draft = CommitDraft(
        entries=commit_entries,
        parent=commit.parent,
        type=commit.type,
        trigger="explicit" if commit.type == "delta" else commit.checkpoint,
        origin=CommitOrigin(
            template=commit.template, principal=commit.principal, session_id=commit.session_id
        ),
        created_at=next(
            (entry.time for entry in reversed(commit_entries) if entry.time), commit.created_at
        ),
    )
    return checkpoint(store, draft)


def number_commits(store: Store, ctx: CommitId) -> dict[CommitId, int]:
    """Return the number of the first message of each commit of a conversation, oldest first."""
    chain = read_chain(store, ctx)
    counts = [stored.commit.message_count for stored in chain]
    starts = accumulate(counts[:-1], initial=1)
    return {stored.id: start for stored, start in zip(chain, starts, strict=True)}


def read_chain(store: Store, ctx: CommitId) -> list[StoredCommit]:
    """Return a commit and its ancestors, oldest first, from the beginning of its agent.

    Raises NameNotFound.
    """
    commits: list[StoredCommit] = []
    for stored in walk(store, ctx):
        commits.append(stored)
        if is_spawn(stored):
            break
    return commits[::-1]


def _parse_position(store: Store, chain: Sequence[StoredCommit], ref: str, last: int) -> int:
    digits = ref.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(last)):
        number = last + 1 - int(digits) if ref.startswith("-") else int(digits)
        if 0 < number <= last:
            return number
    matches = _find_native_ids(store, chain, ref)
    if not matches:
        raise NameNotFound("message", ref, [f"1 to {last}", f"-1 to -{last}", "their native ids"])
    if len(matches) > 1:
        raise AmbiguousName("message", ref, sorted(matches))
    return next(iter(matches.values()))


def _find_native_ids(store: Store, chain: Sequence[StoredCommit], prefix: str) -> dict[str, int]:
    """Return native ids that equal or else start with `prefix`, with their message numbers.

    Ids in deltas take precedence: a compaction only repeats them. A short decimal prefix matches
    nothing, because an out-of-range number could otherwise match an id by accident.
    """
    delta_ids: dict[str, int] = {}
    compaction_ids: dict[str, int] = {}
    last_number = 0
    for stored in chain:
        ids = delta_ids if stored.commit.type == "delta" else compaction_ids
        entries = read_entries(store, [stored])[: stored.commit.message_count]
        for number, entry in enumerate(entries, start=last_number + 1):
            for id_ in iter_native_ids(entry):
                ids.setdefault(id_, number)
        last_number += stored.commit.message_count
    all_ids = compaction_ids | delta_ids
    if prefix in all_ids:
        return {prefix: all_ids[prefix]}
    if prefix.isdecimal() and len(prefix) < _MIN_DECIMAL_PREFIX:
        return {}
    matches = {id_: number for id_, number in all_ids.items() if prefix and id_.startswith(prefix)}
    return matches if len(set(matches.values())) > 1 else dict([*matches.items()][:1])


def iter_native_ids(entry: ConversationEntry) -> Iterator[str]:
    """Yield the native ids of a message: its own, and for a result that of its call."""
    yield from _iter_source_ids(entry.source or {}, _MAX_DEPTH)
    if entry.message.tool_call_id:
        yield entry.message.tool_call_id


def _iter_source_ids(source: dict[str, Any], depth: int) -> Iterator[str]:
    for name, value in source.items():
        if name in _ID_MEMBERS:
            values = value if isinstance(value, list) else [value]
            yield from (id_ for id_ in values if isinstance(id_, str) and id_)
        elif isinstance(value, dict) and depth:
            yield from _iter_source_ids(value, depth - 1)


class MessageCounts(msgspec.Struct, frozen=True):
    """The number of messages up to a position, and the summaries among them."""

    messages: int
    """The number of all messages up to the position."""
    summarized: int
    """The number of messages that the summary of a compaction replaces."""
    summaries: frozenset[int] = frozenset()
    """The indexes of summaries among the entries at the position."""


def count_messages(store: Store, position: ConversationPosition) -> MessageCounts:
    """Count the messages up to a position. Raises NameNotFound, StoreError."""
    chain = read_chain(store, position.ctx)
    index = next(
        (index for index in range(len(chain) - 1, 0, -1) if _is_compaction(chain[index])), None
    )
    if index is None:
        return MessageCounts(len(position.entries), 0)
    size = (
        position.commit_entry_count
        if index == len(chain) - 1
        else chain[index].commit.message_count
    )
    before = [
        stored for i, stored in enumerate(chain[:index]) if not i or not _is_compaction(stored)
    ]
    earlier = Counter(name for name in _read_hashes(store, before) if name)
    summaries: set[int] = set()
    for i, name in enumerate(_read_hashes(store, [chain[index]])[:size]):
        if name and earlier[name]:
            earlier[name] -= 1
        else:
            summaries.add(i)
    repeated = size - len(summaries)
    message_count = sum(stored.commit.message_count for stored in before)
    after = len(position.entries) - size
    return MessageCounts(
        message_count + after, max(message_count - repeated, 0), frozenset(summaries)
    )


def _is_compaction(stored: StoredCommit) -> bool:
    return stored.commit.type != "delta"


def _read_hashes(store: Store, commits: Sequence[StoredCommit]) -> list[Hash | None]:
    """Return the hash of each message of commits, or None for messages of bytes."""
    deltas = store.deltas(dict.fromkeys(stored.commit.artifact for stored in commits))
    names: list[Hash | None] = []
    for stored in commits:
        entries = deltas.get(stored.commit.artifact)
        if entries is None:
            names += [None] * stored.commit.message_count
        else:
            names += [entry.message for entry in entries]
    return names
