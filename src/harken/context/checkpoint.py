"""`checkpoint`: write the messages of an agent as a commit, for all runtimes.

A commit depends only on its draft, never on a clock or the content of the store. So a repeated
checkpoint creates the same commit, and one round trip writes messages, delta and commit atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Self, get_args

import msgspec

from harken.context.commit_content import read_artifact, read_data
from harken.context.message_reader import read_entry_messages
from harken.core import commits as core
from harken.core import structs
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
from harken.core.messages import ChatMessage, check_message, text_of
from harken.errors import BranchConflict, FormatError, NameNotFound, ObjectNotFound
from harken.formats.base import ConversationEntry
from harken.store.base import BranchMove, ObjectKind, Store, StoredObject, WriteBatch
from harken.store.branches import check_branch

MAX_SUMMARY_CHARS = 200
"""The maximum length of a derived summary."""
_SUMMARY_SOURCE_CHARS = 8 * MAX_SUMMARY_CHARS
"""The length of the text that a summary is derived from, unless most of it is white space."""
_TYPES, _TRIGGERS = get_args(CommitType), get_args(core.Checkpoint)
SEPARATOR = "/"
"""Separates the names of a principal and of its subagent."""
_BYTES_PER_TOKEN = 4
"""A rough mean over languages and code; the counts of providers differ."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrigin:
    """The origin of a commit. It does not affect the materialized conversation."""

    template: str = ""
    """The kind of agent."""
    principal: str = ""
    machine: str = ""
    session_id: str = ""
    ticket_id: str = ""
    thread_id: str = ""

    @classmethod
    def of(cls, commit: Commit) -> Self:
        """Return the origin that a commit has."""
        return cls(**{member.name: getattr(commit, member.name) for member in fields(cls)})


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """The principal and the task that the commits of recorded sessions name.

    A recording knows its session and its agents; the identity adds the other fields. A subagent
    appends its name to the principal, after a slash. An empty field is unknown.
    """

    principal: str = ""
    """The principal of the main agents. Empty: each session is its own principal."""
    template: str = ""
    """The template of the main agents, if the session does not name it."""
    machine: str = ""
    ticket_id: str = ""
    thread_id: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a principal that contains a slash."""
        if SEPARATOR in self.principal:
            raise ValueError(
                f"principal {self.principal!r} contains a slash, which separates the names of "
                "subagents; use another name"
            )

    def origin(self, session_id: str, agent: str = "", *, template: str = "") -> CommitOrigin:
        """Return the origin of a commit of a session.

        agent: the name of a subagent, empty for the main agent.
        """
        names = [self.principal or session_id, agent]
        return CommitOrigin(
            template=template or ("" if agent else self.template),
            principal=SEPARATOR.join(filter(None, names)),
            machine=self.machine,
            session_id=session_id,
            ticket_id=self.ticket_id,
            thread_id=self.thread_id,
        )

    def assign(self, commit: Commit) -> Commit:
        """Return a commit of an import with this identity. Fields that it has already stay."""
        members = _list_members(self, commit.session_id, commit.principal, commit.template)
        return structs.replace(commit, **members)


@lru_cache(64)
def _list_members(
    identity: CommitIdentity, session_id: str, principal: str, template: str
) -> dict[str, Any]:
    """Return the members of the origin of a commit with an identity. It is called often."""
    agent = principal.removeprefix(session_id).removeprefix(SEPARATOR)
    return asdict(identity.origin(session_id, agent, template=template))


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDraft:
    """A commit that is not created yet.

    Its content is `messages`, or `entries`, or `data`, or an `artifact` in the store.
    """

    messages: Sequence[Any] = ()
    """The messages since the parent, oldest first. Their `time` is stored, if they have one. The
    messages of any client are accepted, too: dicts and objects, as `messages_in` reads them."""
    entries: Sequence[ConversationEntry] = ()
    """The same with times and sources, instead of `messages`."""
    data: bytes | None = None
    """The same as bytes in `format`, which are stored unchanged."""
    artifact: ArtifactRef | None = None
    parent: CommitId | None = None
    type: CommitType = "delta"
    trigger: core.Checkpoint = "explicit"
    branch: str = ""
    """The branch to move to the commit. Its head must be the parent, or it must not exist."""
    format: str = "events-v1"
    origin: CommitOrigin = field(default_factory=CommitOrigin)
    summary: str = ""
    """If it is empty, a summary is derived and marked as such."""
    labels: tuple[str, ...] = ()
    message_count: int | None = None
    """Counted if it is None."""
    token_count: int | None = None
    """Estimated if it is None."""
    created_at: str | None = None
    """RFC 3339 with a time zone. If it is None, the time of the last message is used."""

    def __post_init__(self) -> None:
        """Read messages of clients. Raise ValueError or TypeError for invalid members."""
        core.check_labels(self.labels)
        if not all(map(_is_own, self.messages)):
            # A program that only reads commits needs no codec of a provider.
            from harken.formats.client_messages import messages_in  # noqa: PLC0415

            messages: list[ChatMessage] = []
            for is_own, group in groupby(self.messages, _is_own):
                similar_messages = [*group]  # Harken's own messages keep their times.
                messages += similar_messages if is_own else messages_in(similar_messages)
            object.__setattr__(self, "messages", messages)
        for message in self.messages:
            check_message(message)


def _is_own(message: Any) -> bool:
    """Whether a message is one of Harken's own, and not of a client."""
    return hasattr(message, "is_error")


