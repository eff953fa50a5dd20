"""OpenCode: the sessions in its database, and one session as `opencode export` gives it.

One idea: a session is messages in the order of their times, and each has parts in the order of
their ids; where these stand, in rows or in a document, makes no difference. A database holds all
sessions of a machine: each is a conversation of its own, and one that another one spawned begins
at the step that called it.

A database is hostile until proven otherwise: only tables are read, nothing in it is run.

Source: docs/formats/opencode.md.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text, title_of
from harken.formats.runtimes.base import BadLine, ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.new_session import format_of
from harken.formats.runtimes.opencode.messages import build_resume_request, entries_of
from harken.formats.runtimes.opencode.writer import writes
from harken.formats.runtimes.steps import StepBuilder

NAME = "opencode-v1"
_SQLITE = b"SQLite format 3\0"
_LOOKED_AT_BYTES = 4096
_BESIDE = ("-wal", "-shm")
_MOST_PARTS = 100_000
"""A message with more of them is none."""

Told: TypeAlias = tuple[Record, list[Record]]
"""What a message is, and its parts."""


def looks(path: str, head: bytes) -> bool:
    """Whether a file is a database or an export of OpenCode."""
    if head.startswith(_SQLITE):
        is_named = path.replace("\\", "/").rsplit("/", 1)[-1].startswith("opencode")
        return is_named or (b"session_id" in head and b"message_id" in head)
    first = b"".join(head[:_LOOKED_AT_BYTES].removeprefix(b"\xef\xbb\xbf").split())
    return first.startswith(b'{"info":{') and b'"id":"ses' in first


def settled(path: Path, folder: Path) -> Path:
    """Copy a database with what others still have beside it; return the copy, which is whole.

    It is never opened where it is: SQLite would write there. Raises OSError, and FormatError for
    what is no database.
    """
    copy = folder / path.name
    shutil.copyfile(path, copy)
    for end in _BESIDE:
        beside = path.with_name(path.name + end)
        if beside.exists():
            shutil.copyfile(beside, copy.with_name(copy.name + end))
    if copy.with_name(copy.name + "-wal").exists():
        try:
            with closing(sqlite3.connect(copy)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise FormatError(NAME, f"it is no database ({error})") from None
    return copy


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Read all sessions of a database, or the one of an export. Raises FormatError."""
    if _beginning(source).startswith(_SQLITE):
        with _database(source) as database:
            yield from _Sessions(reading, _Rows(database, reading)).read()
        return
    whole = read_document(source, reading, NAME)
    if not isinstance(whole.get("messages"), list) or not get_text(get_object(whole, "info"), "id"):
        raise FormatError(NAME, "it has no info.id or no messages")
    reading.used = reading.lines
    yield from _Sessions(reading, _Document(whole)).read()
    reading.tips = dict.fromkeys([""], *reading.tips.values()) if reading.tips else {}


class _Keeper(Protocol):
    """Has sessions, wherever they stand."""

    def sessions(self) -> list[Record]:
        """Return what sessions are, the last changed first."""
        ...

    def messages(self, session: str, *, again: bool = False) -> Iterator[Told]:
        """Yield the messages of a session, oldest first; `again`: nothing is counted."""
        ...


def _beginning(source: SessionFile) -> bytes:
    return next(iter(source.chunks()), b"")[: len(_SQLITE)]


@contextmanager
def _database(source: SessionFile) -> Iterator[sqlite3.Connection]:
    """Open a database from its bytes, in a file of its own."""
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


@dataclass(slots=True)
class _Document:
    """An export: one session."""

    whole: Record

    def sessions(self) -> list[Record]:
        """Return what the session is."""
        return [get_object(self.whole, "info")]

    def messages(self, session: str, *, again: bool = False) -> Iterator[Told]:
        """Yield its messages."""
        for one in get_objects(self.whole, "messages"):
            yield get_object(one, "info"), get_objects(one, "parts")


@dataclass(slots=True)
class _Rows:
    """A database: rows of sessions, messages and parts."""

    database: sqlite3.Connection
    reading: ReadReport

    def __post_init__(self) -> None:
        """Refuse what has other tables. Views and virtual tables are none: they run something."""
        rows = self.database.execute(
            "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0"
        )
        names = {row[0] for row in rows}
        if not {b"session", b"message", b"part"} <= names:
            raise FormatError(NAME, "it has no tables session, message and part")

    def sessions(self) -> list[Record]:
        """Return what sessions are, the last changed first."""
        found = []
        query = "SELECT * FROM session ORDER BY time_updated DESC, id"
        cursor = self.database.execute(query)
        names = [str(column[0]) for column in cursor.description]
        for row in cursor:
            values = [
                one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row
            ]
            record = dict(zip(names, values, strict=True))
            renamed = {"parentID": record.get("parent_id"), "revert": _object(record.get("revert"))}
            found.append({**record, **renamed})
        return found

    def messages(self, session: str, *, again: bool = False) -> Iterator[Told]:
        """Yield the messages of a session, oldest first."""
        query = "SELECT id, data FROM message WHERE session_id=? ORDER BY time_created, id"
        for id_, data in self.database.execute(query, [session]):
            info = self._read(id_, data, again=again)
            if info is None:
                continue
            info["id"] = _name(id_)
            yield info, list(self._parts(id_, again=again))

    def _parts(self, message: object, *, again: bool) -> Iterator[Record]:
        query = "SELECT id, data FROM part WHERE message_id=? ORDER BY id LIMIT ?"
        held = _name(message) if isinstance(message, bytes) else message
        for id_, data in self.database.execute(query, [held, _MOST_PARTS]):
            part = self._read(id_, data, again=again)
            if part is not None:
                yield part

    def _read(self, id_: object, data: object, *, again: bool) -> Record | None:
        """Return the object in a row; None: it holds none, which is told."""
        reading = ReadReport() if again else self.reading
        reading.lines += 1
        try:
            value = canonical.from_json(data if isinstance(data, bytes) else b"")
        except ValueError as error:
            value = error
        if isinstance(value, dict):
            reading.used += 1
            return value
        reading.bad.append(BadLine(reading.lines, 0, f"row {_name(id_)!a} holds no object"[:120]))
        return None


