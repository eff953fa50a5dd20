"""A moment: what an agent had read when a message was said.

One idea: messages are numbered from the beginning of a conversation on, along all its commits, so a
message keeps its number whatever comes after it, compactions too. What was read at a message is
what its commit gives, up to that message: before a compaction that is what stood there then.

A subagent's conversation begins with the snapshot that spawned it: what came before, others saw.

How many messages of a conversation are read at a position, and for how many a summary stands.

A compaction replaces the messages before it with a summary, and may repeat some of them. Messages
are counted where they were said, in deltas; a summary is none of them, and a repeated message is
recognized by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.commit_content import entries_in
from harken.context.materialize import is_spawn, select_commits, walk
from harken.core.commits import CommitId, Hash
from harken.errors import AmbiguousName, NameNotFound
from harken.formats.base import ConversationEntry
from harken.store.base import Store, StoredCommit

_IDS = frozenset({"id", "uuid", "uuids", "message_id"})
"""The members of a source that name a message, as runtimes call them."""
_DEPTH = 3
_LONG = 8
"""A number with so many digits may be the beginning of an id."""


@dataclass(frozen=True, slots=True)
class ConversationPosition:
    """A place in a conversation."""

    ctx: CommitId
    """The commit that holds the message."""
    number: int
    """Of the message, from 1; 0 where nothing was said yet."""
    entries: list[ConversationEntry]
    """What was read then, oldest first; the message is the last one."""
    own: int
    """How many of them are of `ctx` itself: the last ones."""
    is_tip: bool = True
    """Whether these are all entries that `ctx` stands for."""


def find_position(store: Store, ctx: CommitId, at: str | None = None) -> ConversationPosition:
    """Return what was read at a message of a conversation; None: at its end.

    at: a message's number, `-N` for the Nth from the end, or one of its native ids, or the unique
    beginning of one. Where a compaction repeats a message, the first time counts. Raises
    NameNotFound, AmbiguousName, ObjectNotFound, ObjectCorrupted.
    """
    chain = chain_of(store, ctx)
    ends = [*accumulate(one.commit.message_count for one in chain)]
    if at is None:
        entries = entries_in(store, select_commits(store, ctx))
        return ConversationPosition(ctx, ends[-1], entries, chain[-1].commit.message_count)
    number = _number(store, chain, at, ends[-1])
    which = next(place for place, end in enumerate(ends) if number <= end)
    commit = chain[which]
    before = select_commits(store, commit.id)[:-1]
    own = entries_in(store, [commit])
    cut = number - (ends[which] - commit.commit.message_count)
    entries = [*entries_in(store, before), *own[:cut]]
    return ConversationPosition(
        commit.id, number, entries, min(cut, len(own)), is_tip=cut >= len(own)
    )


def commit_at(store: Store, found: ConversationPosition) -> CommitId:
    """Return the commit of a moment; in the midst of one, a new one that ends there is made.

    The same moment gives the same commit. Raises StoreError.
    """
    if found.is_tip:
        return found.ctx
    commit = store.commits([found.ctx])[found.ctx].commit
    own = found.entries[-found.own :]
    draft = CommitDraft(
        entries=own,
        parent=commit.parent,
        type=commit.type,
        trigger="explicit" if commit.type == "delta" else commit.checkpoint,
        origin=CommitOrigin(
            template=commit.template, principal=commit.principal, session_id=commit.session_id
        ),
        created_at=next((one.time for one in reversed(own) if one.time), commit.created_at),
    )
    return checkpoint(store, draft)


def first_numbers(store: Store, ctx: CommitId) -> dict[CommitId, int]:
    """Return the number of the first message of each commit of a conversation, oldest first."""
    chain = chain_of(store, ctx)
    counts = [one.commit.message_count for one in chain]
    starts = accumulate(counts[:-1], initial=1)
    return {one.id: start for one, start in zip(chain, starts, strict=True)}


def chain_of(store: Store, ctx: CommitId) -> list[StoredCommit]:
    """Return a commit and those before it, oldest first, from where its agent began.

    Raises NameNotFound.
    """
    found: list[StoredCommit] = []
    for one in walk(store, ctx):
        found.append(one)
        if is_spawn(one):
            break
    return found[::-1]


def _number(store: Store, chain: Sequence[StoredCommit], at: str, last: int) -> int:
    digits = at.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(last)):
        number = last + 1 - int(digits) if at.startswith("-") else int(digits)
        if 0 < number <= last:
            return number
    found = _named(store, chain, at)
    if not found:
        raise NameNotFound("message", at, [f"1 to {last}", f"-1 to -{last}", "their native ids"])
    if len(found) > 1:
        raise AmbiguousName("message", at, sorted(found))
    return next(iter(found.values()))


def _named(store: Store, chain: Sequence[StoredCommit], at: str) -> dict[str, int]:
    """Return the ids that are this name, else those that begin so, and whose they are.

    A short number begins none: one that is too large would else be somebody's id by chance.
    What deltas say comes first: a compaction only repeats it.
    """
    first: dict[str, int] = {}
    again: dict[str, int] = {}
    end = 0
    for one in chain:
        place = first if one.commit.type == "delta" else again
        entries = entries_in(store, [one])[: one.commit.message_count]
        for number, entry in enumerate(entries, start=end + 1):
            for id_ in ids_of(entry):
                place.setdefault(id_, number)
        end += one.commit.message_count
    every = again | first
    if at in every:
        return {at: every[at]}
    if at.isdecimal() and len(at) < _LONG:
        return {}
    fitting = {id_: number for id_, number in every.items() if at and id_.startswith(at)}
    return fitting if len(set(fitting.values())) > 1 else dict([*fitting.items()][:1])


def ids_of(entry: ConversationEntry) -> Iterator[str]:
    """Yield the native ids of a message: its own, and of a result that of its call."""
    yield from _ids(entry.source or {}, _DEPTH)
    if entry.message.tool_call_id:
        yield entry.message.tool_call_id


def _ids(source: dict[str, Any], depth: int) -> Iterator[str]:
    for name, value in source.items():
        if name in _IDS:
            listed = value if isinstance(value, list) else [value]
            yield from (id_ for id_ in listed if isinstance(id_, str) and id_)
        elif isinstance(value, dict) and depth:
            yield from _ids(value, depth - 1)


@dataclass(frozen=True, slots=True)
class Said:
    """The messages of a conversation, up to a position."""

    messages: int
    """All that were said."""
    summarized: int
    """Those for which the summary of a compaction stands."""
    summaries: frozenset[int] = frozenset()
    """The places, from 0, of what is read at the position and was never said: summaries."""


def count_said(store: Store, found: ConversationPosition) -> Said:
    """Count the messages up to a position. Raises NameNotFound, StoreError."""
    chain = chain_of(store, found.ctx)
    at = next((at for at in range(len(chain) - 1, 0, -1) if _is_compaction(chain[at])), None)
    if at is None:
        return Said(len(found.entries), 0)
    size = found.own if at == len(chain) - 1 else chain[at].commit.message_count
    before = [one for place, one in enumerate(chain[:at]) if not place or not _is_compaction(one)]
    earlier = Counter(name for name in _names(store, before) if name)
    summaries: set[int] = set()
    for place, name in enumerate(_names(store, [chain[at]])[:size]):
        if name and earlier[name]:
            earlier[name] -= 1
        else:
            summaries.add(place)
    repeated = size - len(summaries)
    said = sum(one.commit.message_count for one in before)
    after = len(found.entries) - size
    return Said(said + after, max(said - repeated, 0), frozenset(summaries))


def _is_compaction(one: StoredCommit) -> bool:
    return one.commit.type != "delta"


def _names(store: Store, commits: Sequence[StoredCommit]) -> list[Hash | None]:
    """Return the hash of each message of commits. None: the commit holds bytes, not messages."""
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    names: list[Hash | None] = []
    for one in commits:
        entries = deltas.get(one.commit.artifact)
        if entries is None:
            names += [None] * one.commit.message_count
        else:
            names += [entry.message for entry in entries]
    return names
