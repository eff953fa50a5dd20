"""`HarkenSession`: a session of the OpenAI Agents SDK in a home folder or a store of Harken.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents import Agent, RunState
from agents.items import TResponseInputItem
from agents.memory import SessionABC, SessionSettings

from harken.adapters.conversation import StoredConversation
from harken.adapters.conversation_kinds import OPENAI_AGENTS
from harken.adapters.run_states import delete_state, load_state, save_state
from harken.adapters.store_user import StoreUser, complete, read_in_thread
from harken.core.clock import Clock, system_clock
from harken.core.commits import CommitId
from harken.formats.frameworks import openai_run_state
from harken.formats.frameworks.item_lines import decode_item, encode_item
from harken.store.base import Store


class HarkenSession(StoreUser, SessionABC):
    """A session of an agent. Use as a context manager, or call `close`.

    Tasks, threads and processes may share a session: all their items are kept.
    """

    def __init__(
        self,
        session_id: str,
        folder: str | Path = "~/.harken",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Use the session with this id, which need not exist yet.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Many sessions of one
        process share a store best. Raises StoreError.
        """
        self.session_id = session_id
        self.session_settings = _read_settings(session_settings)
        super().__init__(folder, store=store, clock=clock)
        self._conversation = StoredConversation(self._store, OPENAI_AGENTS, session_id, clock)

    @property
    def head(self) -> CommitId | None:
        """The last commit of the session, with which another session can begin, or None."""
        return self._open_conversation().find_head()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the session, oldest first.

        limit: the number of the last items to return, by default that of the session's settings.
        Zero: no items. Negative: all of them, as with the SDK's SQLiteSession.
        """
        conversation = self._open_conversation()
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit == 0:
            return []
        last = limit if limit is not None and limit > 0 else None
        return await read_in_thread(lambda: conversation.get_items(last))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items. On return they survive a power failure.

        Raises TypeError, ValueError if an item is no JSON; StoreError.
        """
        conversation = self._open_conversation()
        await complete(lambda: conversation.add_items(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item from the context, and return it. Return None if there is none."""
        item: TResponseInputItem | None = await complete(self._open_conversation().pop_item)
        return item

    async def clear_session(self) -> None:
        """Remove all items from the context. They stay in the history of the session."""
        await complete(self._open_conversation().clear)

    async def fork(self, session_id: str, at: str | None = None) -> HarkenSession:
        """Return a new session that continues a commit: by default, the last one of this session.

        Nothing is copied. `at` is the full name of a commit, of any session of the store. The new
        session uses the store of this one. Raises BranchConflict if it exists already;
        NameNotFound if the commit does not exist.
        """
        conversation = self._open_conversation()
        commit = None if at is None else CommitId(at)
        fork = await complete(lambda: conversation.fork(session_id, commit))
        return HarkenSession(
            session_id,
            store=fork.store,
            session_settings=self.session_settings,
            clock=self._clock,
        )

    async def save_state(self, state: RunState[Any, Any], **options: Any) -> None:
        """Save the state of an interrupted run, in place of an earlier one.

        options: those of `RunState.to_json`.
        """
        conversation = self._open_conversation()
        data = encode_item(state.to_json(**options))
        await complete(lambda: save_state(conversation, data, openai_run_state.NAME))

    async def load_state(
        self, agent: Agent[Any], **options: Any
    ) -> RunState[Any, Agent[Any]] | None:
        """Return the state that was saved last, to continue the run. Return None if there is none.

        agent: the agent with which the run began. options: those of `RunState.from_json`.
        """
        conversation = self._open_conversation()
        data = await read_in_thread(lambda: load_state(conversation))
        if data is None:
            return None
        return await RunState.from_json(agent, decode_item(data), **options)

    async def delete_state(self) -> None:
        """Delete the saved state, for example after the run was continued."""
        conversation = self._open_conversation()
        await complete(lambda: delete_state(conversation))

    def _open_conversation(self) -> StoredConversation:
        self._check_open(f"the session {self.session_id!r}")
        return self._conversation


def _read_settings(settings: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    """Return settings. Raises TypeError for a member that settings do not have."""
    if isinstance(settings, SessionSettings):
        return settings
    return SessionSettings().resolve(settings)
