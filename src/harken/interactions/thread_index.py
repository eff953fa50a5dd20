"""`ThreadIndex`: where logged messages stand in the logs of a folder, and which threads there are.

One idea: it is found out from what logs have grown by, and can be deleted at any time. A message
is found by its id in one step, however many there are; it is read from the log itself, so the index
cannot say anything that the log does not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from harken.core.events import (
    AgentConfigured,
    AgentCreated,
    Event,
    LlmRequest,
    LlmResponse,
    SessionStarted,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import USER
from harken.core.logged_string import preview
from harken.core.messages import text_of
from harken.errors import LogError, StoreError, StoreWriteError
from harken.index import database
from harken.index.ingest.logs import LogChanged, LogOffset, chunks, grown
from harken.index.message_text import utf8
from harken.interactions.records import LoggedMessage, ThreadSummary
from harken.interactions.unit import MessageUnit, units_of
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
    recorded INTEGER NOT NULL,      -- whether another program runs the agent
    PRIMARY KEY (log, agent)
) STRICT, WITHOUT ROWID;
"""
_SCHEMA = database.DatabaseSchema("the index of threads", 0x48726B74, 2, _TABLES)  # "Hrkt"


@dataclass(slots=True)
class _Thread:
    """What is new of a thread."""

    name: str | None = None
    model: str | None = None
    began: str = ""
    ended: str = ""
    messages: int = 0
    requests: int = 0
    title: str = ""
    asked: str | None = None
    is_recorded: bool = False


@dataclass(slots=True)
class _News:
    """What is new of a log."""

    log: int
    asked: dict[str, str]
    """Agent -> the model whose answer it waited for."""
    threads: dict[str, _Thread] = field(default_factory=dict)
    units: list[tuple[bytes, int, int, int, str, str | None]] = field(default_factory=list)

    def take(self, event: Event, start: int) -> None:
        """Note what an event tells; `start` is where its line begins."""
        agent = event.agent_id
        if agent is None or agent == USER or isinstance(event, SessionStarted):
            return
        name = utf8(agent)
        thread = self.threads.setdefault(name, _Thread(asked=self.asked.get(name)))
        thread.began, thread.ended = thread.began or utf8(event.time), utf8(event.time)
        match event:
            case AgentCreated() | AgentConfigured():
                thread.is_recorded = "recorded" in (event.spec or {})
                thread.name = utf8(event.name) if event.name else thread.name
                thread.model = utf8(event.language_model or "") or thread.model
            case LlmRequest():
                thread.requests += 1
                thread.asked = utf8(event.model)
                thread.model = thread.asked or thread.model
            case LlmResponse():
                thread.asked = None
            case TranscriptEntry():
                thread.messages += 1
                if event.role == "user" and not thread.title:
                    thread.title = utf8(preview(text_of(event.content)))
                self._place(event, start, thread.asked if event.role == "assistant" else None)
            case _:
                pass

    def _place(self, event: TranscriptEntry, start: int, model: str | None) -> None:
        with suppress(ValueError):
            for part, unit in enumerate(units_of(event)):
                where = self.log, start, part
                self.units.append((bytes.fromhex(unit.id), *where, utf8(event.time), model))


