"""`TranscriptCache`: the transcripts that a process has used, and the uuids of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from weakref import WeakKeyDictionary

from harken.adapters.conversation import ConversationChange, StoredConversation, write_changes
from harken.adapters.conversation_kinds import CLAUDE_AGENT_SDK
from harken.adapters.conversation_lines import decode_lines
from harken.adapters.line_cursor import LineCursor
from harken.adapters.store_user import ConversationCache
from harken.core.clock import Clock
from harken.formats.frameworks.item_lines import encode_item
from harken.store.base import Store


class TranscriptCache:
    """Transcripts of a store, by session and agent."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._conversations = ConversationCache(store, CLAUDE_AGENT_SDK, clock)
        self._uuids: WeakKeyDictionary[StoredConversation, _Uuids] = WeakKeyDictionary()

    def get(self, id_: str, agent: str = "") -> StoredConversation:
        """Return a transcript, which need not exist yet."""
        return self._conversations.get(id_, agent)

    def append(self, id_: str, agent: str, entries: Sequence[Any]) -> None:
        """Append entries, without those with a uuid that the transcript has already.

        Raises TypeError, ValueError if an entry is no JSON; StoreError.
        """
        conversation = self.get(id_, agent)
        lines = [encode_item(entry) for entry in entries]

        def build() -> list[ConversationChange]:
            spawner = self.get(id_).find_head_seen() if agent else None
            with conversation.lock:
                uuids = self._uuids.setdefault(conversation, _Uuids()).read(
                    conversation.get_lines()
                )
                indexes = _find_new(entries, uuids)
                if not indexes:
                    return []
                messages = CLAUDE_AGENT_SDK.outline([entries[index] for index in indexes])
                new_lines = [lines[index] for index in indexes]
                return [
                    conversation.build_change(
                        new_lines, messages, has_title=not uuids, spawner=spawner
                    )
                ]

        write_changes(build)


class _Uuids:
    """The uuids of the entries of a transcript."""

    def __init__(self) -> None:
        self._cursor = LineCursor()
        self._uuids: set[str] = set()

    def read(self, lines: list[bytes]) -> set[str]:
        """Return the uuids of all lines. Lines that were read before are not read again."""
        new = self._cursor.advance(lines)
        if new.is_restart:
            self._uuids = set()
        self._uuids.update(filter(None, map(_get_uuid, decode_lines(new.lines))))
        return self._uuids


def _find_new(entries: Sequence[Any], uuids: AbstractSet[str]) -> list[int]:
    """Return the indexes of the entries without a uuid that exists already."""
    new: set[str] = set()
    indexes: list[int] = []
    for index, entry in enumerate(entries):
        uuid = _get_uuid(entry)
        if not uuid or (uuid not in uuids and uuid not in new):
            indexes.append(index)
            new.add(uuid)
    return indexes


def _get_uuid(entry: object) -> str:
    uuid = entry.get("uuid") if isinstance(entry, dict) else None
    return uuid if isinstance(uuid, str) else ""
