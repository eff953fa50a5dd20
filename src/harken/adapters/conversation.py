"""`StoredConversation`: the items of a session of an agent framework as a chain of commits.

A session is a branch, `RUNTIME/ID`. New items are a commit whose bytes are the items as lines of
JSON. The commit and the move of the branch are one write, by compare-and-swap: a writer whose head
is not the latest one repeats the write after the new head, so no writer's items are lost.

The context of a session is its items back to a compaction. Items that are removed stay in earlier
commits. A process reads each commit once.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import msgspec

from harken.adapters.conversation_kinds import ConversationKind
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.adapters.conversation_titles import build_title_batch, find_title
from harken.context.checkpoint import (
    SEPARATOR,
    CommitDraft,
    CommitOrigin,
    DraftContent,
    PreparedCommit,
    build_batch,
    derive_summary,
    estimate_message_tokens,
    prepare,
)
from harken.context.history import get_commit
from harken.context.refs import abbreviate_name
from harken.core import structs
from harken.core.clock import Clock, format_rfc3339
from harken.core.commits import Commit, CommitId, CommitNotes, CommitType, hash_raw
from harken.core.messages import Message
from harken.errors import BranchConflict
from harken.formats.frameworks.item_lines import encode_item, join_lines
from harken.store.base import BranchMove, Store, StoredCommit, WriteBatch

MAX_ATTEMPTS = 1000
"""The number of times that a write is tried while other writers are faster."""
_INITIAL_DEPTH, _MAX_DEPTH = 16, 4096


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

    def __init__(self, store: Store, kind: ConversationKind, id_: str, clock: Clock) -> None:
        """Use the session with this id, which need not exist yet."""
        self.store, self.kind, self.id = store, kind, id_
        self.branch = kind.name_branch(id_)
        self._clock = clock
        session = kind.name_session(id_)
        self._origin = CommitOrigin(
            template=kind.runtime,
            principal=session.replace(SEPARATOR, "_"),
            session_id=session,
            thread_id=id_,
        )
        self._lock = threading.RLock()
        self._latest: CommitId | None = None
        """The head that this process has read or written last. Another one may have moved it."""
        self._head: CommitId | None = None
        self._lines: list[bytes] = []
        """The lines of the context of a head that this process has read or written."""

    def find_head(self) -> CommitId | None:
        """Return the last commit of the session. Return None if the session does not exist."""
        self._latest = self.store.find_branch(self.branch)
        return self._latest

    def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the last items of the context, oldest first, or all of them without a limit.

        limit: a positive number. Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        with self._lock:
            head = self.find_head()
            if head is None:
                return []
            lines = self._read_lines(head, limit)
            return decode_lines(lines if limit is None else lines[-limit:])

    def add_items(self, items: Sequence[Any]) -> None:
        """Append items. On return they survive a power failure.

        Raises TypeError, ValueError if an item is no JSON; StoreError.
        """
        if not items:
            return
        lines = [encode_item(item) for item in items]
        content = _Content(lines, self.kind.outline(items))
        with self._lock:
            head = self._latest or self.find_head()
            for _ in range(MAX_ATTEMPTS):
                commit = self._prepare(content, head)
                title = find_title(content.messages) if head is None else ""
                if self._move(head, commit, title):
                    break
                head = self.find_head()
            else:
                raise self._conflict(head)
            if head == self._head:
                self._lines += lines
                self._head = commit.id

    def pop_item(self) -> Any | None:
        """Remove the last item from the context, and return it. Return None if there is none.

        Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        with self._lock:
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
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                head = self.find_head()
                if head is None:
                    return
                commit = self._prepare(_Content(), head, "compaction", "The session was cleared")
                if self._move(head, commit):
                    self._head, self._lines = commit.id, []
                    return
            raise self._conflict(head)

    def save_state(self, data: bytes, format_: str) -> None:
        """Save the state of a run, in place of an earlier one. Raises StoreError.

        It is a commit without messages after the last commit of the session, on its own branch.
        """
        for _ in range(MAX_ATTEMPTS):
            draft = CommitDraft(
                data=data,
                parent=self.store.find_branch(self.branch),
                format=format_,
                origin=self._origin,
                summary=f"The state of a run of {self.kind.name_session(self.id)}",
                message_count=0,
                token_count=0,
                created_at=format_rfc3339(self._clock()),
            )
            commit = prepare(draft)
            move = BranchMove(commit.id, self.store.find_branch(self._state_branch))
            batch = build_batch([commit])
            try:
                self.store.write(structs.replace(batch, moves={self._state_branch: move}))
            except BranchConflict:
                continue
            return
        raise self._conflict(None)

    def load_state(self) -> bytes | None:
        """Return the state of a run that was saved last, or None.

        Raises NameNotFound, ObjectNotFound if a purge removed it; StoreError.
        """
        head = self.store.find_branch(self._state_branch)
        if head is None:
            return None
        return self.store.raw(get_commit(self.store, head).commit.artifact)

    def delete_state(self) -> None:
        """Delete the branch of the state of a run. The commit stays. Raises StoreError."""
        head = self.store.find_branch(self._state_branch)
        if head is not None:
            self.store.move_branch(self._state_branch, None, expected=head)

    @property
    def _state_branch(self) -> str:
        return self.kind.name_branch(self.id, f"{self.kind.runtime}-state")

    def fork(self, id_: str, at: CommitId | None = None) -> StoredConversation:
        """Return a new session that continues a commit: by default, the last one of this session.

        Nothing is copied. The commit may be of any session and in any format. Raises BranchConflict
        if the new session exists already; NameNotFound if the commit does not exist.
        """
        new = StoredConversation(self.store, self.kind, id_, self._clock)
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
            template=self._origin.template,
            principal=self._origin.principal,
            session_id=self._origin.session_id,
            checkpoint="turn_boundary" if type_ == "delta" else "compaction",
            thread_id=self._origin.thread_id,
            message_count=len(content.lines),
            token_count=estimate_message_tokens(content.messages),
            created_at=format_rfc3339(self._clock()),
        )
        text = summary or derive_summary(content.messages)
        notes = CommitNotes(summary=text, derived=not summary)
        return PreparedCommit(commit, notes, DraftContent(artifact, data=data))

    def _move(self, head: CommitId | None, commit: PreparedCommit, title: str = "") -> bool:
        """Write a commit and move the branch to it. Return False if the branch has moved."""
        try:
            self._write(head, commit, title)
        except BranchConflict:
            return False
        self._latest = commit.id
        return True

    def _write(self, head: CommitId | None, commit: PreparedCommit, title: str = "") -> None:
        batch = structs.replace(
            build_batch([commit]), moves={self.branch: BranchMove(commit.id, head)}
        )
        if title:
            titles = build_title_batch(self.branch, title)
            raw = {**batch.raw, **titles.raw}
            batch = structs.replace(batch, raw=raw, derived=titles.derived)
        self.store.write(batch)

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
        return stored is not None and stored.commit.session_id == self._origin.session_id

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
        lines = [*before, *_join(self._read_commits(commits[::-1]))]
        self._head, self._lines = head, lines
        return lines

    def _read_commits(self, commits: Sequence[StoredCommit]) -> list[list[bytes]]:
        return read_commit_lines(self.store, commits, self.kind.format)

    def _conflict(self, head: CommitId | None) -> BranchConflict:
        return BranchConflict("the store", self.branch, expected=head, actual=self.find_head())


def _join(lists: Iterable[list[bytes]]) -> list[bytes]:
    return [line for lines in lists for line in lines]
