"""The states of paused runs: each is a commit without messages, on a branch of its own.

Its parent is the last commit of the session at that time.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

from harken.adapters.conversation import MAX_ATTEMPTS, StoredConversation
from harken.context.checkpoint import CommitDraft, build_batch, prepare
from harken.context.history import get_commit
from harken.core import structs
from harken.core.clock import format_rfc3339
from harken.errors import BranchConflict
from harken.store.base import BranchMove


def save_state(conversation: StoredConversation, data: bytes, format_: str) -> None:
    """Save the state of a run, in place of an earlier one. Raises StoreError."""
    store, branch = conversation.store, _name_branch(conversation)
    for _ in range(MAX_ATTEMPTS):
        draft = CommitDraft(
            data=data,
            parent=store.find_branch(conversation.branch),
            format=format_,
            origin=conversation.origin,
            summary=f"The state of a run of {conversation.origin.session_id}",
            message_count=0,
            token_count=0,
            created_at=format_rfc3339(conversation.clock()),
        )
        commit = prepare(draft)
        expected = store.find_branch(branch)
        batch = structs.replace(
            build_batch([commit]), moves={branch: BranchMove(commit.id, expected)}
        )
        try:
            store.write(batch)
        except BranchConflict:
            continue
        return
    raise BranchConflict("the store", branch, expected=expected, actual=store.find_branch(branch))


def load_state(conversation: StoredConversation) -> bytes | None:
    """Return the state of a run that was saved last, or None.

    Raises NameNotFound, ObjectNotFound if a purge removed it; StoreError.
    """
    head = conversation.store.find_branch(_name_branch(conversation))
    if head is None:
        return None
    return conversation.store.raw(get_commit(conversation.store, head).commit.artifact)


def delete_state(conversation: StoredConversation) -> None:
    """Delete the branch of the state of a run. The commit stays. Raises StoreError."""
    branch = _name_branch(conversation)
    head = conversation.store.find_branch(branch)
    if head is not None:
        conversation.store.move_branch(branch, None, expected=head)


def _name_branch(conversation: StoredConversation) -> str:
    return conversation.kind.name_branch(conversation.id, f"{conversation.kind.runtime}-state")
