"""`States`: the states of apps, users and sessions, as lines of branches.

A line has the whole state, or what changed. A small state is written whole, and a large one after
some changes, so that reading a state needs few commits, and a change of a large one few bytes.

Source: docs/formats/framework-items.md, "States of Google ADK".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harken.adapters.conversation import ConversationChange, StoredConversation
from harken.adapters.conversation_kinds import make_record_kind
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.adapters.store_user import ConversationCache
from harken.core.clock import Clock
from harken.core.commits import CommitId
from harken.formats.frameworks.item_lines import encode_item
from harken.store.base import Store

STATE = make_record_kind("google-adk-state")
"""The states by the ids of apps, users and sessions."""
_MAX_SMALL_BYTES = 1024
_MAX_DELTAS = 32


class States:
    """The states in a store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._conversations = ConversationCache(store, STATE, clock)

    def get(self, id_: str) -> StoredConversation:
        """Return the lines of a state, which need not exist yet."""
        return self._conversations.get(id_)

    def read(self, id_: str) -> dict[str, Any]:
        """Return the state of an app, a user or a session. It is empty if nothing was written."""
        conversation = self.get(id_)
        conversation.find_head()
        return _fold(decode_lines(conversation.get_lines()))

    def read_all(self, id_prefix: str) -> dict[str, dict[str, Any]]:
        """Return the states with ids that start with a prefix, by id."""
        heads = [*STATE.list_heads(self._store, id_prefix).values()]
        states: dict[str, dict[str, Any]] = {}
        for stored, lines in zip(
            heads, read_commit_lines(self._store, heads, STATE.format), strict=True
        ):
            id_, items = stored.commit.thread_id, decode_lines(lines)
            is_full = any("state" in item for item in items)
            states[id_] = _fold(items) if is_full else self.read(id_)
        return states

    def build_change(
        self, id_: str, delta: Mapping[str, Any], *, is_new: bool = False
    ) -> ConversationChange:
        """Return the change of a state. is_new: an earlier state with the id does not count."""
        conversation = self.get(id_)
        with conversation.lock:
            lines = [] if is_new else conversation.get_lines()
            state = {**_fold(decode_lines(lines)), **delta}
            full = encode_item({"state": state})
            if len(full) <= _MAX_SMALL_BYTES or len(lines) >= _MAX_DELTAS:
                return conversation.build_change([full], is_replacement=True, summary=_SUMMARY)
            line = encode_item({"delta": dict(delta)})
            return conversation.build_change([line], summary=_SUMMARY)

    def read_at(self, id_: str, time: str) -> dict[str, Any]:
        """Return the state that was the last one at a time: RFC 3339, UTC."""
        conversation = self.get(id_)
        head = conversation.find_head()
        chain = [] if head is None else self._store.chain(head)
        earlier: Iterable[CommitId] = (
            stored.id for stored in chain if stored.commit.created_at <= time
        )
        commit = next(iter(earlier), None)
        return {} if commit is None else _fold(decode_lines(conversation.get_lines_at(commit)))


_SUMMARY = "A state of Google ADK"


def _fold(items: Iterable[Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for item in items:
        state = dict(item["state"]) if "state" in item else {**state, **item["delta"]}
    return state
