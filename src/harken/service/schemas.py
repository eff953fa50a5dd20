"""The JSON objects of requests and responses for people and other runtimes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from harken.context.checkpoint import CommitDraft, CommitOrigin
from harken.context.render import Tier
from harken.core import commits
from harken.core.commits import ArtifactRef, CommitId, CommitType
from harken.core.messages import Message
from harken.store.base import StoredCommit

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class TimedMessage(Message, frozen=True, omit_defaults=True):
    """A message and its time (RFC 3339)."""

    time: str | None = None


class _CommitFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata of a new commit."""

    template: str = ""
    principal: str = ""
    machine: str = ""
    session_id: str = ""
    ticket_id: str = ""
    thread_id: str = ""
    summary: str = ""
    """If empty, a summary is derived."""
    labels: tuple[str, ...] = ()
    created_at: str | None = None
    """RFC 3339; null: the time of the last message."""

    @property
    def origin(self) -> CommitOrigin:
        """The origin of the commit."""
        return CommitOrigin(
            template=self.template,
            principal=self.principal,
            machine=self.machine,
            session_id=self.session_id,
            ticket_id=self.ticket_id,
            thread_id=self.thread_id,
        )

    def draft(self, parent: CommitId | None) -> CommitDraft:
        """Return a draft of the commit without content."""
        return CommitDraft(
            parent=parent,
            origin=self.origin,
            summary=self.summary,
            labels=self.labels,
            created_at=self.created_at,
        )


class CommitRequest(_CommitFields, frozen=True, kw_only=True):
    """A new commit of `messages`, or of an existing `artifact`."""

    parent: str | None = None
    """Name of a commit, or a unique prefix of it; null starts a conversation."""
    messages: list[TimedMessage] = []
    artifact: ArtifactRef | None = None
    branch: str = ""
    """The branch to move to the commit, from its parent. Empty: none."""
    type: CommitType = "delta"
    trigger: commits.Checkpoint = "explicit"
    format: str = "events-v1"
    message_count: Count | None = None
    """Null: counted."""
    token_count: Count | None = None
    """Null: estimated."""


class ForkRequest(_CommitFields, frozen=True, kw_only=True):
    """A new branch: a commit without messages."""


class CompactionRequest(_CommitFields, frozen=True, kw_only=True):
    """The context that replaces all messages before it."""

    context: str | list[TimedMessage]
    """A summary, or the new context of the agent."""
    pending: list[TimedMessage] = []
    """New messages since the commit, which are committed first."""


class NotesUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the notes of a commit. Null leaves a field unchanged."""

    summary: str | None = None
    labels: list[str] | None = None
    by: str = ""
    """The model that wrote the summary; empty: a person."""


class CommitCreated(msgspec.Struct, frozen=True):
    """The created commit."""

    id: CommitId


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with all its fields."""

    id: CommitId
    parent: CommitId | None
    type: CommitType
    artifact: ArtifactRef
    format: str
    template: str
    principal: str
    machine: str
    session_id: str
    checkpoint: commits.Checkpoint
    ticket_id: str
    thread_id: str
    message_count: int
    token_count: int
    created_at: str
    summary: str
    derived: bool
    """Whether the summary was derived from the last answer, because none was given."""
    summarized_by: str
    """The model that wrote the summary; empty for a person, or if unknown."""
    labels: tuple[str, ...]


class CommitInfoList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Commits, newest first."""

    commits: list[CommitInfo]
    next: str | None = None
    """The position after the last one, if there are more: `after` of the next request."""


class ConversationBody(msgspec.Struct, frozen=True):
    """The conversation of a commit."""

    ref: ArtifactRef
    """The stored sequence."""
    message_count: int
    token_count: int
    messages: list[Message] | None = None
    """Oldest first; null if they were not requested."""


class RenderedBody(msgspec.Struct, frozen=True):
    """A rendered conversation, and the fidelity of the rendering."""

    ref: ArtifactRef
    """The raw artifact with its bytes."""
    tier: Tier
    """1: unchanged; 2: fields of an older version mapped; 3: rendered; 4: raw."""
    format: str
    """Format of the bytes: the requested one, a narrative, or raw."""
    message_count: int
    token_count: int


class CommitDiffBody(msgspec.Struct, frozen=True):
    """The common ancestor of two commits, and the messages of each after it."""

    ancestor: CommitId | None
    ours: list[Message]
    theirs: list[Message]


class Health(msgspec.Struct, frozen=True):
    """The name and version of the service."""

    name: str
    version: str


def row_of(stored: StoredCommit) -> CommitInfo:
    """Return a commit with all its fields."""
    commit, notes = msgspec.structs.asdict(stored.commit), msgspec.structs.asdict(stored.notes)
    return CommitInfo(id=stored.id, **commit, **notes)
