"""`HarkenSessionService`: the sessions of Google's ADK in a home folder or a store of Harken.

An event is one commit. The commit and the changes of the states of its app, its user and its
session are one write. A session that another writer has changed since it was read is stale: its
event is refused, as by the services of ADK. A change of the state of an app or a user is repeated.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import Session
from google.adk.sessions._session_util import extract_json_safe_state_delta
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.state import State

from harken.adapters.conversation import ConversationChange, StoredConversation, write_changes
from harken.adapters.conversation_kinds import GOOGLE_ADK, join_id, split_id
from harken.adapters.conversation_lines import decode_lines, read_commit_lines
from harken.adapters.google_adk.stale_sessions import StaleSessionError
from harken.adapters.google_adk.states import States
from harken.adapters.store_user import ConversationCache, StoreUser, complete, read_in_thread
from harken.context.history import get_commit
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.store.base import Store, StoredCommit

T = TypeVar("T")
_Key = tuple[str, str, str]
"""The name of the app, the id of the user and that of the session."""


class HarkenSessionService(StoreUser, BaseSessionService):
    """A session service. Use as a context manager, or call `close`.

    Tasks, threads and processes may share it.
    """

    def __init__(
        self,
        folder: str | Path = "~/.harken",
        *,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Open the store.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Raises StoreError.
        """
        super().__init__(folder, store=store, clock=clock)
        self._states = States(self._store, clock)
        self._conversations = ConversationCache(self._store, GOOGLE_ADK, clock)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError."""
        id_ = (session_id or "").strip() or str(uuid.uuid4())
        deltas = extract_json_safe_state_delta(state or {})
        key = (app_name, user_id, id_)
        return await self._call(lambda: self._create(key, deltas), is_change=True)

    def _create(
        self, key: _Key, deltas: Mapping[str, Any], parent: CommitId | None = None
    ) -> Session:
        conversation = self._conversations.get(join_id(*key))

        def build() -> Sequence[ConversationChange]:
            if conversation.find_head() is not None:
                raise AlreadyExistsError(f"Session with id {key[2]} already exists.")
            states = self._build_state_changes(key, deltas, is_new=True)
            return [*states, conversation.build_change([], summary=_CREATED, parent=parent)]

        write_changes(build)
        session = self._read(key, None)
        assert session is not None
        return session

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, or None if it does not exist."""
        key = (app_name, user_id, session_id.strip())
        return await self._call(lambda: self._read(key, config))

    def _read(self, key: _Key, config: GetSessionConfig | None) -> Session | None:
        conversation = self._conversations.get(join_id(*key))
        with conversation.lock:
            head = conversation.find_head()
            if head is None:
                return None
            limit = None if config is None else config.num_recent_events
            lines = conversation.read_last_lines(max(1, limit) if limit is not None else None)
        events = [Event.model_validate_json(line) for line in lines]
        time = events[-1].timestamp if events else self._read_time(head)
        if config is not None and config.after_timestamp:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        if limit is not None:
            events = events[len(events) - limit :] if limit < len(events) else events
        state = self._merge_states(key, self._states.read(join_id(*key)))
        return self._build_session(key, state, time, head, events)

    def _build_session(
        self,
        key: _Key,
        state: dict[str, Any],
        time: float,
        head: CommitId,
        events: Sequence[Event] = (),
    ) -> Session:
        session = Session(
            app_name=key[0],
            user_id=key[1],
            id=key[2],
            state=state,
            events=[*events],
            last_update_time=time,
        )
        session._storage_update_marker = head  # noqa: SLF001 - for services, as ADK says
        return session

    def _read_time(self, head: CommitId) -> float:
        return _get_time(get_commit(self._store, head))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app or a user without events, the last changed one last."""
        prefix = join_id(app_name, "") if user_id is None else join_id(app_name, user_id, "")
        sessions = await self._call(lambda: self._list(app_name, prefix))
        return ListSessionsResponse(sessions=sessions)

    def _list(self, app_name: str, prefix: str) -> list[Session]:
        heads = [*GOOGLE_ADK.list_heads(self._store, prefix).values()]
        states = self._states.read_all(join_id(app_name, "")) if heads else {}
        app_state = self._states.read(join_id(app_name))
        sessions: list[Session] = []
        for stored, lines in zip(
            heads, read_commit_lines(self._store, heads, GOOGLE_ADK.format), strict=True
        ):
            app, user, id_ = split_id(stored.commit.thread_id)
            items = decode_lines(lines[-1:])
            time = items[0]["timestamp"] if items else _get_time(stored)
            state = {**states.get(stored.commit.thread_id, {})}
            _add_state(state, State.APP_PREFIX, app_state)
            _add_state(state, State.USER_PREFIX, states.get(join_id(app, user), {}))
            sessions.append(self._build_session((app, user, id_), state, time, stored.id))
        return sorted(sessions, key=lambda s: (s.last_update_time, s.user_id, s.id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session and its state.

        `harken store gc` then removes them, unless a fork has them.
        """
        id_ = join_id(app_name, user_id, session_id.strip())

        def delete() -> None:
            self._conversations.get(id_).delete()
            self._states.get(id_).delete()

        await self._call(delete, is_change=True)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, with keys without a prefix."""
        return await self._call(lambda: self._states.read(join_id(app_name, user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event. On return it survives a power failure.

        Raises SessionNotFoundError; StaleSessionError if another writer has changed the session
        since it was read.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        line = event.model_dump_json(exclude_none=True, by_alias=True).encode()
        deltas = extract_json_safe_state_delta(event.actions.state_delta)
        head = await self._call(lambda: self._append(session, line, deltas), is_change=True)
        session._storage_update_marker = head  # noqa: SLF001 - for services, as ADK says
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    def _append(self, session: Session, line: bytes, deltas: Mapping[str, Any]) -> CommitId:
        key = (session.app_name, session.user_id, session.id)
        conversation = self._conversations.get(join_id(*key))
        messages = GOOGLE_ADK.outline(decode_lines([line]))
        is_first = not any(event.author == "user" for event in session.events)

        def build() -> Sequence[ConversationChange]:
            with conversation.lock:
                self._check_session(session, conversation)
                states = self._build_state_changes(key, deltas)
                change = conversation.build_change([line], messages, has_title=is_first)
                return [*states, change]

        write_changes(build)
        head = conversation.find_head_seen()
        assert head is not None
        return head

    def _check_session(self, session: Session, conversation: StoredConversation) -> None:
        """Raise SessionNotFoundError, or StaleSessionError if the session is not the stored one."""
        head = conversation.find_head_seen()
        if head is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        marker = session._storage_update_marker  # noqa: SLF001 - for services, as ADK says
        if marker != head and (marker is not None or self._is_older(session, conversation, head)):
            raise StaleSessionError(
                f"The session {session.id} was modified in storage since it was read: another "
                "writer has appended an event. Read it again with get_session."
            )

    def _is_older(self, session: Session, conversation: StoredConversation, head: CommitId) -> bool:
        """Whether a session without a marker, which the program created, lacks the last event."""
        last = decode_lines(conversation.read_last_lines(1))
        if last and session.events and session.events[-1].id == last[0]["id"]:
            return False
        time = last[0]["timestamp"] if last else self._read_time(head)
        return bool(time > session.last_update_time)

    async def fork_session(
        self, session: Session, session_id: str | None = None, *, at: str | None = None
    ) -> Session:
        """Return a new session of the same app and user that continues the events of a session.

        The state is that after the last of these events. Nothing else is copied.

        at: the full name of a commit of the session, in place of its last one. Raises
        AlreadyExistsError, SessionNotFoundError, NameNotFound.
        """
        id_ = (session_id or "").strip() or str(uuid.uuid4())
        source = join_id(session.app_name, session.user_id, session.id)

        def fork() -> Session:
            head = self._conversations.get(source).find_head()
            if head is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            commit = head if at is None else CommitId(at)
            time = get_commit(self._store, commit).commit.created_at
            deltas = {"app": {}, "user": {}, "session": self._states.read_at(source, time)}
            return self._create((session.app_name, session.user_id, id_), deltas, commit)

        return await self._call(fork, is_change=True)

    async def find_head(self, session: Session) -> str | None:
        """Return the last commit of a session, with which a fork can begin, or None."""
        id_ = join_id(session.app_name, session.user_id, session.id)
        return await self._call(self._conversations.get(id_).find_head)

    def _build_state_changes(
        self, key: _Key, deltas: Mapping[str, Any], *, is_new: bool = False
    ) -> list[ConversationChange]:
        """Return the changes of the states of the app, the user and the session."""
        ids = {"app": join_id(key[0]), "user": join_id(*key[:2]), "session": join_id(*key)}
        return [
            self._states.build_change(id_, deltas[scope], is_new=is_new and scope == "session")
            for scope, id_ in ids.items()
            if deltas[scope]
        ]

    def _merge_states(self, key: _Key, state: dict[str, Any]) -> dict[str, Any]:
        _add_state(state, State.APP_PREFIX, self._states.read(join_id(key[0])))
        _add_state(state, State.USER_PREFIX, self._states.read(join_id(*key[:2])))
        return state

    async def _call(self, function: Callable[[], T], *, is_change: bool = False) -> T:
        self._check_open("the session service")
        return await (complete(function) if is_change else read_in_thread(function))


def _add_state(state: dict[str, Any], prefix: str, values: Mapping[str, Any]) -> None:
    state.update({prefix + name: value for name, value in values.items()})


def _get_time(stored: StoredCommit) -> float:
    return parse_rfc3339(stored.commit.created_at) / 1_000_000


_CREATED = "The session was created"
