"""`MessageLog`: the messages of a conversation or a run of pydantic-ai, as lines of a branch.

A request is completed when it is sent: its time is written then, as a change of the line before. A
history that does not continue the stored one replaces it: the earlier one stays in the history of
the session.

Source: docs/formats/framework-items.md, "Messages of pydantic-ai".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from harken.adapters.conversation import ConversationChange, StoredConversation
from harken.adapters.conversation_kinds import PYDANTIC_AI
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.adapters.line_cursor import LineCursor
from harken.core.commits import CommitId
from harken.formats.frameworks.item_lines import decode_item, encode_item
from harken.formats.frameworks.pydantic_messages import CHANGE, apply_changes
from harken.store.base import Store


def encode_messages(messages: Sequence[ModelMessage]) -> list[bytes]:
    """Return the lines of messages. Raises PydanticSerializationError if one is no JSON."""
    return [ModelMessagesTypeAdapter.dump_json([message])[1:-1] for message in messages]


def decode_messages(lines: Sequence[bytes]) -> list[ModelMessage]:
    """Return the messages of lines, with their changes. Raises ValidationError."""
    return ModelMessagesTypeAdapter.validate_python(apply_changes(decode_lines(lines)))


class MessageLog:
    """The messages of one branch. Its caller holds the lock of the conversation."""

    def __init__(self, conversation: StoredConversation) -> None:
        self.conversation = conversation
        self._cursor = LineCursor()
        self._messages: list[bytes] = []
        """The lines of messages, with their changes."""

    def build_change(
        self,
        messages: Sequence[bytes],
        *,
        parent: CommitId | None = None,
        shared: int = 0,
        spawner: CommitId | None = None,
    ) -> ConversationChange | None:
        """Return the change after which the branch has these messages. Return None if it has them.

        parent: the commit with which a new branch begins. shared: the number of its messages.
        spawner: the commit of the run that started a new one.
        """
        conversation = self.conversation
        if conversation.find_head_seen() is None:
            new = [*messages[shared:]]
            outline = PYDANTIC_AI.outline(decode_lines(new))
            if not new and parent is None:
                return None
            return conversation.build_change(new, outline, parent=parent, spawner=spawner)
        stored = self._read()
        count = min(len(stored), len(messages))
        differing = self._count_equal(messages[:count])
        new, changes = [*messages[differing:]], []
        if differing == len(stored) - 1 and new:
            members = _find_changed_members(stored[-1], new[0])
            if members is not None:
                changes = [encode_item({"kind": CHANGE, "members": members})]
                new = new[1:]
        elif differing == len(stored) and not new:
            return None
        is_replacement = not changes and differing < len(stored)
        lines = [*messages] if is_replacement else [*changes, *new]
        outline = PYDANTIC_AI.outline(decode_lines([*messages] if is_replacement else new))
        return conversation.build_change(lines, outline, is_replacement=is_replacement)

    def _count_equal(self, messages: Sequence[bytes]) -> int:
        """Return the number of stored lines that are equal to the first of these.

        An equal line takes the place of the stored one: the next comparison finds the same bytes.
        """
        for index, message in enumerate(messages):
            if self._messages[index] is not message:
                if not _is_equal(self._messages[index], message):
                    return index
                self._messages[index] = message
        return len(messages)

    def _read(self) -> list[bytes]:
        new = self._cursor.advance(self.conversation.get_lines())
        if new.is_restart:
            self._messages = []
        extend_messages(self._messages, new.lines)
        return self._messages


def extend_messages(messages: list[bytes], lines: Sequence[bytes]) -> None:
    """Append the messages of lines, and apply their changes."""
    prefix = encode_item({"kind": CHANGE})[:-1]
    for line in lines:
        if line.startswith(prefix) and messages:
            (message,) = apply_changes([decode_item(messages[-1]), decode_item(line)])
            messages[-1] = encode_item(message)
        else:
            messages.append(line)


def find_shared(
    store: Store, head: CommitId, messages: Sequence[bytes]
) -> tuple[CommitId | None, int]:
    """Return the last commit back from a head whose messages are the first of these, and how many.

    Raises ObjectNotFound, ObjectCorrupted.
    """
    chain = []
    for stored in store.chain(head):
        chain.append(stored)
        if stored.commit.type != "delta":
            break
    chain.reverse()
    shared: tuple[CommitId | None, int] = None, 0
    lines_read: list[bytes] = []
    contents = read_commit_lines(store, chain, PYDANTIC_AI.format)
    for stored, lines in zip(chain, contents, strict=True):
        extend_messages(lines_read, lines)
        if len(lines_read) > len(messages):
            break
        is_equal = [*map(_is_equal, lines_read[shared[1] :], messages[shared[1] : len(lines_read)])]
        if all(is_equal):
            shared = stored.id, len(lines_read)
        elif not all(is_equal[:-1]):
            break
        # The next commit may change the last message.
    return shared


def _is_equal(stored: bytes, line: bytes) -> bool:
    """Whether two lines are equal JSON values."""
    return stored == line or bool(decode_item(stored) == decode_item(line))


def _find_changed_members(stored: bytes, line: bytes) -> dict[str, Any] | None:
    """Return the members that changed. Return None if a change cannot express the difference."""
    old, new = decode_item(stored), decode_item(line)
    if old["parts"] != new["parts"] or old["kind"] != new["kind"] or not old.keys() <= new.keys():
        return None
    return {name: value for name, value in new.items() if name not in old or old[name] != value}