class ThreadIndex:
    """The index of a folder of logs; threads may share it."""

    def __init__(self, path: Path | None) -> None:
        """Name the file; with None, keep the index in memory. It is opened when first used."""
        self.path = path
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None

    def find(self, id: str, *, tokens: bool = True) -> LoggedMessage | None:
        """Return a message that stands in a log; None: it stands in none that is read by now.

        Raises ConfigError, StoreError.
        """
        with self._use():
            row = self._database.execute(_FIND, (bytes.fromhex(id),)).fetchone()
        if row is None:
            return None
        path, start, part, time, model = row
        unit = _unit_at(Path(os.fsdecode(path)), start, part)
        if unit is None or unit.id != id:
            with self._use():
                self._begin_anew()  # The log was replaced.
            return None
        return unit.logged(time, model, tokens=tokens)

    def threads(self, limit: int) -> list[ThreadSummary]:
        """Return the threads of all logs, the last written first. As `find`."""
        with self._use():
            rows: list[tuple[Any, ...]] = self._database.execute(_THREADS, (limit,)).fetchall()
        return [_summary(*row) for row in rows]

    def update(self, logs: Sequence[Path]) -> None:
        """Read what logs have grown by; one that cannot be read is passed over. As `find`."""
        with self._use():
            known = {path for (path,) in self._database.execute("SELECT path FROM logs")}
            if known - {os.fsencode(path) for path in logs}:
                self._begin_anew()  # what stood there first may stand elsewhere, too
            try:
                self._read(logs)
            except LogChanged:
                self._begin_anew()
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

    def _begin_anew(self) -> None:
        with self._writing() as write:
            for table in ("logs", "units", "threads"):
                write.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours

    def _read(self, logs: Iterable[Path]) -> None:
        query = "SELECT path, session, size, tail FROM logs"
        rows: list[tuple[Any, ...]] = self._database.execute(query).fetchall()
        marks = {os.fsdecode(path): LogOffset(*mark) for path, *mark in rows}
        for path in logs:
            mark = marks.get(str(path)) or LogOffset(path.stem)
            with suppress(LogError, OSError):
                if grown(path, mark):
                    self._read_log(path)

    def _read_log(self, path: Path) -> None:
        """Read what is new of a log, a transaction for each piece."""
        is_more = True
        while is_more:
            with self._writing() as write:
                log, mark = self._mark(write, path)
                lines = next(chunks(path, mark), None)
                is_more = lines is not None
                rows = write.execute("SELECT agent, asked FROM threads WHERE log = ?", (log,))
                news = _News(log, {agent: asked for agent, asked in rows if asked is not None})
                for line in lines or ():
                    news.take(line.event, line.start)
                write.executemany(_PUT_UNIT, news.units)
                threads = [_thread_row(log, agent, one) for agent, one in news.threads.items()]
                write.executemany(_PUT_THREAD, threads)
                write.execute(_PUT_MARK, (mark.size, mark.tail, log))

    def _mark(self, write: apsw.Connection, path: Path) -> tuple[int, LogOffset]:
        """Return the row of a log, and how far it was read."""
        name = os.fsencode(path)
        write.execute(_NEW_LOG, (name, utf8(path.stem)))
        query = "SELECT id, session, size, tail FROM logs WHERE path = ?"
        rows: list[tuple[Any, ...]] = write.execute(query, (name,)).fetchall()
        log, *mark = rows[0]
        return log, LogOffset(*mark)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """Hold a transaction. Raises StoreWriteError; of a damaged file, what the database says."""
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


def _unit_at(path: Path, start: int, part: int) -> MessageUnit | None:
    """Return what stands at a place of a log; None: nothing does."""
    try:
        with open_log(path) as file:
            file.seek(start)
            event = decode_event(file.readline())
        return units_of(event)[part] if isinstance(event, TranscriptEntry) else None
    except (LogError, OSError, ValueError, LookupError, RecursionError):
        return None


def _thread_row(log: int, agent: str, one: _Thread) -> tuple[object, ...]:
    said = (one.messages, one.requests, one.title, one.asked, one.is_recorded)
    return (log, agent, one.name, one.model, one.began, one.ended, *said)


def _summary(session: str, agent: str, *row: object) -> ThreadSummary:
    names = ("name", "model", "started_at", "updated_at", "messages", "requests", "title")
    known = dict(zip(names, row, strict=True))
    ids = {"thread_id": f"{session}/{agent}", "session_id": session, "agent_id": agent}
    return ThreadSummary(**ids, **known)  # type: ignore[arg-type]


_FIND = """
SELECT path, start, part, time, model FROM units JOIN logs ON logs.id = log WHERE units.id = ?
"""
_THREADS = """
SELECT session, agent, name, model, began, ended, messages, requests, title
FROM threads JOIN logs ON logs.id = log WHERE messages > 0 OR requests > 0 OR recorded
ORDER BY ended DESC, logs.id DESC, agent LIMIT ?
"""
_NEW_LOG = "INSERT OR IGNORE INTO logs (path, session, size, tail) VALUES (?, ?, 0, x'')"
_PUT_MARK = "UPDATE logs SET size = ?, tail = ? WHERE id = ?"
_PUT_UNIT = """
INSERT INTO units VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
log = excluded.log, start = excluded.start, part = excluded.part, time = excluded.time,
model = excluded.model WHERE excluded.time < time
"""
_PUT_THREAD = """
INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log, agent) DO UPDATE SET
name = ifnull(excluded.name, name), model = ifnull(excluded.model, model), ended = excluded.ended,
asked = excluded.asked, messages = messages + excluded.messages,
requests = requests + excluded.requests,
title = CASE WHEN title = '' THEN excluded.title ELSE title END
"""