def _name(id_: object) -> str:
    return id_.decode("utf-8", "replace") if isinstance(id_, bytes) else str(id_)


def _object(value: object) -> Record:
    try:
        found = canonical.from_json(value.encode()) if isinstance(value, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class _Sessions:
    """Reads sessions, each after the one that spawned it."""

    reading: ReadReport
    keeper: _Keeper
    origins: dict[str, str | None] = field(default_factory=dict)
    """Session -> the step that spawned it."""
    names: set[str] = field(default_factory=set)

    def read(self) -> Iterator[ImportStep]:
        """Yield the steps of all sessions; say which conversation was the last."""
        found = {get_text(info, "id"): info for info in self.keeper.sessions()}
        tips: dict[str, str] = {}
        for info in _parents_first(found):
            self.reading.session_id = _root(info, found)
            self.reading.folder = get_text(info, "directory")
            self.reading.version = get_text(info, "version")
            yield from self._session(info, is_child=get_text(info, "parentID") in found)
            tips |= self.reading.tips
            self.reading.tips = {}
        ordered = [one for one in found if one in tips]
        ordered.sort(key=lambda one: get_text(found[one], "parentID") in found)
        self.reading.tips = {one: tips[one] for one in ordered}
        last = found.get(ordered[0]) if ordered else None
        if last is not None:
            self.reading.session_id = get_text(last, "id")
            self.reading.folder = get_text(last, "directory")
            self.reading.title = title_of(get_text(last, "title")) or self.reading.title

    def _session(self, info: Record, *, is_child: bool) -> Iterator[ImportStep]:
        id_ = get_text(info, "id")
        before = _before_revert(info, self.keeper.messages(id_, again=True))
        rounds = StepBuilder(
            self.reading,
            branching={before} if before else (),
            agent=id_ if is_child else "",
            origin=self.origins.get(id_),
            names=self.names,
        )
        asked: dict[str, Told] = {}
        for told, parts in self.keeper.messages(id_):
            node = get_text(told, "id") or f"message {len(self.names)}"
            compaction = next((p for p in parts if get_text(p, "type") == "compaction"), None)
            if compaction is not None:
                asked[node] = told, parts
            summed_up = asked.get(get_text(told, "parentID"))
            if summed_up is not None and _is_summary(told):
                kept = self._kept(id_, summed_up)
                entries = [*entries_of(*summed_up), *entries_of(told, parts), *kept]
                yield from rounds.compact(node, rounds.head, _said(told, parts), entries)
            else:
                yield from rounds.add(node, rounds.head, entries_of(told, parts))
            self._note_spawned(parts, rounds)
        if before is not None:
            rounds.head = before or None
        yield from rounds.end()
        tip = rounds.current
        self.reading.tips = {} if tip is None else {id_: tip}

    def _note_spawned(self, parts: list[Record], rounds: StepBuilder) -> None:
        """Note where sessions are spawned: a call of a tool says which one it began."""
        for part in parts:
            spawned = get_text(get_object(get_object(part, "state"), "metadata"), "sessionId")
            if spawned:
                self.origins.setdefault(spawned, rounds.current)

    def _kept(self, session: str, asked: Told) -> list[ConversationEntry]:
        """Return what a compaction keeps of what was before it."""
        start = next(
            (get_text(p, "tail_start_id") for p in asked[1] if get_text(p, "tail_start_id")), ""
        )
        if not start:
            return []
        found: list[ConversationEntry] = []
        is_kept = False
        for told, parts in self.keeper.messages(session, again=True):
            if get_text(told, "id") == get_text(asked[0], "id"):
                break
            is_kept = is_kept or get_text(told, "id") == start
            if is_kept:
                found += entries_of(told, parts)
        return found


def _parents_first(found: dict[str, Record]) -> list[Record]:
    """Return sessions such that each stands after its parent; oldest first."""
    ordered: dict[str, Record] = {}
    for id_ in reversed(found):
        above = [id_]
        while (parent := get_text(found[above[-1]], "parentID")) in found and parent not in above:
            above.append(parent)
        ordered |= {one: found[one] for one in reversed(above) if one not in ordered}
    return list(ordered.values())


def _root(info: Record, found: dict[str, Record]) -> str:
    seen = [get_text(info, "id")]
    while (parent := get_text(found.get(seen[-1], {}), "parentID")) in found and parent not in seen:
        seen.append(parent)
    return seen[-1]


def _is_summary(told: Record) -> bool:
    is_one = get_text(told, "role") == "assistant" and bool(told.get("summary"))
    return is_one and bool(told.get("finish")) and not told.get("error")


def _said(told: Record, parts: list[Record]) -> str:
    return "\n\n".join(get_text(part, "text") for part in parts if get_text(part, "type") == "text")


def _before_revert(info: Record, messages: Iterator[Told]) -> str | None:
    """Return the message before what was taken back; empty: all was; None: nothing was."""
    back = get_text(get_object(info, "revert"), "messageID")
    if not back:
        return None
    before = ""
    for told, _ in messages:
        if get_text(told, "id") == back:
            return before
        before = get_text(told, "id")
    return None


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="opencode",
    looks=looks,
    steps=steps,
    sent=build_resume_request,
    writes=writes,
    settled=settled,
)
FORMAT = format_of(NATIVE, "application/json")
