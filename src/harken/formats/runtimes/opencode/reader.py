"""The reader of OpenCode sessions, in its database or in a document of `opencode export`.

A session has messages in the order of their times, and a message has parts in the order of their
ids, in rows or in a document. A database holds all sessions of a machine: each is a separate
conversation, and a session that another one spawned begins at the step of the call.

A database is untrusted: only tables are read, nothing in it is executed.

Source: docs/formats/opencode.md.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text, truncate_title
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.new_session import build_format
from harken.formats.runtimes.opencode.messages import build_resume_request, entries_from_message
from harken.formats.runtimes.opencode.writer import write_session
from harken.formats.runtimes.read_point import BadLine
from harken.formats.runtimes.steps import StepBuilder, StepNumbers

NAME = "opencode-v1"
_SQLITE_MAGIC = b"SQLite format 3\0"
_CHECKED_BYTES = 4096
_SIDECAR_SUFFIXES = ("-wal", "-shm")
_MAX_PARTS = 100_000
"""Further parts of a message are ignored."""

MessageAndParts: TypeAlias = tuple[Record, list[Record]]
"""The metadata of a message and its parts."""


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a database or an export of OpenCode."""
    if head.startswith(_SQLITE_MAGIC):
        is_named = path.replace("\\", "/").rsplit("/", 1)[-1].startswith("opencode")
        return is_named or (b"session_id" in head and b"message_id" in head)
    first = b"".join(head[:_CHECKED_BYTES].removeprefix(b"\xef\xbb\xbf").split())
    return first.startswith(b'{"info":{') and b'"id":"ses' in first


