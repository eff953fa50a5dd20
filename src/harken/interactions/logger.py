"""`InteractionLogger`: what each model call of any program saw, kept in logs and a store.

    with InteractionLogger() as log:
        thread = log.start_thread()
        with log.call(thread, messages, model="m") as call:
            reply = call.answer(client(messages))

One idea: it is a way to write and read sessions, and keeps nothing beside them. A thread is a
session as one agent saw it (`<session>/<agent>`), whoever wrote it; what is logged here can be
viewed, searched, replayed and resumed as any session. The folder is a home: `harken --home`
looks at it.

All methods are plain and block no longer than a write to a local file takes; the specification's
are suspending ones, so `async with` works, too. Python threads may share a logger.

Source: spec [S3] "Core Interface"; docs/how-to/log-interactions.md.

What an interaction logger does and where; all has defaults.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self, TypeVar

from harken.context.materialize import resolver
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import Checkpoint
from harken.core.events import ContextLoaded
from harken.core.logged_string import preview
from harken.core.messages import ChatMessage, message_hash
from harken.errors import ConfigError, HarkenError, NameNotFound, StoreError
from harken.index.database import reset_database, run_with_repair
from harken.index.session_index import SessionIndex
from harken.interactions import single_messages
from harken.interactions.call import LoggedCall, Spoken, messages_in
from harken.interactions.open_threads import OpenThreads, parsed
from harken.interactions.records import (
    LoggedMessage,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    ThreadEntry,
    ThreadEventType,
    ThreadSummary,
)
from harken.interactions.retention import drop_old
from harken.interactions.sdk.background import BackgroundRecorder
from harken.interactions.sdk.wrap import recording
from harken.interactions.sdk.wrap import wrap_client as wrap
from harken.interactions.search import found_in
from harken.interactions.thread import ThreadRow, stand_ins, thread_rows
from harken.interactions.thread_index import ThreadIndex
from harken.interactions.unit import message_of
from harken.interactions.writer import RequestSettings
from harken.session.log.compressed import is_packed, log_of
from harken.session.log.reader import events
from harken.session.session import Durability
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionLoggingConfig:
    """The configuration of the specification. Raises ConfigError for a retention that is none.

    Source: spec [S3] "Configuration".
    """

    enabled: bool = True
    """False: nothing is written, and every answer is as it would be."""
    log_directory: Path = Path("logs/interactions")
    """Where the exported form goes; where a logger is given no other folder, its sessions and its
    store are there, too."""
    retention_days: int | None = None
    """Sessions that nobody has written for so many days are dropped, as wholes; None: never."""
    log_context_on_every_request: bool = True
    """False: a request leaves no rows of its context. It cannot be rebuilt then."""
    include_token_estimates: bool = True
    shard_messages: bool = False
    """Whether exported messages stand in folders by the beginning of their id."""

    def __post_init__(self) -> None:
        """Check what can be wrong."""
        if self.retention_days is not None and self.retention_days < 1:
            raise ConfigError(f"sessions are kept for a day or more, not {self.retention_days}")
        object.__setattr__(self, "log_directory", Path(self.log_directory))


Client = TypeVar("Client")
SESSIONS, STORE, INDEX, FACTS = "sessions", "store.db", "interactions.db", "facts.db"
_HEX = frozenset("0123456789abcdef")
_ID_DIGITS = 64
_MEMORY = frozenset(kind for kind in ThreadEventType if kind.startswith("MEMORY_"))

_COMMITTED: dict[ThreadEventType, Checkpoint] = {
    ThreadEventType.LLM_RESPONSE: "turn_boundary",
    ThreadEventType.CONTEXT_COMPACTED: "compaction",
}
_unheard = logging.getLogger("harken")


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
    ) -> None:
        """Use a folder: that of the configuration, unless another one is given.

        store: where messages and commits are, closed by whoever opened it; None: a file in the
        folder. Nothing is made before something is logged. With a retention, what is too old goes
        now. Raises StoreError.
        """
        self.config = config or InteractionLoggingConfig()
        self.folder = Path(folder or self.config.log_directory)
        self.dropped: Sequence[str] = ()
        """The sessions that were too old."""
        self._clock, self._store, self._owns_store = clock, store, store is None
        self._lock, self._closing = RLock(), ExitStack()
        self._recording: BackgroundRecorder | None = None
        is_kept = self.config.enabled
        self._index = ThreadIndex(self.folder / INDEX if is_kept else None)
        self._threads = OpenThreads(
            folder=self.sessions_folder,
            clock=clock,
            durability=durability,
            enabled=self.config.enabled,
            contexts=self.config.log_context_on_every_request,
            resolver=self._resolve,
            open_store=self.open_store,
        )
        self._is_refused = False
        days = self.config.retention_days
        if self.config.enabled and days is not None:
            self.dropped = drop_old(self.logs(), self.open_store, days=days, now_us=clock())

    def log_message(self, message: LoggedMessage) -> str:
        """Store a message by itself, unless it is there; return its id.

        The next `harken store gc` removes it unless a thread names it. Raises FormatError if its id
        is not that of its content, StoreError.
        """
        with self._lock:
            if not self.config.enabled:
                return message_hash(message_of(message))
            time = message.timestamp or format_rfc3339(self._clock())
            return single_messages.keep(self.open_store(), message, time)

    def get_message(self, id: str) -> LoggedMessage | None:
        """Return a message by its id, as it was said first; None: there is none.

        Nothing is searched for it, however many there are. Raises ConfigError, StoreError.
        """
        if len(id) != _ID_DIGITS or not _HEX.issuperset(id):
            return None
        tokens = self.config.include_token_estimates
        with self._lock:
            found = self._index.find(id, tokens=tokens)
            if found is None:
                self._index.update(self.logs())
                found = self._index.find(id, tokens=tokens)
            if found is None and self._has_store:
                found = single_messages.find(self.open_store(), id, tokens=tokens)
            return found

    def start_thread(
        self, session_id: str | None = None, *, name: str | None = None, agent_id: str | None = None
    ) -> str:
        """Begin a thread; return its id, `<session>/<agent>`.

        session_id: goes on with the first thread of this session, or begins it; with `name` or a
        new `agent_id` it is another agent of the session. Raises ConfigError, LogError.
        """
        with self._lock:
            return self._threads.start(session_id, name, agent_id)

    def end_thread(self, thread_id: str, reason: str | None = None) -> None:
        """End a thread; with the first one of a session, the session.

        It can be gone on with. Raises NameNotFound, LogError.
        """
        with self._lock:
            if self.config.enabled:
                self._commit(thread_id, "session_end")
                self._threads.end(thread_id, reason)

    def log_thread_entry(self, thread_id: str, entry: ThreadEntry) -> None:
        """Log a row as it is; `get_thread` gives it back in its place, and unchanged.

        Rows of requests need not be logged by hand where `call` or `log_context_state` is used.
        Raises NameNotFound for a thread or a message that is not there, LogError.
        """
        with self._lock:
            if not self.config.enabled:
                return
            logged = None if entry.message_id is None else self.get_message(entry.message_id)
            if entry.message_id is not None and logged is None:
                raise NameNotFound("logged message", entry.message_id[:_ID_DIGITS], ())
            self._threads.writer(thread_id).add(entry, logged)

    def get_thread(self, thread_id: str) -> list[ThreadEntry]:
        """Return the rows of a thread in order, of whichever session of the folder.

        Raises NameNotFound, LogError.
        """
        return [row.entry for row in self.thread_rows(thread_id)]

    def thread_rows(self, thread_id: str) -> Iterator[ThreadRow]:
        """Yield the same one by one, each with the event of the log that it names. As above."""
        if thread_id in self._threads.issued:
            return
        session_id, agent_id = parsed(thread_id)
        path = self.sessions_folder / f"{session_id}.jsonl"
        if not (path.is_file() or is_packed(path)):
            raise NameNotFound("thread", thread_id, [one.stem for one in self.logs()])
        if not agent_id:
            born = (one.agent_id for one in events(path) if one.agent_id is not None)
            agent_id = str(next(born, ""))
        elif all(one.agent_id != agent_id for one in events(path)):
            there = dict.fromkeys(f"{session_id}/{one.agent_id}" for one in events(path))
            raise NameNotFound("thread", thread_id, [one for one in there if one[-5:] != "/None"])
        estimates = self.config.include_token_estimates
        find = self._resolve if self._has_store else None
        yield from thread_rows(events(path), agent_id, resolver=find, estimates=estimates)

    def log_context_state(
        self,
        thread_id: str,
        messages: Sequence[Spoken],
        event_type: ThreadEventType,
        *,
        model: str = "",
    ) -> None:
        """Log a context as it is now, whole; the log gets what is new of it.

        Its rows: what the context before it held is replayed, all else added; of a request, and
        of a response (what is new is the answer), the row of that. Raises NameNotFound, LogError,
        ValueError for what is no message and for a type that is of memory.
        """
        if event_type in _MEMORY:
            raise ValueError(f"{event_type.value} is no state of a context: log_memory_operation")
        said = messages_in(messages)
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                writer.context(said, event_type, RequestSettings(model=model))
                writer.session.sync()
                if event_type in _COMMITTED:
                    self._commit(thread_id, _COMMITTED[event_type])

    def call(
        self,
        thread_id: str,
        messages: Sequence[Spoken],
        *,
        model: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> LoggedCall:
        """Return a `with` around a model call: request before it, answer or failure after it.

        tools: `name`, `description` and `parameters` of each. Raises ValueError for what is no
        message; in the `with`, NameNotFound and LogError.
        """
        asking = RequestSettings(model=model, parameters=parameters or {}, tools=tools)
        said = messages_in(messages)
        begin = partial(self._begin, thread_id, said, asking)
        return LoggedCall(clock=self._clock, begin=begin, finish=partial(self._finish, thread_id))

    def wrap(self, client: Client, *, session: str = "") -> Client:
        """Return a client of `openai`, `anthropic` or `httpx`, as it is, whose calls are logged.

        They become sessions of the folder, found by what is asked; session: the first `wrap` may
        name the one to which all belong. Until `close`. Raises TypeError for other clients.
        """
        with self._lock:
            if not self.config.enabled:
                return client
            if self._recording is None:
                into = recording(self.sessions_folder, self.open_store(), session=session)
                self._recording = self._closing.enter_context(into)
            return wrap(client, self._recording)

    def log_memory_operation(
        self,
        thread_id: str,
        memory_type: MemoryType,
        operation: MemoryOpType,
        *,
        file_path: str | None = None,
        query: str | None = None,
        result_count: int | None = None,
        content_preview: str | None = None,
    ) -> None:
        """Log a use of memory; of the content its beginning. Raises NameNotFound, LogError."""
        told = MemoryOperationRecord(
            memory_type=MemoryType(memory_type),
            operation=MemoryOpType(operation),
            file_path=file_path,
            query=query,
            result_count=result_count,
            content_preview=None if content_preview is None else preview(content_preview),
        )
        with self._lock:
            if self.config.enabled:
                self._threads.writer(thread_id).memory(told)

    def list_threads(self, limit: int = 100) -> list[ThreadSummary]:
        """Return the threads of the folder, the last written first. As `get_message`."""
        with self._lock:
            self._index.update(self.logs())
            return self._index.threads(limit)

    def search_messages(self, query: str, limit: int | None = 100) -> list[LoggedMessage]:
        """Return the messages that have certain words, the last said first, each once.

        All words are wanted; "several in a row"; beginnings*; -not; one OR the other. Raises
        ConfigError for a query without a word, StoreError.
        """
        tokens = self.config.include_token_estimates
        path = self._beside(FACTS)

        def search() -> list[LoggedMessage]:
            with closing(SessionIndex(path)) as facts:
                store = self.open_store() if self._has_store else None
                facts.update(store, None, self.logs())
                return list(found_in(facts, store, query, limit, tokens=tokens))

        with self._lock:
            repairs = {} if path is None else {path: reset_database}
            found = run_with_repair(search, repairs)
            self._index.update(self.logs())
            return [self._index.find(one.id, tokens=tokens) or one for one in found]

    @property
    def sessions_folder(self) -> Path:
        """Where the logs of its sessions are."""
        return self.folder / SESSIONS

    def logs(self) -> list[Path]:
        """Return the logs of the folder, plain or packed, by name."""
        there = (one for one in self.sessions_folder.glob("*.jsonl*") if one.is_file())
        return sorted({path for one in there if (path := log_of(one)).suffix == ".jsonl"})

    def open_store(self) -> Store:
        """Return the store; its file is made where there is none. Raises StoreError."""
        with self._lock:
            if self._store is None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._store = SqliteStore(self.folder / STORE)
            return self._store

    def close(self) -> None:
        """Make all durable, and let go of it. A second call does nothing."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, thread_id: str, messages: Sequence[Any], asking: RequestSettings) -> None:
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                writer.ask(messages, asking)
                writer.session.sync()

    def _finish(self, thread_id: str, call: LoggedCall) -> None:
        with self._lock:
            if self.config.enabled:
                writer = self._threads.writer(thread_id)
                writer.answer(call.answers, call.ended, latency_s=call.latency_s, error=call.error)
                writer.session.sync()
                self._commit(thread_id, "turn_boundary")

    def _commit(self, thread_id: str, trigger: Checkpoint) -> None:
        """Commit what is new of a thread. A store that refuses is told of, once: logs have all."""
        try:
            self._threads.commit(thread_id, trigger)
        except StoreError as error:
            if not self._is_refused:
                _unheard.warning("commits are not being kept: %s (the log has everything)", error)
            self._is_refused = True
        else:
            self._is_refused = False

    @property
    def _has_store(self) -> bool:
        return self._store is not None or (self.folder / STORE).is_file()

    def _beside(self, name: str) -> Path | None:
        """Return where something that is derived stands; None: in memory."""
        is_there = self.config.enabled and self.folder.is_dir()
        return self.folder / name if is_there else None

    def _resolve(self, event: ContextLoaded) -> Sequence[ChatMessage]:
        """Return the messages of a commit; where it is not there, what says so for each."""
        try:
            return resolver(self.open_store())(event)
        except HarkenError:
            return stand_ins(event)