@check_arguments
def checkpoint(store: Store, draft: CommitDraft) -> CommitId:
    """Write a commit and all its needs at once. On return it can be read.

    Raises ValueError for an invalid draft, ObjectNotFound if the artifact or the parent does not
    exist, StoreError. If another writer moved the branch of the draft, the commit is written, and
    BranchConflict names it.
    """
    (commit_id,) = checkpoint_all(store, [draft])
    return commit_id


def checkpoint_all(store: Store, drafts: Sequence[CommitDraft]) -> list[CommitId]:
    """Write several commits atomically. Each is the parent of the next.

    Only the first draft may have a parent. Errors are as for `checkpoint`.
    """
    prepared: list[PreparedCommit] = []
    names: list[CommitId] = []
    for draft in drafts:
        parent = names[-1] if names else draft.parent
        prepared.append(_prepare(draft, parent, _read_content(store, draft)))
        names.append(prepared[-1].commit.id)
    branch = drafts[-1].branch if drafts else ""
    if branch:
        write_on_branch(store, build_batch(prepared), branch, drafts[0].parent)
    else:
        store.write(build_batch(prepared))
    return names


def write_on_branch(store: Store, batch: WriteBatch, branch: str, parent: CommitId | None) -> None:
    """Write commits and move a branch to the last one, in one step.

    The head of the branch must be `parent`, or it must not exist. If it is the last commit, this is
    a repetition. Otherwise the commits are written without the branch, and BranchConflict names
    the last one. Raises ConfigError for an invalid name of a branch.
    """
    check_branch(branch)
    commit = batch.commits[-1][0].id
    expected = store.find_branch(branch)
    while expected in (None, parent):
        try:
            store.write(structs.replace(batch, moves={branch: BranchMove(commit, expected)}))
            return
        except BranchConflict as error:  # Another writer moved it since.
            if error.actual == expected:
                raise
            expected = None if error.actual is None else CommitId(error.actual)
    store.write(batch)
    if expected != commit:
        raise BranchConflict("the store", branch, expected=parent, actual=expected, commit=commit)


class PreparedCommit(msgspec.Struct, frozen=True, dict=True):
    """A complete commit that is not written yet."""

    commit: Commit
    notes: CommitNotes
    content: DraftContent

    @cached_property
    def id(self) -> CommitId:
        """The name of the commit."""
        return self.commit.id


