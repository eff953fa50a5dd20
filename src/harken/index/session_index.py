"""The facts of a home: one row for each thing that was said, and an index over the words.

One idea: facts are read once, from what is new since the last time, and can all be read again. So
a file that is damaged, or of another version, is begun anew, and so is one whose logs or commits
are no longer what they were. Several processes may read it, and bring it up to date, at once.

Source: docs/formats/facts.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from harken.core.commits import CommitId
from harken.core.events import SessionStarted
from harken.errors import LogError, StoreWriteError
from harken.index import database, schema
from harken.index.catalogue import Catalogue
from harken.index.ingest.commits import HARKEN, CommitIngest
from harken.index.ingest.import_reports import describe
from harken.index.ingest.logs import LogChanged, LogOffset, LogRows, chunks, grown
from harken.index.ingest.messages import Messages
from harken.index.ingest.new_commits import batches, read, unread
from harken.index.ingest.responses import ResponseIngest
from harken.index.ingest.row_writer import RowWriter
from harken.index.ingest.usage import Costs
from harken.index.message_text import utf8, words_of
from harken.index.stored_text import said_of
from harken.llm.prices import Prices
from harken.session.log.compressed import is_packed
from harken.session.log.reader import events as events_of
from harken.store.base import Store

TABLES = """
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE roots (commit_id INTEGER PRIMARY KEY, root INTEGER NOT NULL) STRICT;
CREATE TABLE said (key INTEGER PRIMARY KEY) STRICT;
CREATE TABLE logs (
    path BLOB PRIMARY KEY,
    session TEXT NOT NULL,          -- '': nothing is read of it
    size INTEGER NOT NULL,
    tail BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE log_agents (
    session TEXT NOT NULL, id TEXT NOT NULL, agent_id INTEGER NOT NULL, birth INTEGER,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE places (
    session_id INTEGER NOT NULL, number INTEGER NOT NULL, message_id INTEGER NOT NULL,
    start INTEGER NOT NULL, PRIMARY KEY (session_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE links (
    ctx BLOB NOT NULL, session_id INTEGER NOT NULL, agent_id INTEGER NOT NULL,
    upto INTEGER NOT NULL
) STRICT;
CREATE INDEX links_by_ctx ON links (ctx);
CREATE INDEX calls_by_message ON tool_calls (message_id);
CREATE INDEX calls_by_result ON tool_calls (result_id) WHERE result_id IS NOT NULL;
CREATE TABLE linked (agent_id INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE words USING fts5 (
    text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2'
);
INSERT INTO words (words, rank) VALUES ('hashsize', 33554432);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, instance);
"""
"""`roots`: the commit with which the history of another begins. `said`: by what is known again what
was said. `logs`: how far each was read; `log_agents`, `places` and `links`: what is in them, and up
to where an agent's messages are in a commit, `linked` up to where that is entered. `vocabulary`:
what words are in `words`, one by one as they are asked for."""
_SCHEMA = database.DatabaseSchema(
    "the facts", schema.APPLICATION, schema.VERSION, schema.TABLES + TABLES
)


class SessionIndex:
    """The facts of a home, in a file that its owner alone can read."""

    def __init__(
        self,
        path: Path | None,
        *,
        prices: Prices | None = None,
        repair: database.Repair | None = None,
    ) -> None:
        """Open or create the file. With a path of None, or in a read-only folder, use memory.

        `prices` are for responses whose runtime does not say what they cost. `repair` is called if
        the file is damaged, in place of `reset_database`. Raises ConfigError, StoreLocked.
        """
        self.path = path
        self._repair = repair
        self._costs = Costs(Prices() if prices is None else prices)
        self.database = self._open()
        """For queries over the tables of `harken.index.schema`."""

    def update(
        self,
        store: Store | None,
        catalogue: Catalogue | None = None,
        logs: Sequence[Path] = (),
        tell: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> None:
        """Read what is new in a store, a catalogue, and the logs of a home.

        tell: how many commits are done, of how many. Raises StoreError.
        """
        if self.has_forgotten:
            self._begin_anew()
        # First the commits: so of each of them the log, if there is one, is among those.
        new = [] if store is None else unread(store, self._known)
        try:
            self._read_logs(logs)
        except LogChanged:
            self._begin_anew()
            new = [] if store is None else unread(store, self._known)
            self._read_logs(logs)
        if store is not None:
            self._read_commits(store, new, tell)
        self._link()
        if catalogue is not None:
            self._describe(catalogue)

    @property
    def has_forgotten(self) -> bool:
        """Whether the index has words of messages that are no longer there."""
        query = "SELECT 1 FROM state WHERE name = 'forgotten'"
        return self.database.execute(query).fetchone() is not None

    def forget(self, names: Iterable[CommitId]) -> None:
        """Let nobody find what commits said that are no longer there. Raises StoreError.

        Others may have said it again, which does not count yet: so the next `update` begins anew.
        """
        with self._writing() as ledger:
            ledger.database.execute("INSERT OR REPLACE INTO state VALUES ('forgotten', '')")
            blobs = [(bytes.fromhex(name[4:]),) for name in names]
            ledger.database.executemany(_FORGET, blobs)

    def close(self) -> None:
        """Let go of it."""
        self.database.close()

    def _open(self) -> apsw.Connection:
        connection = database.open_database(self.path, _SCHEMA, self._repair)
        try:
            connection.execute("PRAGMA journal_mode=WAL")  # Readers do not wait for a writer.
            connection.execute("PRAGMA cache_size=-32768")
        except BaseException:
            connection.close()  # A repair waits until no connection is open.
            raise
        return connection

    def _begin_anew(self) -> None:
        is_temporary = database.is_temporary(self.database)
        self.database.close()
        if is_temporary:
            self.path = None  # A file in a read-only folder is out of date.
        elif self.path is not None:
            database.reset_database(self.path)
        self.database = self._open()

    @contextmanager
    def _writing(self) -> Iterator[RowWriter]:
        """Hold a transaction; what is not written at its end never was.

        Raises StoreWriteError; of a damaged file, what the database says.
        """
        try:
            self.database.execute("BEGIN IMMEDIATE")
            yield RowWriter(self.database)
            self.database.execute("COMMIT")
        except apsw.Error as error:
            if database.is_damage(error):
                raise
            raise StoreWriteError(self.path or "(memory)", reason=str(error)) from None
        finally:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")

    def _known(self, names: Sequence[CommitId]) -> set[CommitId]:
        """Return those of these commits that are entered."""
        blobs = (bytes.fromhex(name[4:]) for name in names)
        rows = database.query_in(self.database, "SELECT name FROM commits WHERE name IN", blobs)
        return {CommitId(f"ctx-{name.hex()}") for (name,) in rows}

    def _read_commits(
        self, store: Store, new: Sequence[CommitId], tell: Callable[[int, int], None]
    ) -> None:
        done = 0
        for batch in batches(store, new):
            found = read(store, batch)
            with self._writing() as ledger:
                known = self._known([one.id for one in batch])  # by another process, meanwhile
                messages = Messages(ledger)
                requests = ResponseIngest(ledger, self._costs)
                logged = {row for (row,) in self.database.execute(_LOGGED)}
                rows = CommitIngest(ledger, messages, requests, logged)
                rows.take([one for one in found if one.stored.id not in known])
                self._take_out(store, rows.superseded)
            done += len(batch)
            tell(done, len(new))

    def _take_out(self, store: Store, messages: Iterable[tuple[int]]) -> None:
        """Take the words of messages out of the index, which has to be told what they were."""
        query = "SELECT hash, session_id, position FROM messages WHERE id = ?"
        names = ("hash", "session_id", "position")
        for (row,) in sorted(messages):  # the order in which the index takes them
            found: list[tuple[Any, ...]] = self.database.execute(query, (row,)).fetchall()
            where = dict(zip(names, found[0], strict=True))
            (said,) = said_of(self.database, store, [where])
            take_out = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
            self.database.execute(take_out, (row, words_of(said)))

    def _read_logs(self, logs: Iterable[Path]) -> None:
        """Read logs that have grown. One that cannot be read is left as far as it can."""
        rows = self.database.execute("SELECT path, session, size, tail FROM logs")
        marks = {os.fsdecode(path): LogOffset(*mark) for path, *mark in rows}
        for path in logs:
            mark = marks.get(str(path)) or LogOffset()
            try:
                if grown(path, mark):
                    self._read_log(path)
            except (LogError, OSError):
                continue

    def _read_log(self, path: Path) -> None:
        """Read what is new of a log, a transaction for each piece."""
        is_more = True
        while is_more:
            with self._writing() as ledger:
                mark = self._mark(path, ledger)
                if not mark.session:
                    return
                session = ledger.session(mark.session, HARKEN, mark.session)
                messages, requests = Messages(ledger), ResponseIngest(ledger, self._costs)
                lines = next(chunks(path, mark), None)
                is_more = lines is not None
                if lines is not None:
                    rows = LogRows(ledger, messages, requests, mark.session, session)
                    rows.take(lines)
                put = "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?)"
                where = os.fsencode(str(path)), mark.session, mark.size, mark.tail
                self.database.execute(put, where)

    def _mark(self, path: Path, ledger: RowWriter) -> LogOffset:
        """Return how far a log was read; of a new one, whose it is. Raises LogError, OSError."""
        query = "SELECT session, size, tail FROM logs WHERE path = ?"
        row = self.database.execute(query, (os.fsencode(str(path)),)).fetchone()
        if row is not None:
            return LogOffset(*row)
        first = next(events_of(path), None)
        own = first.session_id if isinstance(first, SessionStarted) else ""
        session = utf8(own or path.stem)
        query = "SELECT path FROM logs WHERE session = ?"
        rows: list[tuple[Any, ...]] = self.database.execute(query, (session,)).fetchall()
        logs = [Path(os.fsdecode(other)) for (other,) in rows]
        is_copy = any(log.exists() or is_packed(log) for log in logs)
        is_told = ledger.one(_TOLD, session) is not None  # its commits were read without it
        return LogOffset("" if is_copy or is_told else session)

    def _link(self) -> None:
        """Say of the messages of logs in which commit they are, as far as those are there."""
        if self.database.execute("SELECT 1 FROM links LIMIT 1").fetchone() is None:
            return
        with self._writing() as ledger:
            found = ledger.database.execute(_LINKS).fetchall()
            for link, commit, session, agent, upto in found:
                since = ledger.one("SELECT upto FROM linked WHERE agent_id = ?", agent)
                where = commit, agent, session, -1 if since is None else since, upto
                ledger.database.execute(_LINK, where)
                put = "INSERT OR REPLACE INTO linked VALUES (?, max(?, ?))"
                ledger.database.execute(put, (agent, where[3], upto))
                ledger.database.execute("DELETE FROM links WHERE rowid = ?", (link,))

    def _describe(self, catalogue: Catalogue) -> None:
        """Take over what sources told of sessions, if any was read since the last time."""
        mark = ""
        if catalogue.path is not None:
            stat = catalogue.path.stat()
            mark = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
        query = "SELECT value FROM state WHERE name = 'catalogue'"
        if mark and self.database.execute(query).fetchone() == (mark,):
            return
        with self._writing() as ledger:
            describe(ledger.database, catalogue.records())
            ledger.database.execute("INSERT OR REPLACE INTO state VALUES ('catalogue', ?)", (mark,))


_LOGGED = "SELECT s.id FROM logs JOIN sessions s ON s.name = logs.session WHERE logs.session <> ''"
_TOLD = "SELECT 1 FROM sessions s JOIN messages m ON m.session_id = s.id WHERE s.name = ? LIMIT 1"
_LINKS = """
SELECT links.rowid, c.id, links.session_id, links.agent_id, upto
FROM links JOIN commits c ON c.name = ctx ORDER BY links.rowid
"""
_LINK = """
UPDATE messages SET commit_id = ?1 WHERE agent_id = ?2 AND commit_id IS NULL AND id IN
(SELECT message_id FROM places WHERE session_id = ?3 AND number > ?4 AND number <= ?5)
"""
_FORGET = "DELETE FROM messages WHERE commit_id = (SELECT id FROM commits WHERE name = ?)"
