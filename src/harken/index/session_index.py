"""The session index of a home: one row for each message, and a full-text index.

The index reads only what is new since the last update, and can be rebuilt completely. So it is
recreated if the file is damaged or of another version, or if logs or commits are no longer what
they were. Several processes may read and update it concurrently.

Source: docs/formats/facts.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from harken.core.commits import CommitId
from harken.core.events import SessionStarted
from harken.errors import LogError
from harken.index import database, schema
from harken.index.catalogue import Catalogue
from harken.index.ingest.log_offset import LogChanged, LogOffset, has_grown
from harken.index.ingest.new_commits import (
    find_indexed,
    find_unread,
    iter_batches,
    read_commit_texts,
)
from harken.index.ingest.row_writer import RowWriter
from harken.index.ingest.usage import Costs
from harken.index.message_text import searchable_text, to_utf8
from harken.index.stored_text import read_texts
from harken.llm.prices import Prices
from harken.session.log.compressed import is_packed
from harken.session.log.reader import iter_events as events_of
from harken.store.base import Store

if TYPE_CHECKING:
    from harken.formats.runtimes.client_sessions import ClientSession

STATE_TABLES_SQL = """
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE roots (commit_id INTEGER PRIMARY KEY, root INTEGER NOT NULL) STRICT;
CREATE TABLE said (key INTEGER PRIMARY KEY) STRICT;
CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,             -- the session id in it; '': nothing is read of it
    session_id INTEGER,
    size INTEGER NOT NULL,
    tail BLOB NOT NULL
) STRICT;
CREATE INDEX logs_by_session ON logs (session_id);
CREATE TABLE log_agents (
    log_id INTEGER NOT NULL, id TEXT NOT NULL, agent_id INTEGER NOT NULL, birth INTEGER,
    PRIMARY KEY (log_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE places (
    log_id INTEGER NOT NULL, number INTEGER NOT NULL, message_id INTEGER NOT NULL,
    start INTEGER NOT NULL, PRIMARY KEY (log_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE links (
    ctx BLOB NOT NULL, log_id INTEGER NOT NULL, agent_id INTEGER NOT NULL,
    upto INTEGER NOT NULL
) STRICT;
CREATE INDEX links_by_ctx ON links (ctx);
CREATE TABLE native_agents (
    session_id INTEGER NOT NULL, native TEXT NOT NULL, agent_id INTEGER NOT NULL,
    PRIMARY KEY (session_id, native)
) STRICT, WITHOUT ROWID;
CREATE INDEX native_agents_by_name ON native_agents (native);
CREATE TABLE main_names (agent_id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE INDEX agents_by_name ON agents (name);
CREATE TABLE recorded (message_id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE unpaired (session_id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE repeats (message_id INTEGER PRIMARY KEY, original_id INTEGER NOT NULL) STRICT;
CREATE TABLE pairs (message_id INTEGER PRIMARY KEY, recorded_id INTEGER NOT NULL) STRICT;
CREATE INDEX pairs_by_recorded ON pairs (recorded_id);
CREATE TABLE text_keys (message_id INTEGER PRIMARY KEY, key BLOB NOT NULL) STRICT;
CREATE TABLE outcomes (
    session_id INTEGER NOT NULL, source INTEGER NOT NULL, time INTEGER NOT NULL,
    outcome TEXT NOT NULL, PRIMARY KEY (session_id, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_message ON tool_calls (message_id);
CREATE INDEX requests_by_message ON requests (message_id);
CREATE INDEX calls_by_result ON tool_calls (result_id) WHERE result_id IS NOT NULL;
CREATE TABLE linked (
    log_id INTEGER NOT NULL, agent_id INTEGER NOT NULL, upto INTEGER NOT NULL,
    PRIMARY KEY (log_id, agent_id)
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2'
);
INSERT INTO words (words, rank) VALUES ('hashsize', 33554432);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, instance);
"""
"""`roots`: the first commit of the history of a commit.

`said`: deduplication keys of messages. `logs`: how far each log was read; `log_agents`, `places`
and `links`: its agents, its messages, and up to which message an agent's messages are in a commit;
`linked`: up to which message that has been applied. `native_agents`: the runtime's names of agents,
empty for the main conversation. `main_names`: the names of main agents, which
`agents` does not have. `recorded`: messages of commits that were made from a log which is
not here. `unpaired`, `repeats`, `pairs`, `text_keys`: see `harken.index.ingest.message_pairs`.
`outcomes`: see `harken.index.ingest.outcomes`. `vocabulary`: the words of `words`, looked up one by
one.
"""
_SCHEMA = database.DatabaseSchema(
    "the facts", schema.APPLICATION_ID, schema.SCHEMA_VERSION, schema.TABLES_SQL + STATE_TABLES_SQL
)


class SessionIndex:
    """The session index of a home, in a file that only its owner can read."""

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
        """The connection, for queries over the tables of `harken.index.schema`."""

    def update(
        self,
        store: Store | None,
        catalogue: Catalogue | None = None,
        logs: Sequence[Path] = (),
        tell: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> None:
        """Index new commits of a store, import reports of a catalogue, and new events of logs.

        `tell` is called with the number of indexed commits and their total. Raises StoreError.
        """
        if self.has_forgotten:
            self._rebuild()
        # The commits are listed first, so that a log of each new commit, if any, is among `logs`.
        new = [] if store is None else find_unread(store, self.database)
        try:
            self._read_logs(logs)
        except LogChanged:
            self._rebuild()
            new = [] if store is None else find_unread(store, self.database)
            self._read_logs(logs)
        if store is not None:
            self._read_commits(store, new, tell)
        self._apply_links()
        self._pair_messages(store)
        if catalogue is not None:
            self._update_sessions(catalogue)

    @property
    def has_forgotten(self) -> bool:
        """Whether the index still contains words of messages that were removed."""
        query = "SELECT 1 FROM state WHERE name = 'forgotten'"
        return self.database.execute(query).fetchone() is not None

    def forget(self, ctxs: Iterable[CommitId]) -> None:
        """Remove the messages of deleted commits from the index. Raises StoreError.

        A repeat of such a message may exist, which was not counted. So the next `update` rebuilds
        the index.
        """
        with self._write_transaction() as ledger:
            ledger.database.execute("INSERT OR REPLACE INTO state VALUES ('forgotten', '')")
            blobs = [(bytes.fromhex(name[4:]),) for name in ctxs]
            ledger.database.executemany(_FORGET_SQL, blobs)

    def close(self) -> None:
        """Close the database."""
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

    def _rebuild(self) -> None:
        is_temporary = database.is_temporary(self.database)
        self.database.close()
        if is_temporary:
            self.path = None  # A file in a read-only folder is out of date.
        elif self.path is not None:
            database.reset_database(self.path)
        self.database = self._open()

    @contextmanager
    def _write_transaction(self) -> Iterator[RowWriter]:
        """Run a transaction. As `database.write_transaction`."""
        with database.write_transaction(self.database, self.path):
            yield RowWriter(self.database)

    def _read_commits(
        self, store: Store, new: Sequence[CommitId], tell: Callable[[int, int], None]
    ) -> None:
        if not new:
            return
        from harken.index.ingest.commits import CommitIngest
        from harken.index.ingest.messages import Messages
        from harken.index.ingest.responses import ResponseIngest

        done = 0
        for batch in iter_batches(store, new):
            texts = read_commit_texts(store, batch)
            with self._write_transaction() as ledger:
                # Another process may have added them meanwhile.
                indexed = find_indexed(self.database, [commit.id for commit in batch])
                messages = Messages(ledger)
                requests = ResponseIngest(ledger, self._costs)
                rows = CommitIngest(ledger, messages, requests)
                rows.add([commit for commit in texts if commit.stored.id not in indexed])
                self._remove_words(store, [row for (row,) in rows.superseded])
            done += len(batch)
            tell(done, len(new))

    def _pair_messages(self, store: Store | None) -> None:
        """Find the messages of recorded sessions that their files repeat."""
        if self.database.execute("SELECT 1 FROM unpaired LIMIT 1").fetchone() is None:
            return
        from harken.index.ingest.message_pairs import pair_messages

        with self._write_transaction() as ledger:
            repeats = pair_messages(ledger.database, partial(read_texts, self.database, store))
            self._remove_words(store, repeats)

    def _remove_words(self, store: Store | None, messages: Iterable[int]) -> None:
        """Remove messages from the full-text index, which needs their original text."""
        query = "SELECT hash, session_id, position FROM messages WHERE id = ?"
        names = ("hash", "session_id", "position")
        for row in sorted(messages):  # The order in which FTS5 is fastest.
            rows: list[tuple[Any, ...]] = self.database.execute(query, (row,)).fetchall()
            location = dict(zip(names, rows[0], strict=True))
            (text,) = read_texts(self.database, store, [location])
            words = searchable_text(text)
            if words:
                delete = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
                self.database.execute(delete, (row, words))

    def _read_logs(self, logs: Iterable[Path]) -> None:
        """Read logs that have grown. An unreadable log is skipped."""
        rows = self.database.execute("SELECT path, name, size, tail FROM logs")
        offsets = {os.fsdecode(path): LogOffset(*offset) for path, *offset in rows}
        for path in logs:
            offset = offsets.get(str(path)) or LogOffset()
            try:
                if has_grown(path, offset):
                    self._read_log(path)
            except (LogError, OSError):
                continue

    def _read_log(self, path: Path) -> None:
        """Read new events of a log, one transaction per chunk."""
        from harken.index.ingest.logs import LogRows, iter_chunks
        from harken.index.ingest.messages import Messages
        from harken.index.ingest.responses import ResponseIngest
        from harken.session.log.origin import find_counted_origin

        is_more = True
        while is_more:
            with self._write_transaction() as ledger:
                offset = self._get_offset(path)
                if not offset.session:
                    return
                lines = next(iter_chunks(path, offset), None)
                is_more = lines is not None
                session, recorded = self._find_session(path, offset.session, ledger)
                values = os.fsencode(str(path)), offset.session, session, offset.size, offset.tail
                log = ledger.query_value(_LOG_SQL, *values)
                if lines is not None:
                    LogRows(
                        ledger,
                        Messages(ledger),
                        ResponseIngest(ledger, self._costs),
                        log=log,
                        name=offset.session,
                        session=session,
                        recorded=recorded,
                        origin=find_counted_origin(path, next(events_of(path), None)),
                    ).add(lines)

    def _find_session(
        self, path: Path, name: str, ledger: RowWriter
    ) -> tuple[int, ClientSession | None]:
        """Return the row id of a log's session, and the session of another runtime if it is one.

        Raises LogError, OSError.
        """
        from harken.formats.runtimes.client_sessions import ClientSession, read_recorded_session

        recorded = read_recorded_session(path)
        if recorded is None:
            session = ledger.session(name, schema.HARKEN_RUNTIME, name)
        else:
            recorded = ClientSession(recorded.runtime, to_utf8(recorded.native))
            session = ledger.session(recorded.name, *recorded)
        self.database.execute(_SESSION_LOG_SQL, (name, session))
        return session, recorded

    def _get_offset(self, path: Path) -> LogOffset:
        """Return the offset of a log; a new one has its session id. A renamed log is continued.

        Raises LogError, OSError; LogChanged for a recording whose commits were indexed without it.
        """
        from harken.formats.runtimes.client_sessions import read_recorded_session

        query = "SELECT name, size, tail FROM logs WHERE path = ?"
        row = self.database.execute(query, (os.fsencode(str(path)),)).fetchone()
        if row is not None:
            return LogOffset(*row)
        first = next(events_of(path), None)
        session_id = first.session_id if isinstance(first, SessionStarted) else ""
        name = to_utf8(session_id or path.stem)
        query = "SELECT path, size, tail, id FROM logs WHERE name = ?"
        rows: list[tuple[Any, ...]] = self.database.execute(query, (name,)).fetchall()
        logs = [Path(os.fsdecode(log_path)) for log_path, *_ in rows]
        if any(log.exists() or is_packed(log) for log in logs):
            return LogOffset()
        if rows:
            _, size, tail, log_id = rows[0]
            update = "UPDATE logs SET path = ? WHERE id = ?"
            self.database.execute(update, (os.fsencode(str(path)), log_id))
            return LogOffset(name, size, tail)
        recorded = read_recorded_session(path)
        if recorded is None:
            # Its commits were indexed without the log.
            is_indexed = self.database.execute(_HAS_MESSAGES_SQL, (name,)).fetchone() is not None
            return LogOffset("" if is_indexed else name)
        if self.database.execute(_HAS_RECORDED_SQL, (to_utf8(recorded.name),)).fetchone():
            raise LogChanged
        return LogOffset(name)

    def _apply_links(self) -> None:
        """Set the commit of logged messages after their commits are indexed."""
        if self.database.execute("SELECT 1 FROM links LIMIT 1").fetchone() is None:
            return
        with self._write_transaction() as ledger:
            links = ledger.database.execute(_LINKS_SQL).fetchall()
            for link, commit, log, agent, upto in links:
                query = "SELECT upto FROM linked WHERE log_id = ? AND agent_id = ?"
                since = ledger.query_value(query, log, agent)
                values = commit, agent, log, -1 if since is None else since, upto
                ledger.database.execute(_LINK_SQL, values)
                insert = "INSERT OR REPLACE INTO linked VALUES (?, ?, max(?, ?))"
                ledger.database.execute(insert, (log, agent, values[3], upto))
                ledger.database.execute("DELETE FROM links WHERE rowid = ?", (link,))
                if ledger.query_value(_HAS_OWN_MESSAGES_SQL, commit, log) is not None:
                    # The commit was read before the log named it.
                    ledger.database.execute("INSERT OR REPLACE INTO state VALUES ('forgotten', '')")

    def _update_sessions(self, catalogue: Catalogue) -> None:
        """Update sessions from import reports, if the catalogue changed since the last update."""
        fingerprint = ""
        if catalogue.path is not None:
            stat = catalogue.path.stat()
            fingerprint = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
        query = "SELECT value FROM state WHERE name = 'catalogue'"
        if fingerprint and self.database.execute(query).fetchone() == (fingerprint,):
            return
        from harken.index.ingest.import_reports import update_sessions

        with self._write_transaction() as ledger:
            update_sessions(ledger.database, catalogue.records())
            ledger.database.execute(
                "INSERT OR REPLACE INTO state VALUES ('catalogue', ?)", (fingerprint,)
            )


_LOG_SQL = """
INSERT INTO logs (path, name, session_id, size, tail) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (path) DO UPDATE SET size = ?4, tail = ?5 RETURNING id
"""
_SESSION_LOG_SQL = "UPDATE sessions SET log = ?1 WHERE id = ?2 AND (log = '' OR ?1 < log)"
_HAS_MESSAGES_SQL = (
    "SELECT 1 FROM sessions s JOIN messages m ON m.session_id = s.id WHERE s.name = ? LIMIT 1"
)
_HAS_RECORDED_SQL = """
SELECT 1 FROM recorded JOIN messages m ON m.id = message_id JOIN sessions s ON s.id = m.session_id
WHERE s.name = ? LIMIT 1
"""
_HAS_OWN_MESSAGES_SQL = """
SELECT 1 FROM messages m JOIN logs ON logs.session_id = m.session_id
WHERE m.commit_id = ? AND m.event IS NULL AND logs.id = ? LIMIT 1
"""
_LINKS_SQL = """
SELECT links.rowid, c.id, links.log_id, links.agent_id, upto
FROM links JOIN commits c ON c.name = ctx ORDER BY links.rowid
"""
_LINK_SQL = """
UPDATE messages SET commit_id = ?1 WHERE agent_id = ?2 AND commit_id IS NULL AND id IN
(SELECT message_id FROM places WHERE log_id = ?3 AND number > ?4 AND number <= ?5)
"""
_FORGET_SQL = "DELETE FROM messages WHERE commit_id = (SELECT id FROM commits WHERE name = ?)"
