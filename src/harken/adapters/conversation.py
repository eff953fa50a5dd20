"""`StoredConversation`: the items of a session of an agent framework as a chain of commits.

A session is a branch, `RUNTIME/ID`, and one more for each other agent, `RUNTIME/ID/AGENT`. New
items are a commit whose bytes are the items as lines of JSON. The commit and the move of the branch
are one write, by compare-and-swap: a writer whose head is not the latest one repeats the write
after the new head, so no writer's items are lost. `write_changes` changes several branches at once.

The context of a session is its items back to a compaction. Items that are removed stay in earlier
commits. A process reads each commit once.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import msgspec

from harken.adapters.conversation_kinds import ConversationKind
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.adapters.conversation_titles import build_title_batch, find_title
from harken.context.checkpoint import (
    SEPARATOR,
    CommitOrigin,
    DraftContent,
    PreparedCommit,
    build_batch,
    derive_summary,
    estimate_message_tokens,
)
from harken.context.history import get_commit
from harken.context.refs import abbreviate_name
from harken.core import structs
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import (
    ArtifactRef,
    Checkpoint,
    Commit,
    CommitId,
    CommitNotes,
    CommitType,
    hash_raw,
)
from harken.core.messages import Message
from harken.errors import BranchConflict
from harken.formats.frameworks.item_lines import encode_item, join_lines
from harken.store.base import BranchMove, RetentionPolicy, Store, StoredCommit, WriteBatch

MAX_ATTEMPTS = 1000
"""The number of times that a write is tried while other writers are faster."""
_INITIAL_DEPTH, _MAX_DEPTH = 16, 4096
_CHECKPOINTS: dict[CommitType, Checkpoint] = {
    "delta": "turn_boundary",
    "compaction": "compaction",
    "snapshot": "spawn",
}


class _Content(msgspec.Struct, frozen=True):
    """The content of a new commit."""

    lines: Sequence[bytes] = ()
    messages: Sequence[Message] = ()
    """The outlines of the items, for the summary and the counts."""


class _Segment(msgspec.Struct, frozen=True):
    """The lines of a commit."""

    commit: StoredCommit
    lines: list[bytes]


class StoredConversation:
    """The items of one session in a store, which its owner closes. Python threads may share it."""

    def __init__(
        self,
        store: Store,
        kind: ConversationKind,
        id_: str,
        clock: Clock = system_clock,
        *,
        agent: str = "",
        run: str = "",
    ) -> None:
        """Use the session with this id, which need not exist yet.

        agent, run: another agent of the session, and one of several runs. Each has its own branch.
        """
        self.store, self.kind, self.id = store, kind, id_
        self.branch = kind.name_branch(id_, part=run or agent)
        self.clock = clock
        session = kind.name_session(id_)
        principal = f"{session}/{agent}" if agent else session
        self.origin = CommitOrigin(
            template=agent or kind.runtime,
            principal=principal.replace(SEPARATOR, "_"),
            session_id=session,
            thread_id=id_,
        )
        self.lock = threading.RLock()
        """Held to build a change that follows from the lines of the conversation."""
        self._latest: CommitId | None = None
        """The head that this process has read or written last. Another one may have moved it."""
        self._head: CommitId | None = None
        self._lines: list[bytes] = []
        """The lines of the context of a head that this process has read or written."""

    def find_head(self) -> CommitId | None:
        """Return the last commit of the session. Return None if the session does not exist.

        Later changes begin at this commit.
        """
        self._latest = self.store.find_branch(self.branch)
        return self._latest

    def find_head_seen(self) -> CommitId | None:
        """Return the head that this process has read or written last."""
        return self._latest or self.find_head()

    def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the last items of the context, oldest first, or all of them without a limit.

        limit: a positive number. Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        with self.lock:
            head = self.find_head()
            if head is None:
                return []
            return decode_lines(self._read_last(head, limit))

    def read_last_lines(self, limit: int | None = None) -> list[bytes]:
        """Return the last lines at the head that `find_head` returned last, or all of them.

        limit: a positive number. Errors as `get_lines`.
        """
        with self.lock:
            head = self.find_head_seen()
            return [] if head is None else self._read_last(head, limit)

    def _read_last(self, head: CommitId, limit: int | None) -> list[bytes]:
        lines = self._read_lines(head, limit)
        return lines if limit is None else lines[-limit:]

    def get_lines(self) -> list[bytes]:
        """Return the lines of the context at the head that `find_head` returned last.

        The list must not be changed. Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        with self.lock:
            head = self.find_head_seen()
            return [] if head is None else self._read_lines(head, None)

    def get_lines_at(self, commit: CommitId) -> list[bytes]:
        """Return the lines of the context of a commit. Errors as `get_lines`, and NameNotFound."""
        with self.lock:
            if commit == self._head:
                return self._lines
            reader = StoredConversation(self.store, self.kind, self.id, self.clock)
            return reader._read_lines(commit, None)

    def read_lines_between(self, start: CommitId | None, end: CommitId) -> list[bytes] | None:
        """Return the lines of the context of a commit that are not in that of an earlier one.

        start: None for all lines. Return None if the context does not include it.
        """
        reader = StoredConversation(self.store, self.kind, self.id, self.clock)
        reader._head = start
        marker: list[bytes] = []
        reader._lines = marker
        lines = reader._read_lines(end, None)
        return lines if start is None or lines is marker else None

    def add_items(self, items: Sequence[Any]) -> None:
        """Append items. On return they survive a power failure.

        Raises TypeError, ValueError if an item is no JSON; StoreError.
        """
        if items:
            lines = [encode_item(item) for item in items]
            messages = self.kind.outline(items)
            write_changes(lambda: [self.build_change(lines, messages)])

    def build_change(
        self,
        lines: Sequence[bytes],
        messages: Sequence[Message] = (),
        *,
        is_replacement: bool = False,
        has_title: bool = False,
        parent: CommitId | None = None,
        spawner: CommitId | None = None,
        summary: str = "",
    ) -> ConversationChange:
        """Return the change that appends lines to the last head that this process has seen.

        messages: the outlines of the lines. is_replacement: the lines are the new context.
        has_title: the title of the session is in these lines, also if it exists already.
        parent, spawner: the commit with which a new branch begins, and that of the agent that
        created a new one, whose messages it does not have. summary: derived if it is empty.
        """
        with self.lock:
            head = self.find_head_seen()
            type_: CommitType = "compaction" if is_replacement and head is not None else "delta"
            if head is None and spawner is not None:
                type_, parent = "snapshot", spawner
            commit = self._prepare(_Content(lines, messages), head or parent, type_, summary)
            title = find_title(messages) if has_title or head is None else ""
            return ConversationChange(self, head, commit, lines, title)

    def write(self, change: ConversationChange) -> None:
        """Write a change once. Raises BranchConflict if another writer has moved the branch."""
        self.store.write(_build_batch([change]))
        self.continue_from(change)

    def continue_from(self, change: ConversationChange) -> None:
        """Continue from a change that was written."""
        with self.lock:
            if change.commit.commit.type == "compaction":
                self._lines = [*change.lines]
            elif change.commit.commit.parent == self._head:
                self._lines += change.lines
            else:
                self._latest = change.commit.id
                return
            self._head = self._latest = change.commit.id

    def pop_item(self) -> Any | None:
        """Remove the last item from the context, and return it. Return None if there is none.

        Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        with self.lock:
            for _ in range(MAX_ATTEMPTS):
                head = self.find_head()
                segment = None if head is None else self._find_last(head)
                if head is None or segment is None:
                    return None
                *lines, last = segment.lines
                if self._move_before(head, segment.commit, lines):
                    break
            else:
                raise self._conflict(head)
            items = decode_lines([last])
        return items[0] if items else self.pop_item()

    def clear(self) -> None:
        """Remove all items from the context. They stay in the history of the session.

        Raises StoreError.
        """
        with self.lock:
            for _ in range(MAX_ATTEMPTS):
                head = self.find_head()
                if head is None:
                    return
                commit = self._prepare(_Content(), head, "compaction", "The session was cleared")
                if self._move(head, commit):
                    self._head, self._lines = commit.id, []
                    return
            raise self._conflict(head)

    def delete(self) -> None:
        """Delete the branch of the session. Raises StoreError.

        `harken store gc` removes its commits, unless others build on them.
        """
        with self.lock:
            for _ in range(MAX_ATTEMPTS):
                head = self.find_head()
                if head is None:
                    return
                try:
                    self.store.move_branch(self.branch, None, expected=head)
                except BranchConflict:
                    continue
                break
            else:
                raise self._conflict(head)
            self._latest, self._head, self._lines = None, None, []
            self._release(head)
            self.store.write(build_title_batch(self.branch, ""))

    def _release(self, head: CommitId) -> None:
        """Let the next collection remove the commits of the session back from a head."""
        expired = RetentionPolicy("ephemeral", until=format_rfc3339(self.clock()))
        policies: dict[CommitId | ArtifactRef, RetentionPolicy | None] = {
            stored.id: expired
            for stored in self.store.chain(head)
            if stored.commit.principal == self.origin.principal
        }
        self.store.set_retention(policies)

    def fork(self, id_: str, at: CommitId | None = None) -> StoredConversation:
        """Return a new session that continues a commit: by default, the last one of this session.

        Nothing is copied. The commit may be of any session and in any format. Raises BranchConflict
        if the new session exists already; NameNotFound if the commit does not exist.
        """
        new = StoredConversation(self.store, self.kind, id_, self.clock)
        parent = self.find_head() if at is None else at
        if parent is None:
            return new
        get_commit(self.store, parent)
        summary = f"Fork of {abbreviate_name(self.store, parent)}"
        commit = new._prepare(_Content(), parent, summary=summary)
        new._write(None, commit)
        return new

    def _prepare(
        self,
        content: _Content,
        parent: CommitId | None,
        type_: CommitType = "delta",
        summary: str = "",
    ) -> PreparedCommit:
        """Create a commit with these lines, which are not parsed again.

        An empty summary is derived.
        """
        data = join_lines(content.lines)
        artifact = hash_raw(data)
        # A draft would be checked as one of a program: a quarter of the time of a small write.
        commit = Commit(
            parent=parent,
            type=type_,
            artifact=artifact,
            format=self.kind.format,
            template=self.origin.template,
            principal=self.origin.principal,
            session_id=self.origin.session_id,
            checkpoint=_CHECKPOINTS[type_],
            thread_id=self.origin.thread_id,
            message_count=len(content.messages),
            token_count=estimate_message_tokens(content.messages),
            created_at=format_rfc3339(self.clock()),
        )
        text = summary or derive_summary(content.messages)
        notes = CommitNotes(summary=text, derived=not summary)
        return PreparedCommit(commit, notes, DraftContent(artifact, data=data))

    def _move(self, head: CommitId | None, commit: PreparedCommit) -> bool:
        """Write a commit and move the branch to it. Return False if the branch has moved."""
        try:
            self._write(head, commit)
        except BranchConflict:
            return False
        self._latest = commit.id
        return True

    def _write(self, head: CommitId | None, commit: PreparedCommit) -> None:
        self.store.write(_build_batch([ConversationChange(self, head, commit)]))

    def _move_before(self, head: CommitId, stored: StoredCommit, lines: Sequence[bytes]) -> bool:
        """Move the branch to the parent of a commit, or to a commit with its first lines."""
        parent = stored.commit.parent
        if not lines and stored.commit.type == "delta" and self._is_own(parent):
            try:
                self.store.write(WriteBatch(moves={self.branch: BranchMove(parent, head)}))
            except BranchConflict:
                return False
            self._latest = new_head = parent
        else:
            content = _Content(lines, self.kind.outline(decode_lines(lines)))
            type_: CommitType = "delta" if stored.commit.type == "delta" else "compaction"
            commit = self._prepare(content, parent, type_)
            if not self._move(head, commit):
                return False
            new_head = commit.id
        if self._head == head and self._lines:
            self._lines.pop()
            self._head = new_head
        return True

    def _is_own(self, parent: CommitId | None) -> TypeGuard[CommitId]:
        """Whether a commit is of this session, so that the branch may end with it."""
        stored = None if parent is None else self.store.commits([parent]).get(parent)
        return stored is not None and stored.commit.session_id == self.origin.session_id

    def _find_last(self, head: CommitId) -> _Segment | None:
        """Return the last commit of the context that has lines, or None."""
        name: CommitId | None = head
        while name is not None:
            (stored,) = self.store.chain(name, 1)
            (lines,) = self._read_commits([stored])
            if lines:
                return _Segment(stored, lines)
            name = stored.commit.parent if stored.commit.type == "delta" else None
        return None

    def _read_lines(self, head: CommitId, limit: int | None) -> list[bytes]:
        """Return the lines of the context of a head, or at least as many as the limit."""
        if head == self._head:
            return self._lines
        before: list[bytes] = []
        commits: list[StoredCommit] = []
        name: CommitId | None = head
        depth, count = _INITIAL_DEPTH, 0
        while name is not None:
            for stored in self.store.chain(name, depth):
                if stored.id == self._head:
                    before, name = self._lines, None
                    break
                commits.append(stored)
                count += stored.commit.message_count
                name = stored.commit.parent if stored.commit.type == "delta" else None
                if name is None:
                    break
                if limit is not None and count >= limit:
                    lines = _join(self._read_commits(commits[::-1]))
                    # The counts of commits of other programs may be wrong.
                    return lines if len(lines) >= limit else self._read_lines(head, None)
            depth = min(2 * depth, _MAX_DEPTH)
        # The list grows, so that its readers see that only its end is new.
        before += _join(self._read_commits(commits[::-1]))
        self._head, self._lines = head, before
        return before

    def _read_commits(self, commits: Sequence[StoredCommit]) -> list[list[bytes]]:
        return read_commit_lines(self.store, commits, self.kind.format)

    def _conflict(self, head: CommitId | None) -> BranchConflict:
        return BranchConflict("the store", self.branch, expected=head, actual=self.find_head())


class ConversationChange(msgspec.Struct, frozen=True):
    """A new commit of a conversation."""

    conversation: StoredConversation
    head: CommitId | None
    """The head that the branch is required to have."""
    commit: PreparedCommit
    lines: Sequence[bytes] = ()
    title: str = ""


def write_changes(build: Callable[[], Sequence[ConversationChange]]) -> None:
    """Write changes of conversations of one store at once, by compare-and-swap.

    build: returns the changes; called again if another writer has moved one of the branches. It
    raises an error to give up, or returns none. On return the changes survive a power failure.
    Raises StoreError, and what `build` raises.
    """
    for _ in range(MAX_ATTEMPTS):
        changes = build()
        if not changes:
            return
        try:
            changes[0].conversation.store.write(_build_batch(changes))
        except BranchConflict as error:
            conflict = error
            for change in changes:
                change.conversation.find_head()
            continue
        for change in changes:
            change.conversation.continue_from(change)
        return
    raise conflict


def _build_batch(changes: Sequence[ConversationChange]) -> WriteBatch:
    """Return the batch of changes, with the titles of new conversations."""
    batch = build_batch([change.commit for change in changes])
    raw, refs = {**batch.raw}, {**batch.derived}
    for change in changes:
        if change.title:
            titles = build_title_batch(change.conversation.branch, change.title)
            raw.update(titles.raw)
            refs.update(titles.derived)
    moves = {
        change.conversation.branch: BranchMove(change.commit.id, change.head) for change in changes
    }
    return structs.replace(batch, raw=raw, derived=refs, moves=moves)


def _join(lists: Iterable[list[bytes]]) -> list[bytes]:
    return [line for lines in lists for line in lines]
