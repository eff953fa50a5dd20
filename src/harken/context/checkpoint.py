"""`checkpoint`: what an agent understood becomes a commit. All runtimes go through here.

One idea: a commit follows from its draft alone, never from a clock or from what the store holds.
So a checkpoint that is tried again is the same commit, and one round trip writes it: messages,
delta and commit together, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from harken.context.commit_content import read_artifact
from harken.context.message_reader import messages_of
from harken.core import commits as core
from harken.core.arguments import check_arguments
from harken.core.clock import normalize_rfc3339
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    CommitType,
    DeltaEntry,
    EncodedMessage,
    Hash,
)
from harken.core.messages import ChatMessage, text_of
from harken.errors import FormatError, NameNotFound, ObjectNotFound
from harken.formats.base import ConversationEntry
from harken.store.base import ObjectKind, Store, StoredObject, WriteBatch

SUMMARY_CHARACTERS = 200
"""How long a derived summary is at most."""
_LOOKED_AT = 8 * SUMMARY_CHARACTERS
"""So much of a text gives a summary, unless most of it is white space."""
_TYPES, _TRIGGERS = get_args(CommitType), get_args(core.Checkpoint)
_BYTES_PER_TOKEN = 4
"""A rough mean over languages and code; providers count exactly, each in its own way."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrigin:
    """Where a commit comes from. Of all this nothing changes what is materialized."""

    template: str = ""
    """What kind of agent it was."""
    principal: str = ""
    machine: str = ""
    session_id: str = ""
    ticket_id: str = ""
    thread_id: str = ""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDraft:
    """A commit that is not made yet.

    Its content is `messages`, or `entries`, or an `artifact` that is stored.
    """

    messages: Sequence[ChatMessage] = ()
    """What is new since the parent, oldest first; their `time`, where they have one, is kept."""
    entries: Sequence[ConversationEntry] = ()
    """The same with their times and sources, in place of `messages`."""
    artifact: ArtifactRef | None = None
    parent: CommitId | None = None
    type: CommitType = "delta"
    trigger: core.Checkpoint = "explicit"
    format: str = "events-v1"
    origin: CommitOrigin = field(default_factory=CommitOrigin)
    summary: str = ""
    """Where it is empty, one is derived, and marked so."""
    labels: tuple[str, ...] = ()
    message_count: int | None = None
    """None: counted."""
    token_count: int | None = None
    """None: estimated."""
    created_at: str | None = None
    """RFC 3339 with a time zone; None: that of the last message."""


@check_arguments
def checkpoint(store: Store, draft: CommitDraft) -> CommitId:
    """Write a commit and all that it needs, at once; on return it can be read.

    Raises ValueError for a draft that is none, ObjectNotFound where the artifact or the parent is
    not there, StoreError.
    """
    (made,) = checkpoint_all(store, [draft])
    return made


