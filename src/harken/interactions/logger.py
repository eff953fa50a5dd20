"""`InteractionLogger`: log every model call of a program with its context.

    with InteractionLogger() as log:
        thread = log.start_thread()
        with log.call(thread, messages, model="m") as call:
            reply = call.answer(client(messages))

The logger reads and writes ordinary sessions and keeps no other records. A thread is a session from
the view of one agent (`<session>/<agent>`), whichever program wrote it. Logged interactions can be
viewed, searched, replayed and resumed like any session. The folder is a Harken home, which `harken
--home` opens.

All methods are synchronous and block only for writes to local files. The specification has
asynchronous methods; `async with` works as well. Python threads may share a logger.

Source: spec [S3] "Core Interface"; docs/how-to/log-interactions.md.

`InteractionLoggingConfig` has the settings of the specification, all with defaults.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Self, TypeVar

from harken.context.checkpoint import CommitIdentity
from harken.context.materialize import make_resolver
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import Checkpoint
from harken.core.events import ContextLoaded
from harken.core.logged_string import preview
from harken.core.messages import ChatMessage, message_hash
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, HarkenError, NameNotFound, StoreError
from harken.formats.client_messages import is_conversation
from harken.index.database import reset_database, run_with_repair
from harken.index.session_index import SessionIndex
from harken.interactions import single_messages
from harken.interactions.call import LoggedCall, MessageLike
from harken.interactions.open_threads import OpenThreads, list_logs, parse_thread_id
from harken.interactions.records import (
    LoggedMessage,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    ThreadEntry,
    ThreadEventType,
    ThreadSummary,
    parse_member,
)
from harken.interactions.retention import delete_expired
from harken.interactions.sdk.background import BackgroundRecorder
from harken.interactions.sdk.wrap import recording
from harken.interactions.sdk.wrap import wrap_client as wrap
from harken.interactions.search import find_messages
from harken.interactions.thread import ThreadRow, placeholder_messages, thread_rows
from harken.interactions.thread_index import ThreadIndex
from harken.interactions.unit import to_message
from harken.interactions.writer import ROW_MISSING
from harken.recording.writer.request import RequestSettings
from harken.session.log.compressed import is_packed
from harken.session.log.reader import iter_events
from harken.session.session import Durability
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore


@check_arguments
@dataclass(frozen=True, slots=True)
class InteractionLoggingConfig:
    """The settings of the specification. Raises ConfigError for an invalid retention.

    Source: spec [S3] "Configuration".
    """

    enabled: bool = True
    """If False, nothing is written, and model calls work as without a logger."""
    log_directory: Path = Path("logs/interactions")
    """Folder of the exported form.

    Without another folder, the logger keeps its sessions and its store here as well.
    """
    retention_days: int | None = None
    """Sessions without writes for this number of days are deleted completely.

    None disables this.
    """
    log_context_on_every_request: bool = True
    """If False, a request has no rows of its context, so the context cannot be rebuilt."""
    include_token_estimates: bool = True
    shard_messages: bool = False
    """Whether exported messages are stored in subfolders by the first digits of their id."""
    redact: Literal["export", "store"] = "export"
    """When credentials are redacted: in exports, or before anything is stored."""

    def __post_init__(self) -> None:
        """Check the retention and normalize the folder."""
        if self.retention_days is not None and self.retention_days < 1:
            raise ConfigError(f"retention_days must be at least 1, not {self.retention_days}")
        object.__setattr__(self, "log_directory", Path(self.log_directory))


Client = TypeVar("Client")
SESSIONS, STORE, INDEX, FACTS = "sessions", "store.db", "interactions.db", "facts.db"
_HEX = frozenset("0123456789abcdef")
_ID_HEX_DIGITS = 64
_MEMORY_EVENTS = frozenset(kind for kind in ThreadEventType if kind.startswith("MEMORY_"))

_COMMIT_TRIGGERS: dict[ThreadEventType, Checkpoint] = {
    ThreadEventType.LLM_RESPONSE: "turn_boundary",
    ThreadEventType.CONTEXT_COMPACTED: "compaction",
}
_logger = logging.getLogger("harken")


@check_arguments
class InteractionLogger:
    """Logs and reads interactions. Use as a context manager, or call `close`."""

    def __init__(
        self,
        config: InteractionLoggingConfig | None = None,
        *,
        folder: str | Path | None = None,
        store: Store | None = None,
        clock: Clock = system_clock,
        durability: Durability = "turn",
        identity: CommitIdentity | None = None,
    ) -> None:
        """Use a folder: by default the one of the configuration.

        `store` has the messages and commits, and is closed by its owner; None means a file in the
        folder. `identity` gives the principal, template, ticket and thread of commits; by default
        each session is its own principal. No file is created before the first write. If a
        retention is configured, expired sessions are deleted now. Raises StoreError.
        """
        self.config = config or InteractionLoggingConfig()
        self.folder = Path(folder or self.config.log_directory)
        self.dropped: Sequence[str] = ()
        """Names of the expired sessions that were deleted."""
        self._clock, self._store, self._owns_store = clock, store, store is None
        self._lock, self._closing = RLock(), ExitStack()
        self._recording: BackgroundRecorder | None = None
        self._identity = identity or CommitIdentity(machine=platform.node())
        self._credentials = Credentials() if self.config.redact == "store" else None
        is_enabled = self.config.enabled
        self._index = ThreadIndex(self.folder / INDEX if is_enabled else None)
        self._threads = OpenThreads(
            folder=self.sessions_folder,
            clock=clock,
            durability=durability,
            enabled=self.config.enabled,
            contexts=self.config.log_context_on_every_request,
            resolver=self._resolve,
            open_store=self.open_store,
            identity=self._identity,
            redact=self._credentials,
        )
        self._is_refused = False
        days = self.config.retention_days
        if self.config.enabled and days is not None:
            self.dropped = delete_expired(self.logs(), self.open_store, days=days, now_us=clock())

    @property
    def redacted(self) -> Mapping[str, int]:
        """Kind -> the number of distinct credentials that were removed before storing."""
        return {} if self._credentials is None else self._credentials.kinds

    def log_message(self, message: LoggedMessage) -> str:
        """Store a single message unless the store has it; return its id.

        The next `harken store gc` removes it unless a thread refers to it. Raises FormatError if
        its id is not that of its content, StoreError.
        """
        with self._lock:
            if not self.config.enabled:
                return message_hash(to_message(message))
            time = message.timestamp or format_rfc3339(self._clock())
            store = self.open_store()
            return single_messages.store_message(store, message, time, self._credentials)

    def get_message(self, id: str) -> LoggedMessage | None:
        """Return a message by its id, with its earliest time. Return None if it does not exist.

        The lookup uses an index and does not scan logs. Raises ConfigError, StoreError.
        """
        if len(id) != _ID_HEX_DIGITS or not _HEX.issuperset(id):
            return None
        tokens = self.config.include_token_estimates
        with self._lock:
            message = self._index.find(id, tokens=tokens)
            if message is None:
                self._index.update(self.logs())
                message = self._index.find(id, tokens=tokens)
            if message is None and self._has_store:
                message = single_messages.find_message(self.open_store(), id, tokens=tokens)
            return message

    def start_thread(
        self, session_id: str | None = None, *, name: str | None = None, agent_id: str | None = None
    ) -> str:
        """Start a thread and return its id, `<session>/<agent>`.

        An existing `session_id` continues the first thread of that session; with `name` or a new
        `agent_id`, it adds an agent to the session. Raises ConfigError, LogError.
        """
        with self._lock:
            return self._threads.start(session_id, name, agent_id)

    def end_thread(self, thread_id: str, reason: str | None = None) -> None:
        """End a thread. Ending the first thread of a session ends the session.

        The thread can be continued later. Raises NameNotFound, LogError.
        """
        with self._lock:
            if self.config.enabled:
                self._commit(thread_id, "session_end")
                self._threads.end(thread_id, reason)

    def log_thread_entry(self, thread_id: str, entry: ThreadEntry) -> None:
        """Log a row unchanged; `get_thread` returns it at the same position.

        Rows of requests need not be logged explicitly if `call` or `log_context_state` is used.
        Raises NameNotFound if the thread or the message does not exist, LogError.
        """
        with self._lock:
            if not self.config.enabled:
                return
            logged = None if entry.message_id is None else self.get_message(entry.message_id)
            if entry.message_id is not None and logged is None:
                raise NameNotFound("logged message", entry.message_id[:_ID_HEX_DIGITS], ())
            self._threads.writer(thread_id).log_row(entry, logged)

    def get_thread(self, thread_id: str) -> list[ThreadEntry]:
        """Return the rows of a thread in order, for any session of the folder.

        Raises NameNotFound, LogError.
        """
        return [row.entry for row in self.thread_rows(thread_id)]

    def thread_rows(self, thread_id: str) -> Iterator[ThreadRow]:
        """Yield the rows of a thread, each with the log event that it refers to.

        Raises as `get_thread`.
        """
        if thread_id in self._threads.issued:
            return
        session_id, agent_id = parse_thread_id(thread_id)
        path = self.sessions_folder / f"{session_id}.jsonl"
        if not (path.is_file() or is_packed(path)):
            raise NameNotFound("thread", thread_id, [event.stem for event in self.logs()])
        if not agent_id:
            agent_ids = (
                event.agent_id for event in iter_events(path) if event.agent_id is not None
            )
            agent_id = str(next(agent_ids, ""))
        elif all(event.agent_id != agent_id for event in iter_events(path)):
            threads = dict.fromkeys(f"{session_id}/{event.agent_id}" for event in iter_events(path))
            raise NameNotFound(
                "thread", thread_id, [event for event in threads if event[-5:] != "/None"]
            )
        estimates = self.config.include_token_estimates
        find_commit = self._resolve if self._has_store else None
        yield from thread_rows(
            iter_events(path), agent_id, resolver=find_commit, estimates=estimates
        )

    def log_context_state(
        self,
        thread_id: str,
        messages: Sequence[MessageLike],
        event_type: ThreadEventType,
        *,
        model: str = "",
    ) -> None:
        """Log the complete current context; only its new messages are written.

        Messages of the previous context become rows of type replayed, all others of type added. A
        request adds the row of the request; a response adds the rows of its new messages. Raises
        NameNotFound, LogError, and ValueError for a memory event type.
        """
        event_type = parse_member("event_type", event_type, ThreadEventType)
        if event_type in _MEMORY_EVENTS:
            raise ValueError(f"{event_type.value} is not a context event: use log_memory_operation")
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                settings = RequestSettings(model=model, missing=ROW_MISSING)
                writer.log_context(_list_values(messages), event_type, settings)
                writer.session.sync()
                if event_type in _COMMIT_TRIGGERS:
                    self._commit(thread_id, _COMMIT_TRIGGERS[event_type])

    def call(
        self,
        thread_id: str,
        messages: Sequence[MessageLike],
        *,
        model: str = "",
        tools: Sequence[Mapping[str, Any]] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> LoggedCall:
        """Return a context manager that logs the request and the outcome of a model call.

        Each tool has `name`, `description` and `parameters`; None means that the tools are unknown,
        an empty list that there were none; the same for parameters. A message of an unknown shape
        is kept as it is. Entering the context manager raises NameNotFound, LogError.
        """
        unknown = {"tools": tools is None, "parameters": parameters is None}
        settings = RequestSettings(
            model=model,
            parameters=parameters or {},
            tools=tools or (),
            missing=[part for part in ROW_MISSING if unknown[part]],
        )
        begin = partial(self._begin, thread_id, _list_values(messages), settings)
        return LoggedCall(clock=self._clock, begin=begin, finish=partial(self._finish, thread_id))

    def wrap(self, client: Client, *, session: str = "") -> Client:
        """Return a client of `openai`, `anthropic` or `httpx` like this one, with its calls logged.

        Calls are grouped into sessions of the folder by their context. The first `wrap` may set a
        `session` to which all calls belong. Logging ends with `close`. Raises TypeError for other
        clients.
        """
        with self._lock:
            if not self.config.enabled:
                return client
            if self._recording is None:
                recorder = recording(
                    self.sessions_folder,
                    self.open_store(),
                    session=session,
                    identity=self._identity,
                    redact=self._credentials,
                )
                self._recording = self._closing.enter_context(recorder)
            return wrap(client, self._recording)

    def log_memory_operation(  # noqa: PLR0917 - the order of the specification
        self,
        thread_id: str,
        memory_type: MemoryType,
        operation: MemoryOpType,
        file_path: str | None = None,
        query: str | None = None,
        result_count: int | None = None,
        content_preview: str | None = None,
    ) -> None:
        """Log a memory operation with a preview of its content. Raises NameNotFound, LogError."""
        record = MemoryOperationRecord(
            memory_type=memory_type,
            operation=operation,
            file_path=file_path,
            query=query,
            result_count=result_count,
            content_preview=None if content_preview is None else preview(content_preview),
        )
        with self._lock:
            if self.config.enabled:
                self._threads.writer(thread_id).log_memory(record)

    def list_threads(self, limit: int = 100) -> list[ThreadSummary]:
        """Return threads of the folder, the most recently written first.

        Raises as `get_message`.
        """
        with self._lock:
            self._index.update(self.logs())
            return self._index.threads(limit)

    def search_messages(self, query: str, limit: int | None = 100) -> list[LoggedMessage]:
        """Return the messages that match a query, newest first, each once.

        The syntax of queries is that of `harken.index.query`. Raises ConfigError for a query
        without a word, StoreError.
        """
        tokens = self.config.include_token_estimates
        path = self._derived_path(FACTS)

        def search() -> list[LoggedMessage]:
            with closing(SessionIndex(path)) as facts:
                store = self.open_store() if self._has_store else None
                facts.update(store, None, self.logs())
                return list(find_messages(facts, store, query, limit, tokens=tokens))

        with self._lock:
            repairs = {} if path is None else {path: reset_database}
            messages = run_with_repair(search, repairs)
            self._index.update(self.logs())
            return [self._index.find(message.id, tokens=tokens) or message for message in messages]

    @property
    def sessions_folder(self) -> Path:
        """Folder of the session logs."""
        return self.folder / SESSIONS

    def logs(self) -> list[Path]:
        """Return the logs of the folder, compressed or not, sorted by name."""
        return list_logs(self.sessions_folder)

    def open_store(self) -> Store:
        """Return the store. Creates its file if it does not exist. Raises StoreError."""
        with self._lock:
            if self._store is None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._store = SqliteStore(self.folder / STORE)
            return self._store

    def close(self) -> None:
        """Write all pending data and close the files. Closing twice has no effect."""
        with self._lock:
            self._recording = None
            self._closing.close()
            self._threads.close()
            self._index.close()
            if self._owns_store and self._store is not None:
                self._store.close()
                self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _begin(
        self, thread_id: str, messages: Sequence[MessageLike], settings: RequestSettings
    ) -> None:
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                writer.log_request(messages, settings)
                writer.session.sync()

    def _finish(self, thread_id: str, call: LoggedCall) -> None:
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                writer.log_response(
                    call.answers, call.outcome, latency_s=call.latency_s, error=call.error
                )
                writer.session.sync()
                self._commit(thread_id, "turn_boundary")

    def _commit(self, thread_id: str, trigger: Checkpoint) -> None:
        """Commit new messages of a thread.

        A failure is logged once; the session log has all messages.
        """
        try:
            self._threads.commit(thread_id, trigger)
        except StoreError as error:
            if not self._is_refused:
                _logger.warning("commits are not being kept: %s (the log has everything)", error)
            self._is_refused = True
        else:
            self._is_refused = False

    @property
    def _has_store(self) -> bool:
        return self._store is not None or (self.folder / STORE).is_file()

    def _derived_path(self, name: str) -> Path | None:
        """Return the path of a derived database, or None to keep it in memory."""
        exists = self.config.enabled and self.folder.is_dir()
        return self.folder / name if exists else None

    def _resolve(self, event: ContextLoaded) -> Sequence[ChatMessage]:
        """Return the messages of a commit, or placeholders if it cannot be read."""
        try:
            return make_resolver(self.open_store())(event)
        except HarkenError:
            return placeholder_messages(event)


def _list_values(messages: Sequence[MessageLike]) -> list[MessageLike]:
    """Return the values of a conversation: a text or the body of a request is one value."""
    return [*messages] if is_conversation(messages) else [messages]