def prepare(draft: CommitDraft) -> PreparedCommit:
    """Create a commit from a draft with messages or entries, without writing it.

    Raises ValueError for an invalid draft, or one with an artifact.
    """
    if draft.artifact is not None:
        raise ValueError(f"{draft.artifact} is stored: `checkpoint` reads it")
    return _prepare(draft, draft.parent, _encode_content(draft))


def build_objects(content: DraftContent) -> list[StoredObject]:
    """Return the new objects of a content with their names, each after its needs."""
    objects: list[StoredObject] = []
    for message in content.encoded_messages:
        objects += [StoredObject(ObjectKind.PART, name, body) for name, body in message.parts]
        needs = tuple(dict.fromkeys([name for name, _ in message.parts]))
        objects.append(StoredObject(ObjectKind.MESSAGE, message.name, message.body, needs))
    needs = tuple(dict.fromkeys([message.name for message in content.encoded_messages]))
    objects.append(StoredObject(ObjectKind.DELTA, content.artifact, content.body, needs))
    return objects


def build_batch(prepared_commits: Sequence[PreparedCommit]) -> WriteBatch:
    """Build the batch of several commits. Parents precede children, or exist in the store."""
    contents = [commit.content for commit in prepared_commits]
    return WriteBatch(
        objects={name: body for content in contents for name, body in content.objects.items()},
        deltas={content.artifact: content.entries for content in contents if content.body},
        raw={content.artifact: content.data for content in contents if content.data is not None},
        commits=[(commit.commit, commit.notes) for commit in prepared_commits],
    )


def _prepare(draft: CommitDraft, parent: CommitId | None, content: DraftContent) -> PreparedCommit:
    commit = _build_commit(draft, parent, content)
    return PreparedCommit(commit, _build_notes(draft, content.messages), content)


class DraftContent(msgspec.Struct, frozen=True):
    """The artifact of a commit, and its content."""

    artifact: ArtifactRef
    entries: Sequence[DeltaEntry] = ()
    messages: Sequence[ChatMessage] = ()
    encoded_messages: Sequence[EncodedMessage] = ()
    """The messages by name, if they may be new."""
    body: bytes = b""
    """The canonical bytes of the delta, if it may be new."""
    data: bytes | None = None
    """The bytes of the artifact if it is no delta, and may be new."""

    @property
    def objects(self) -> dict[Hash, bytes]:
        """All objects that the delta needs, if they may be new."""
        parts = {name: body for message in self.encoded_messages for name, body in message.parts}
        return parts | {message.name: message.body for message in self.encoded_messages}


def _read_content(store: Store, draft: CommitDraft) -> DraftContent:
    if draft.artifact is None:
        return _encode_content(draft)
    if draft.messages or draft.entries or draft.data is not None:
        raise ValueError("a draft has content or an artifact, never both")
    stored = store.deltas([draft.artifact]).get(draft.artifact)
    if stored is not None:
        return DraftContent(draft.artifact, stored, read_entry_messages(store, stored))
    artifact = draft.artifact
    return _parse_content(
        draft, DraftContent(artifact), lambda: read_artifact(store, artifact, draft.format)
    )


def _parse_content(
    draft: CommitDraft, content: DraftContent, parse: Callable[[], list[ConversationEntry]]
) -> DraftContent:
    """Return the content with its messages, unless nothing is derived from them.

    Bytes that cannot be read are committed unchanged. A missing artifact is rejected by the write.
    """
    if None not in (draft.message_count, draft.token_count, draft.created_at) and draft.summary:
        return content
    try:
        entries = parse()
    except (ObjectNotFound, NameNotFound, FormatError):
        return content
    return structs.replace(
        content,
        entries=[core.encode_entry(entry.message, time=entry.time)[0] for entry in entries],
        messages=[entry.message for entry in entries],
    )


