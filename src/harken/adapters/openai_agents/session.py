"""`HarkenSession`: a session of the OpenAI Agents SDK in a home folder or a store of Harken.

The store is read and written in threads, so the event loop does not wait for the disk. A change
that has begun is completed when its task is cancelled: the task ends after the outcome is certain.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from agents import Agent, RunState
from agents.items import TResponseInputItem
from agents.memory import SessionABC, SessionSettings

from harken.adapters.conversation import StoredConversation
from harken.adapters.conversation_kinds import OPENAI_AGENTS
from harken.core.clock import Clock, system_clock
from harken.core.commits import CommitId
from harken.formats.frameworks import openai_run_state
from harken.formats.frameworks.item_lines import decode_item, encode_item
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

T = TypeVar("T")


class HarkenSession(SessionABC):
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
        self._own_store: Store | None = None
        if store is None:
            path = Path(folder).expanduser()
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            store = self._own_store = SqliteStore(path / "store.db", clock=clock)
        self._clock = clock
        self._is_closed = False
        self._conversation = StoredConversation(store, OPENAI_AGENTS, session_id, clock)

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the session."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the session."""
        self.close()

    def close(self) -> None:
        """Close the store, unless it was passed by the caller. A second call does nothing."""
        self._is_closed = True
        if self._own_store is not None:
            self._own_store.close()

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
        return await asyncio.to_thread(
            conversation.get_items, limit if limit is not None and limit > 0 else None
        )

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items. On return they survive a power failure.

        Raises TypeError, ValueError if an item is no JSON; StoreError.
        """
        conversation = self._open_conversation()
        await _change(lambda: conversation.add_items(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item from the context, and return it. Return None if there is none."""
        item: TResponseInputItem | None = await _change(self._open_conversation().pop_item)
        return item

    async def clear_session(self) -> None:
        """Remove all items from the context. They stay in the history of the session."""
        await _change(self._open_conversation().clear)

    async def fork(self, session_id: str, at: str | None = None) -> HarkenSession:
        """Return a new session that continues a commit: by default, the last one of this session.

        Nothing is copied. `at` is the full name of a commit, of any session of the store. The new
        session uses the store of this one. Raises BranchConflict if it exists already;
        NameNotFound if the commit does not exist.
        """
        conversation = self._open_conversation()
        commit = None if at is None else CommitId(at)
        fork = await _change(lambda: conversation.fork(session_id, commit))
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
        await _change(lambda: conversation.save_state(data, openai_run_state.NAME))

    async def load_state(
        self, agent: Agent[Any], **options: Any
    ) -> RunState[Any, Agent[Any]] | None:
        """Return the state that was saved last, to continue the run. Return None if there is none.

        agent: the agent with which the run began. options: those of `RunState.from_json`.
        """
        data = await asyncio.to_thread(self._open_conversation().load_state)
        if data is None:
            return None
        return await RunState.from_json(agent, decode_item(data), **options)

    async def delete_state(self) -> None:
        """Delete the saved state, for example after the run was continued."""
        await _change(self._open_conversation().delete_state)

    def _open_conversation(self) -> StoredConversation:
        if self._is_closed:
            raise RuntimeError(f"the session {self.session_id!r} is closed")
        return self._conversation


def _read_settings(settings: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    """Return settings. Raises TypeError for a member that settings do not have."""
    if isinstance(settings, SessionSettings):
        return settings
    return SessionSettings().resolve(settings)


async def _change(function: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for its end also if the task is cancelled meanwhile.

    The cancellation is raised afterwards.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function))
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
    if cancellation is not None:
        task.exception()  # It is read, so that asyncio does not report it as lost.
        raise cancellation
    return task.result()