def checkpoint_all(store: Store, drafts: Sequence[CommitDraft]) -> list[CommitId]:
    """Write several commits, all or nothing; each is the parent of the next.

    The parent of the first is its own; the others leave theirs out. As `checkpoint`.
    """
    made: list[PreparedCommit] = []
    names: list[CommitId] = []
    for draft in drafts:
        parent = names[-1] if names else draft.parent
        made.append(_prepared(draft, parent, _content(store, draft)))
        names.append(made[-1].commit.id)
    store.write(batch_of(made))
    return names


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A commit that is made, and not written yet."""

    commit: Commit
    notes: CommitNotes
    content: DraftContent

    @property
    def id(self) -> CommitId:
        """Its name."""
        return self.commit.id


def prepare(draft: CommitDraft) -> PreparedCommit:
    """Make a commit of a draft that has its content with it, not as an artifact.

    Raises ValueError for a draft that is none.
    """
    if draft.artifact is not None:
        raise ValueError(f"{draft.artifact} is stored: `checkpoint` reads it")
    return _prepared(draft, draft.parent, _new_content(draft))


def things_of(content: DraftContent) -> list[StoredObject]:
    """Return what has to be written for a new content, named; what is needed comes first."""
    things: list[StoredObject] = []
    for one in content.said:
        things += [StoredObject(ObjectKind.PART, name, body) for name, body in one.parts]
        needs = tuple(dict.fromkeys([name for name, _ in one.parts]))
        things.append(StoredObject(ObjectKind.MESSAGE, one.name, one.body, needs))
    needs = tuple(dict.fromkeys([one.name for one in content.said]))
    things.append(StoredObject(ObjectKind.DELTA, content.artifact, content.body, needs))
    return things


def batch_of(made: Sequence[PreparedCommit]) -> WriteBatch:
    """Return what has to be written for commits; parents stand before children, or are there."""
    contents = [one.content for one in made]
    return WriteBatch(
        objects={name: body for content in contents for name, body in content.objects.items()},
        deltas={one.artifact: one.entries for one in contents if one.body},
        commits=[(one.commit, one.notes) for one in made],
    )


def _prepared(draft: CommitDraft, parent: CommitId | None, content: DraftContent) -> PreparedCommit:
    commit = _commit(draft, parent, content)
    return PreparedCommit(commit, _notes(draft, content.messages), content)


@dataclass(frozen=True, slots=True)
class DraftContent:
    """What a commit names."""

    artifact: ArtifactRef
    entries: Sequence[DeltaEntry] = ()
    messages: Sequence[ChatMessage] = ()
    said: Sequence[EncodedMessage] = ()
    """The messages by name, where they may be new."""
    body: bytes = b""
    """The canonical bytes of the delta, where it may be new."""

    @property
    def objects(self) -> dict[Hash, bytes]:
        """All objects that it needs, where they may be new."""
        parts = {name: body for one in self.said for name, body in one.parts}
        return parts | {one.name: one.body for one in self.said}


def _content(store: Store, draft: CommitDraft) -> DraftContent:
    if draft.artifact is None:
        return _new_content(draft)
    if draft.messages or draft.entries:
        raise ValueError("a draft has messages or an artifact, never both")
    stored = store.deltas([draft.artifact]).get(draft.artifact)
    if stored is not None:
        return DraftContent(draft.artifact, stored, messages_of(store, stored))
    if None not in (draft.message_count, draft.token_count, draft.created_at) and draft.summary:
        return DraftContent(draft.artifact)  # nothing has to be read to know the commit
    try:
        said = read_artifact(store, draft.artifact, draft.format)
    except (ObjectNotFound, NameNotFound, FormatError):
        said = []  # what is not there the store refuses; what cannot be read is committed as it is
    entries = [core.encode_entry(one.message, time=one.time)[0] for one in said]
    return DraftContent(draft.artifact, entries, [one.message for one in said])


def _new_content(draft: CommitDraft) -> DraftContent:
    if draft.messages and draft.entries:
        raise ValueError("a draft has messages or entries, never both")
    messages = draft.messages or [whole.message for whole in draft.entries]
    varying = [(whole.time, whole.source) for whole in draft.entries] or [
        (getattr(message, "time", None) or None, None) for message in messages
    ]
    said = [core.encode_message(message) for message in messages]
    entries = [
        DeltaEntry(one.name, one.occurrence, *more) for one, more in zip(said, varying, strict=True)
    ]
    artifact, body = core.encode_delta(entries)
    return DraftContent(artifact, entries, messages, said, body)


def tokens_in(messages: Sequence[ChatMessage]) -> int:
    """Estimate how many tokens messages take: a count that is the same on every machine."""
    texts = [text_of(message.content) for message in messages]
    for message in messages:
        for call in message.tool_calls or ():
            texts += [call.function.name, call.function.arguments]
    size_bytes = sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        for text in texts
    )
    return -(-size_bytes // _BYTES_PER_TOKEN)


def derived_summary(messages: Sequence[ChatMessage]) -> str:
    """Return one line about messages: the last answer, else the last call, else the last text."""
    if not messages:
        return "nothing new"
    for message in reversed(messages):
        if message.role == "assistant" and text_of(message.content).strip():
            return _line(text_of(message.content))
    for message in reversed(messages):
        if message.tool_calls:
            return _line("called " + ", ".join(call.function.name for call in message.tool_calls))
    last = messages[-1]
    return _line(f"{last.role}: {text_of(last.content)}")


def normal_time(time: str) -> str:
    """Return a time as commits have it: RFC 3339, UTC, microseconds. Times sort as text.

    Raises ValueError where it is none, or has no time zone.

    >>> normal_time("2026-01-31T13:00:00+01:00")
    '2026-01-31T12:00:00.000000Z'
    """
    try:
        return normalize_rfc3339(time)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{time!r} is no time such as 2026-01-31T12:00:00Z: {error}") from None


def _commit(draft: CommitDraft, parent: CommitId | None, content: DraftContent) -> Commit:
    for value, known in ((draft.type, _TYPES), (draft.trigger, _TRIGGERS)):
        if value not in known:
            raise ValueError(f"{value!r} is none of {', '.join(known)}")
    count = len(content.entries) if draft.message_count is None else draft.message_count
    tokens = tokens_in(content.messages) if draft.token_count is None else draft.token_count
    if count < 0 or tokens < 0:
        raise ValueError(f"a commit has neither {count} messages nor {tokens} tokens")
    time = draft.created_at or next((e.time for e in reversed(content.entries) if e.time), None)
    if time is None:
        raise ValueError("none of the messages has a time: say created_at")
    origin = draft.origin
    return Commit(
        parent=parent,
        type=draft.type,
        artifact=content.artifact,
        format=draft.format,
        template=origin.template,
        principal=origin.principal,
        machine=origin.machine,
        session_id=origin.session_id,
        checkpoint=draft.trigger,
        ticket_id=origin.ticket_id,
        thread_id=origin.thread_id,
        message_count=count,
        token_count=tokens,
        created_at=normal_time(time),
    )


def _notes(draft: CommitDraft, messages: Sequence[ChatMessage]) -> CommitNotes:
    if draft.summary.strip():
        return CommitNotes(summary=draft.summary, labels=draft.labels)
    summary = derived_summary(messages)
    if draft.artifact is not None and not messages:
        summary = f"{draft.message_count or 0} messages as {draft.format}"
    return CommitNotes(summary=summary, derived=True, labels=draft.labels)


def _line(text: str) -> str:
    line = " ".join(text[:_LOOKED_AT].split())
    if len(line) <= SUMMARY_CHARACTERS:
        line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARACTERS else line[: SUMMARY_CHARACTERS - 1] + "…"