def copy_merged_database(path: Path, folder: Path) -> Path:
    """Copy a database with its WAL files, merge them, and return the copy.

    The original is never opened, because SQLite would write to its folder. Raises OSError, and
    FormatError if the file is no database.
    """
    copy = folder / path.name
    shutil.copyfile(path, copy)
    for suffix in _SIDECAR_SUFFIXES:
        sidecar = path.with_name(path.name + suffix)
        if sidecar.exists():
            shutil.copyfile(sidecar, copy.with_name(copy.name + suffix))
    if copy.with_name(copy.name + "-wal").exists():
        try:
            with closing(sqlite3.connect(copy)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise FormatError(NAME, f"it is not a SQLite database ({error})") from None
    return copy


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of all sessions of a database, or of an export. Raises FormatError."""
    if _read_magic(source).startswith(_SQLITE_MAGIC):
        with _open_database(source) as database:
            yield from _SessionReader(report, _DatabaseSource(database, report)).read()
        return
    document = read_document(source, report, NAME)
    if not isinstance(document.get("messages"), list) or not get_text(
        get_object(document, "info"), "id"
    ):
        raise FormatError(NAME, "it has no info.id or no messages")
    report.used_lines = report.lines
    yield from _SessionReader(report, _DocumentSource(document)).read()
    report.tips = dict.fromkeys([""], *report.tips.values()) if report.tips else {}


class _SessionSource(Protocol):
    """A source of sessions."""

    def sessions(self) -> list[Record]:
        """Return the metadata of the sessions, the last changed first."""
        ...

    def messages(self, session: str, *, is_repeat: bool = False) -> Iterator[MessageAndParts]:
        """Yield the messages of a session, oldest first. With `is_repeat`, nothing is counted."""
        ...


def _read_magic(source: SessionFile) -> bytes:
    return next(iter(source.chunks()), b"")[: len(_SQLITE_MAGIC)]


@contextmanager
def _open_database(source: SessionFile) -> Iterator[sqlite3.Connection]:
    """Copy the bytes to a temporary file and open it as a database."""
    with tempfile.TemporaryDirectory(prefix="harken-") as folder:
        path = Path(folder, "read.db")
        with path.open("wb") as file:
            for chunk in source.chunks():
                file.write(chunk)
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = bytes
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA query_only=ON")
            try:
                yield database
            except (sqlite3.Error, MemoryError, UnicodeDecodeError) as error:  # lengths, names
                raise FormatError(NAME, f"it cannot be read ({error})") from None


class _DocumentSource(msgspec.Struct):
    """An export with one session."""

    document: Record

    def sessions(self) -> list[Record]:
        """Return the metadata of the session."""
        return [get_object(self.document, "info")]

    def messages(self, session: str, *, is_repeat: bool = False) -> Iterator[MessageAndParts]:
        """Yield the messages of the session."""
        for message in get_objects(self.document, "messages"):
            yield get_object(message, "info"), get_objects(message, "parts")


class _DatabaseSource(msgspec.Struct):
    """A database with rows of sessions, messages and parts."""

    database: sqlite3.Connection
    reading: ReadReport

    def __post_init__(self) -> None:
        """Check the tables. Views and virtual tables do not count, because they execute code."""
        rows = self.database.execute(
            "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0"
        )
        names = {row[0] for row in rows}
        if not {b"session", b"message", b"part"} <= names:
            raise FormatError(NAME, "it has no tables session, message and part")

    def sessions(self) -> list[Record]:
        """Return the metadata of the sessions, the last changed first."""
        sessions_ = []
        query = "SELECT * FROM session ORDER BY time_updated DESC, id"
        cursor = self.database.execute(query)
        names = [str(column[0]) for column in cursor.description]
        for row in cursor:
            values = [
                value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                for value in row
            ]
            record = dict(zip(names, values, strict=True))
            converted = {
                "parentID": record.get("parent_id"),
                "revert": _parse_object(record.get("revert")),
            }
            sessions_.append({**record, **converted})
        return sessions_

    def messages(self, session: str, *, is_repeat: bool = False) -> Iterator[MessageAndParts]:
        """Yield the messages of a session, oldest first."""
        query = "SELECT id, data FROM message WHERE session_id=? ORDER BY time_created, id"
        for id_, data in self.database.execute(query, [session]):
            info = self._parse_row(id_, data, is_repeat=is_repeat)
            if info is None:
                continue
            info["id"] = _as_text(id_)
            yield info, list(self._iter_parts(id_, is_repeat=is_repeat))

    def _iter_parts(self, message: object, *, is_repeat: bool) -> Iterator[Record]:
        query = "SELECT id, data FROM part WHERE message_id=? ORDER BY id LIMIT ?"
        message_id = _as_text(message) if isinstance(message, bytes) else message
        for id_, data in self.database.execute(query, [message_id, _MAX_PARTS]):
            part = self._parse_row(id_, data, is_repeat=is_repeat)
            if part is not None:
                yield part

    def _parse_row(self, id_: object, data: object, *, is_repeat: bool) -> Record | None:
        """Parse the object in a row. Return None, after a report, if there is none."""
        report = ReadReport() if is_repeat else self.reading
        report.lines += 1
        try:
            value = canonical.from_json(data if isinstance(data, bytes) else b"")
        except ValueError as error:
            value = error
        if isinstance(value, dict):
            report.used_lines += 1
            return value
        report.bad.append(BadLine(report.lines, 0, f"row {_as_text(id_)!a} has no object"[:120]))
        return None


def _as_text(id_: object) -> str:
    return id_.decode("utf-8", "replace") if isinstance(id_, bytes) else str(id_)


def _parse_object(value: object) -> Record:
    try:
        parsed = canonical.from_json(value.encode()) if isinstance(value, str) else None
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


class _SessionReader(msgspec.Struct):
    """Reads sessions, each after the one that spawned it."""

    reading: ReadReport
    keeper: _SessionSource
    origins: dict[str, str | None] = msgspec.field(default_factory=dict)
    """The spawning step of each session."""
    numbers: StepNumbers = msgspec.field(default_factory=StepNumbers)

    def read(self) -> Iterator[ImportStep]:
        """Yield the steps of all sessions, and report the last conversation."""
        sessions_ = {get_text(info, "id"): info for info in self.keeper.sessions()}
        tips: dict[str, str] = {}
        for info in _sort_parents_first(sessions_):
            self.reading.session_id = _root_id(info, sessions_)
            self.reading.folder = get_text(info, "directory")
            self.reading.version = get_text(info, "version")
            yield from self._iter_session_steps(
                info, is_child=get_text(info, "parentID") in sessions_
            )
            tips |= self.reading.tips
            self.reading.tips = {}
        ordered = [session_id_ for session_id_ in sessions_ if session_id_ in tips]
        ordered.sort(
            key=lambda session_id_: get_text(sessions_[session_id_], "parentID") in sessions_
        )
        self.reading.tips = {session_id_: tips[session_id_] for session_id_ in ordered}
        last_session = sessions_.get(ordered[0]) if ordered else None
        if last_session is not None:
            self.reading.session_id = get_text(last_session, "id")
            self.reading.folder = get_text(last_session, "directory")
            self.reading.title = (
                truncate_title(get_text(last_session, "title")) or self.reading.title
            )

    def _iter_session_steps(self, info: Record, *, is_child: bool) -> Iterator[ImportStep]:
        id_ = get_text(info, "id")
        revert_point = _find_revert_point(info, self.keeper.messages(id_, is_repeat=True))
        builder = StepBuilder(
            self.reading,
            branching={revert_point} if revert_point else (),
            agent=id_ if is_child else "",
            origin=self.origins.get(id_),
            numbers=self.numbers,
        )
        compactions: dict[str, MessageAndParts] = {}
        for index, (message_info, parts) in enumerate(self.keeper.messages(id_)):
            node = get_text(message_info, "id") or f"message {index}"
            compaction = next((p for p in parts if get_text(p, "type") == "compaction"), None)
            if compaction is not None:
                compactions[node] = message_info, parts
            compaction_request = compactions.get(get_text(message_info, "parentID"))
            if compaction_request is not None and _is_summary(message_info):
                kept_entries = self._kept_entries(id_, compaction_request)
                entries = [
                    *entries_from_message(*compaction_request),
                    *entries_from_message(message_info, parts),
                    *kept_entries,
                ]
                yield from builder.compact(
                    node, builder.head, _join_texts(message_info, parts), entries
                )
            else:
                yield from builder.add(
                    node, builder.head, entries_from_message(message_info, parts)
                )
            self._record_origins(parts, builder)
        if revert_point is not None:
            builder.head = revert_point or None
        yield from builder.end()
        tip = builder.current
        self.reading.tips = {} if tip is None else {id_: tip}

    def _record_origins(self, parts: list[Record], builder: StepBuilder) -> None:
        """Record the current step as the origin of the sessions that tool calls started."""
        for part in parts:
            session = get_text(get_object(get_object(part, "state"), "metadata"), "sessionId")
            if session:
                self.origins.setdefault(session, builder.current)

    def _kept_entries(self, session: str, compaction: MessageAndParts) -> list[ConversationEntry]:
        """Return the earlier entries that a compaction keeps."""
        start = next(
            (get_text(p, "tail_start_id") for p in compaction[1] if get_text(p, "tail_start_id")),
            "",
        )
        if not start:
            return []
        entries: list[ConversationEntry] = []
        is_kept = False
        for message_info, parts in self.keeper.messages(session, is_repeat=True):
            if get_text(message_info, "id") == get_text(compaction[0], "id"):
                break
            is_kept = is_kept or get_text(message_info, "id") == start
            if is_kept:
                entries += entries_from_message(message_info, parts)
        return entries


def _sort_parents_first(sessions: dict[str, Record]) -> list[Record]:
    """Return sessions, oldest first, each after its parent."""
    ordered: dict[str, Record] = {}
    for id_ in reversed(sessions):
        ancestors = [id_]
        while (
            parent := get_text(sessions[ancestors[-1]], "parentID")
        ) in sessions and parent not in ancestors:
            ancestors.append(parent)
        ordered |= {
            ancestor: sessions[ancestor]
            for ancestor in reversed(ancestors)
            if ancestor not in ordered
        }
    return list(ordered.values())


def _root_id(info: Record, sessions: dict[str, Record]) -> str:
    ancestors = [get_text(info, "id")]
    while (
        parent := get_text(sessions.get(ancestors[-1], {}), "parentID")
    ) in sessions and parent not in ancestors:
        ancestors.append(parent)
    return ancestors[-1]


def _is_summary(message_info: Record) -> bool:
    is_answer = get_text(message_info, "role") == "assistant" and bool(message_info.get("summary"))
    return is_answer and bool(message_info.get("finish")) and not message_info.get("error")


def _join_texts(message_info: Record, parts: list[Record]) -> str:
    return "\n\n".join(get_text(part, "text") for part in parts if get_text(part, "type") == "text")


def _find_revert_point(info: Record, messages: Iterator[MessageAndParts]) -> str | None:
    """Return the message before a reverted one. Empty if all are reverted, None if none is."""
    reverted_id = get_text(get_object(info, "revert"), "messageID")
    if not reverted_id:
        return None
    previous_id = ""
    for message_info, _ in messages:
        if get_text(message_info, "id") == reverted_id:
            return previous_id
        previous_id = get_text(message_info, "id")
    return None


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="opencode",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    writes=write_session,
    copy_merged=copy_merged_database,
)
FORMAT = build_format(NATIVE, "application/json")