def _encode_content(draft: CommitDraft) -> DraftContent:
    if sum(map(bool, (draft.messages, draft.entries, draft.data is not None))) > 1:
        raise ValueError("a draft has messages, entries or data, never both")
    if draft.data is not None:
        data = draft.data
        content = DraftContent(core.hash_raw(data), data=data)
        return _parse_content(draft, content, lambda: read_data(data, draft.format))
    messages = draft.messages or [entry.message for entry in draft.entries]
    times_and_sources = [(entry.time, entry.source) for entry in draft.entries] or [
        (getattr(message, "time", None) or None, None) for message in messages
    ]
    encoded = [core.encode_message(message) for message in messages]
    entries = [
        DeltaEntry(message.name, message.occurrence, *time_and_source)
        for message, time_and_source in zip(encoded, times_and_sources, strict=True)
    ]
    artifact, body = core.encode_delta(entries)
    return DraftContent(artifact, entries, messages, encoded, body)


def estimate_message_tokens(messages: Sequence[ChatMessage]) -> int:
    """Estimate the number of tokens in messages. The result is the same on every machine."""
    texts = [text_of(message.content) for message in messages]
    for message in messages:
        for call in message.tool_calls or ():
            texts += [call.function.name, call.function.arguments]
    size_bytes = sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        for text in texts
    )
    return -(-size_bytes // _BYTES_PER_TOKEN)


def derive_summary(messages: Sequence[ChatMessage]) -> str:
    """Return a one-line summary: the last answer, else the last call, else the last text."""
    if not messages:
        return "nothing new"
    for message in reversed(messages):
        if message.role == "assistant" and text_of(message.content).strip():
            return _format_line(text_of(message.content))
    for message in reversed(messages):
        if message.tool_calls:
            return _format_line(
                "called " + ", ".join(call.function.name for call in message.tool_calls)
            )
    last = messages[-1]
    return _format_line(f"{last.role}: {text_of(last.content)}")


def normalize_time(time: str) -> str:
    """Normalize a time to the form of commits: RFC 3339, UTC, microseconds.

    Such times sort as text. Raises ValueError if the time is invalid or has no time zone.

    >>> normalize_time("2026-01-31T13:00:00+01:00")
    '2026-01-31T12:00:00.000000Z'
    """
    try:
        return normalize_rfc3339(time)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{time!r} is not a time such as 2026-01-31T12:00:00Z: {error}") from None


def _build_commit(draft: CommitDraft, parent: CommitId | None, content: DraftContent) -> Commit:
    for value, allowed in ((draft.type, _TYPES), (draft.trigger, _TRIGGERS)):
        if value not in allowed:
            raise ValueError(f"unknown value {value!r}; allowed: {', '.join(allowed)}")
    count = len(content.entries) if draft.message_count is None else draft.message_count
    tokens = (
        estimate_message_tokens(content.messages)
        if draft.token_count is None
        else draft.token_count
    )
    if count < 0 or tokens < 0:
        raise ValueError(f"a commit has neither {count} messages nor {tokens} tokens")
    time = draft.created_at or next((e.time for e in reversed(content.entries) if e.time), None)
    if time is None:
        raise ValueError("none of the messages has a time: pass created_at")
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
        created_at=normalize_time(time),
    )


def _build_notes(draft: CommitDraft, messages: Sequence[ChatMessage]) -> CommitNotes:
    if draft.summary.strip():
        return CommitNotes(summary=draft.summary, labels=draft.labels)
    summary = derive_summary(messages)
    if (draft.artifact is not None or draft.data is not None) and not messages:
        summary = f"{draft.message_count or 0} messages as {draft.format}"
    return CommitNotes(summary=summary, derived=True, labels=draft.labels)


def _format_line(text: str) -> str:
    line = " ".join(text[:_SUMMARY_SOURCE_CHARS].split())
    if len(line) <= MAX_SUMMARY_CHARS:
        line = " ".join(text.split())
    return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"
