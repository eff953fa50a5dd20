"""`HarkenHistory`: the messages of a conversation with agents of pydantic-ai.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic_ai.messages import ModelMessage

from harken.adapters.conversation import StoredConversation, write_changes
from harken.adapters.conversation_kinds import PYDANTIC_AI
from harken.adapters.conversation_lines import decode_lines
from harken.adapters.pydantic_ai.message_log import (
    MessageLog,
    decode_messages,
    encode_messages,
)
from harken.adapters.store_user import StoreUser, complete, read_in_thread
from harken.core.clock import Clock, system_clock
from harken.core.commits import CommitId
from harken.errors import BranchConflict
from harken.store.base import Store


class HarkenHistory(StoreUser):
    """The message history of a conversation. Use as a context manager, or call `close`.

    Tasks, threads and processes may share a conversation: all messages that are added are kept.
    """

    def __init__(
        self,
        conversation_id: str,
        folder: str | Path = "~/.harken",
        *,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Use the conversation with this id, which need not exist yet.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Many conversations of one
        process share a store best. Raises StoreError.
        """
        super().__init__(folder, store=store, clock=clock)
        self.conversation_id = conversation_id
        self._conversation = StoredConversation(self._store, PYDANTIC_AI, conversation_id, clock)
        self._log = MessageLog(self._conversation)
        self._seen: CommitId | None = None
        """The head at the last load or write."""

    @property
    def head(self) -> CommitId | None:
        """The last commit of the conversation, with which another one can begin, or None."""
        return self._open_conversation().find_head()

    async def load(self) -> list[ModelMessage]:
        """Return the messages for the next run, oldest first."""
        conversation = self._open_conversation()

        def read() -> list[ModelMessage]:
            with conversation.lock:
                self._seen = conversation.find_head()
                return decode_messages(conversation.get_lines())

        return await read_in_thread(read)

    async def add(self, messages: Sequence[ModelMessage]) -> None:
        """Append the new messages of a run. On return they survive a power failure.

        They follow the messages that other writers have added meanwhile. Raises StoreError.
        """
        conversation = self._open_conversation()
        lines = encode_messages(messages)

        def write() -> None:
            if lines:
                outline = PYDANTIC_AI.outline(decode_lines(lines))
                write_changes(lambda: [conversation.build_change(lines, outline)])
            self._seen = conversation.find_head_seen()

        await complete(write)

    async def replace(self, messages: Sequence[ModelMessage]) -> None:
        """Replace the messages, for example by a shorter history.

        The earlier ones stay in the history of the session. Raises BranchConflict if another writer
        has changed the conversation since this object loaded it; StoreError.
        """
        conversation = self._open_conversation()
        lines = encode_messages(messages)

        def write() -> None:
            with conversation.lock:
                head = conversation.find_head()
                if head != self._seen:
                    raise BranchConflict(
                        "the store", conversation.branch, expected=self._seen, actual=head
                    )
                change = self._log.build_change(lines)
                if change is not None:
                    conversation.write(change)
                self._seen = conversation.find_head_seen()

        await complete(write)

    async def fork(self, conversation_id: str, at: str | None = None) -> HarkenHistory:
        """Return a new conversation that continues a commit: by default, the last one of this one.

        Nothing is copied. `at` is the full name of a commit, of any session of the store. The new
        conversation uses the store of this one. Raises BranchConflict if it exists already;
        NameNotFound if the commit does not exist.
        """
        conversation = self._open_conversation()
        commit = None if at is None else CommitId(at)
        fork = await complete(lambda: conversation.fork(conversation_id, commit))
        return HarkenHistory(conversation_id, store=fork.store, clock=self._clock)

    def _open_conversation(self) -> StoredConversation:
        self._check_open(f"the conversation {self.conversation_id!r}")
        return self._conversation
