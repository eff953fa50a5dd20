"""`ThreadIndex`: locations of logged messages in the logs of a folder, and a list of its threads.

The index is derived from the new bytes of logs, and can be deleted at any time. It maps a message
id to a location in a log, from which the message is read, so the index cannot contradict the log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec

from harken.core.events import (
    AgentConfigured,
    AgentCreated,
    ContextLoaded,
    Event,
    Evidence,
    LlmRequest,
    LlmResponse,
    MemoryOperation,
    SessionStarted,
    ThreadNoted,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import USER
from harken.core.logged_string import preview
from harken.core.messages import text_of
from harken.errors import LogError, StoreError, StoreWriteError
from harken.index import database
from harken.index.ingest.log_offset import LogChanged, LogOffset, has_grown
from harken.index.ingest.logs import iter_chunks
from harken.index.message_text import to_utf8
from harken.interactions.records import LoggedMessage, ThreadSummary, weakest_evidence
from harken.interactions.unit import MessageUnit, split_message
from harken.session.log.reader import open_log

_TABLES = """
CREATE TABLE logs (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, session TEXT NOT NULL,
    size INTEGER NOT NULL, tail BLOB NOT NULL
) STRICT;
CREATE TABLE units (
    id BLOB PRIMARY KEY, log INTEGER NOT NULL, start INTEGER NOT NULL, part INTEGER NOT NULL,
    time TEXT NOT NULL, model TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE threads (
    log INTEGER NOT NULL, agent TEXT NOT NULL, name TEXT, model TEXT, began TEXT NOT NULL,
    ended TEXT NOT NULL, messages INTEGER NOT NULL, requests INTEGER NOT NULL, title TEXT NOT NULL,
    asked TEXT,                     -- the model whose answer is waited for
    listed INTEGER NOT NULL,        -- whether it has rows, or another program runs the agent
    evidence TEXT,                  -- the weakest of its requests; NULL: all were recorded
    PRIMARY KEY (log, agent)
) STRICT, WITHOUT ROWID;
"""
_SCHEMA = database.DatabaseSchema("the index of threads", 0x48726B74, 3, _TABLES)  # "Hrkt"


class _Thread(msgspec.Struct):
    """New data of a thread."""

    name: str | None = None
    model: str | None = None
    began: str = ""
    ended: str = ""
    messages: int = 0
    requests: int = 0
    title: str = ""
    asked: str | None = None
    is_listed: bool = False
    evidence: Evidence | None = None


class _LogRows(msgspec.Struct):
    """New rows from a log."""

    log: int
    asked: dict[str, str]
    """Agent -> the model of its open request."""
    threads: dict[str, _Thread] = msgspec.field(default_factory=dict)
    units: list[tuple[bytes, int, int, int, str, str | None]] = msgspec.field(default_factory=list)

    def take(self, event: Event, start: int) -> None:
        """Add an event; `start` is the offset of its line."""
        agent = event.agent_id
        if agent is None or agent == USER or isinstance(event, SessionStarted):
            return
        name = to_utf8(agent)
        thread = self.threads.setdefault(name, _Thread(asked=self.asked.get(name)))
        thread.began, thread.ended = thread.began or to_utf8(event.time), to_utf8(event.time)
        match event:
            case AgentCreated() | AgentConfigured():
                if isinstance(event, AgentCreated):
                    thread.is_listed = event.spec is not None and event.spec.is_recorded
                thread.name = to_utf8(event.name) if event.name else thread.name
                thread.model = to_utf8(event.language_model or "") or thread.model
            case LlmRequest():
                thread.requests += 1
                thread.evidence = weakest_evidence([thread.evidence, event.evidence])
                thread.asked = to_utf8(event.model)
                thread.model = thread.asked or thread.model
            case LlmResponse():
                thread.asked = None
            case TranscriptEntry():
                thread.messages += 1
                if event.role == "user" and not thread.title:
                    thread.title = to_utf8(preview(text_of(event.content)))
                self._add_units(event, start, thread.asked if event.role == "assistant" else None)
            case MemoryOperation() | ThreadNoted() | ContextLoaded():
                thread.is_listed = True
            case _:
                pass

    def _add_units(self, event: TranscriptEntry, start: int, model: str | None) -> None:
        with suppress(ValueError):
            for part, unit in enumerate(split_message(event)):
                location = self.log, start, part
                self.units.append((bytes.fromhex(unit.id), *location, to_utf8(event.time), model))


class ThreadIndex:
    """The index of a folder of logs. It is thread-safe."""

    def __init__(self, path: Path | None) -> None:
        """Set the path.

        With None, the index is kept in memory. The database is opened when first used.
        """
        self.path = path
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None

    def find(self, id: str, *, tokens: bool = True) -> LoggedMessage | None:
        """Return a message by its id. Return None if no indexed log contains it.

        Raises ConfigError, StoreError.
        """
        with self._use():
            row = self._database.execute(_FIND_SQL, (bytes.fromhex(id),)).fetchone()
        if row is None:
            return None
        path, start, part, time, model = row
        unit = _read_unit(Path(os.fsdecode(path)), start, part)
        if unit is None or unit.id != id:
            with self._use():
                self._rebuild()  # The log was replaced.
            return None
        return unit.logged(time, model, tokens=tokens)

    def threads(self, limit: int) -> list[ThreadSummary]:
        """Return the threads of all logs, the most recently written first. Raises as `find`."""
        with self._use():
            rows: list[tuple[Any, ...]] = self._database.execute(_THREADS_SQL, (limit,)).fetchall()
        return [_build_summary(*row) for row in rows]

    def update(self, logs: Sequence[Path]) -> None:
        """Index new events of logs; unreadable logs are skipped. Raises as `find`."""
        with self._use():
            indexed = {path for (path,) in self._database.execute("SELECT path FROM logs")}
            if indexed - {os.fsencode(path) for path in logs}:
                self._rebuild()  # Its messages may also be in another log.
            try:
                self._read(logs)
            except LogChanged:
                self._rebuild()
                self._read(logs)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _use(self) -> Iterator[None]:
        """Hold the connection. Reset a database that is found damaged, and raise StoreError."""
        with self._lock:
            try:
                yield
            except apsw.Error as error:
                if self.path is None or not database.is_damage(error):
                    raise
                self.close()
                database.reset_database(self.path)
                raise StoreError(
                    self.path,
                    "was damaged and has been deleted; try again, the next call rebuilds it",
                ) from None

    @property
    def _database(self) -> apsw.Connection:
        if self._connection is None:
            is_there = self.path is not None and self.path.parent.is_dir()
            path = self.path if is_there else None
            self._connection = database.open_database(path, _SCHEMA)
        return self._connection

    def _rebuild(self) -> None:
        with self._write_transaction() as write:
            for table in ("logs", "units", "threads"):
                write.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours

    def _read(self, logs: Iterable[Path]) -> None:
        query = "SELECT path, session, size, tail FROM logs"
        rows: list[tuple[Any, ...]] = self._database.execute(query).fetchall()
        offsets = {os.fsdecode(path): LogOffset(*offset) for path, *offset in rows}
        for path in logs:
            offset = offsets.get(str(path)) or LogOffset(path.stem)
            with suppress(LogError, OSError):
                if has_grown(path, offset):
                    self._read_log(path)

    def _read_log(self, path: Path) -> None:
        """Read new events of a log, one transaction per chunk."""
        is_more = True
        while is_more:
            with self._write_transaction() as write:
                log, offset = self._get_offset(write, path)
                lines = next(iter_chunks(path, offset), None)
                is_more = lines is not None
                rows = write.execute("SELECT agent, asked FROM threads WHERE log = ?", (log,))
                new_rows = _LogRows(
                    log, {agent: asked for agent, asked in rows if asked is not None}
                )
                for line in lines or ():
                    new_rows.take(line.event, line.start)
                write.executemany(_PUT_UNIT_SQL, new_rows.units)
                threads = [
                    _thread_row(log, agent, thread) for agent, thread in new_rows.threads.items()
                ]
                write.executemany(_PUT_THREAD_SQL, threads)
                write.execute(_PUT_OFFSET_SQL, (offset.size, offset.tail, log))

    def _get_offset(self, write: apsw.Connection, path: Path) -> tuple[int, LogOffset]:
        """Return the row id of a log and the offset up to which it was read."""
        name = os.fsencode(path)
        write.execute(_NEW_LOG_SQL, (name, to_utf8(path.stem)))
        query = "SELECT id, session, size, tail FROM logs WHERE path = ?"
        rows: list[tuple[Any, ...]] = write.execute(query, (name,)).fetchall()
        log, *offset = rows[0]
        return log, LogOffset(*offset)

    @contextmanager
    def _write_transaction(self) -> Iterator[apsw.Connection]:
        """Run a transaction. Raises StoreWriteError, or apsw.Error if the file is damaged."""
        write = self._database
        try:
            write.execute("BEGIN IMMEDIATE")
            yield write
            write.execute("COMMIT")
        except apsw.Error as error:
            if database.is_damage(error):
                raise
            raise StoreWriteError(self.path or "(memory)", reason=str(error)) from None
        finally:
            if write.in_transaction:
                write.execute("ROLLBACK")


def _read_unit(path: Path, start: int, part: int) -> MessageUnit | None:
    """Return the unit at a location of a log, or None if there is none."""
    try:
        with open_log(path) as file:
            file.seek(start)
            event = decode_event(file.readline())
        return split_message(event)[part] if isinstance(event, TranscriptEntry) else None
    except (LogError, OSError, ValueError, LookupError, RecursionError):
        return None


def _thread_row(log: int, agent: str, thread: _Thread) -> tuple[object, ...]:
    counts = (thread.messages, thread.requests, thread.title, thread.asked, thread.is_listed)
    return (
        log,
        agent,
        thread.name,
        thread.model,
        thread.began,
        thread.ended,
        *counts,
        thread.evidence,
    )


def _build_summary(session: str, agent: str, *row: object) -> ThreadSummary:
    names = (
        "name",
        "model",
        "started_at",
        "updated_at",
        "messages",
        "requests",
        "title",
        "evidence",
    )
    values = dict(zip(names, row, strict=True))
    ids = {"thread_id": f"{session}/{agent}", "session_id": session, "agent_id": agent}
    return ThreadSummary(**ids, **values)  # type: ignore[arg-type]


_FIND_SQL = """
SELECT path, start, part, time, model FROM units JOIN logs ON logs.id = log WHERE units.id = ?
"""
_THREADS_SQL = """
SELECT session, agent, name, model, began, ended, messages, requests, title, evidence
FROM threads JOIN logs ON logs.id = log WHERE messages > 0 OR requests > 0 OR listed
ORDER BY ended DESC, logs.id DESC, agent LIMIT ?
"""
_NEW_LOG_SQL = "INSERT OR IGNORE INTO logs (path, session, size, tail) VALUES (?, ?, 0, x'')"
_PUT_OFFSET_SQL = "UPDATE logs SET size = ?, tail = ? WHERE id = ?"
_PUT_UNIT_SQL = """
INSERT INTO units VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
log = excluded.log, start = excluded.start, part = excluded.part, time = excluded.time,
model = excluded.model WHERE excluded.time < time
"""
_PUT_THREAD_SQL = """
INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (log, agent) DO UPDATE SET
name = ifnull(excluded.name, name), model = ifnull(excluded.model, model), ended = excluded.ended,
asked = excluded.asked, listed = listed OR excluded.listed, messages = messages + excluded.messages,
requests = requests + excluded.requests,
evidence = CASE WHEN 'rebuilt' IN (evidence, excluded.evidence) THEN 'rebuilt'
ELSE ifnull(evidence, excluded.evidence) END,
title = CASE WHEN title = '' THEN excluded.title ELSE title END
"""
