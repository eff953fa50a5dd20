"""Read the edits of new commits into the `EditIndex`.

Only the parts of messages that are calls and results are decoded. A call is indexed once, however
many commits, files and forks repeat it. A failed or denied call gets a mark as soon as its result
is read, which may be in a later commit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import apsw
import msgspec
from blake3 import blake3

from harken.attribution.records.edit_index import EditIndex
from harken.attribution.text.line_text import hash_key, information, line_key
from harken.core import canonical
from harken.core.commits import DeltaEntry
from harken.edits.file_edit import Content, FileEdit, added_lines
from harken.edits.file_view import viewed_path
from harken.edits.tools import find_edits, is_edit_tool, is_shell_tool, is_view_tool
from harken.index import database
from harken.index.ingest.commits import CommitAuthor, has_failed, parse_author
from harken.index.ingest.new_commits import (
    find_indexed,
    find_unread,
    iter_batches,
    read_content,
    read_each,
)
from harken.index.ingest.row_writer import time_us
from harken.index.message_text import StoredMessageShape, to_utf8
from harken.store.base import Store, StoredCommit

_MIN_GLOBAL_ID_CHARS = 16
"""A shorter id of a call is unique in its session only."""
_MAX_ANCHORS = 6
_MAX_LINES = 20_000
"""Lines of one edit that are indexed."""
_ROLES_WITH_CALLS = ("assistant", "tool")


def update_edits(
    index: EditIndex,
    store: Store,
    tell: Callable[[int, int], None] = lambda _count, _total: None,
) -> None:
    """Index the edits of new commits of a store. Raises StoreError."""
    new = find_unread(store, index.database)
    count = 0
    for batch in iter_batches(store, new):
        contents = read_each(batch, partial(_read_entries, store), lambda _: [])
        with database.write_transaction(index.database, index.path):
            indexed = find_indexed(index.database, [commit.id for commit in batch])
            ingest = _Ingest(index.database)
            for commit, entries in zip(batch, contents, strict=True):
                if commit.id not in indexed:
                    ingest.add_commit(commit, entries)
        count += len(batch)
        tell(count, len(new))


class _CallPart(msgspec.Struct):
    """The members of a part that is a call or a result."""

    type: str
    name: str = ""
    arguments: str = ""
    is_error: bool = False


class _EntryParts(msgspec.Struct, frozen=True):
    """A message of a commit: its entry, and its calls and results."""

    entry: DeltaEntry
    parts: Sequence[_CallPart]


def _read_entries(store: Store, commits: Sequence[StoredCommit]) -> list[list[_EntryParts]]:
    """Return the messages of commits, with their calls and results. Raises StoreError."""
    content = read_content(store, commits, _ROLES_WITH_CALLS)
    calls = {
        name: _decode_call(content.bodies.get(name, b""))
        for shape in content.shapes.values()
        if shape.role in _ROLES_WITH_CALLS
        for name in shape.parts
    }
    no_parts = StoredMessageShape()
    return [
        [
            _EntryParts(
                entry,
                [
                    part
                    for name in content.shapes.get(entry.message, no_parts).parts
                    if (part := calls.get(name)) is not None
                ],
            )
            for entry in content.entries[commit.commit.artifact]
        ]
        for commit in commits
    ]


def _decode_call(body: bytes) -> _CallPart | None:
    """Return a part that is a call or a result, or None for another part."""
    if b'"type":"tool_' not in body:  # A canonical body has its members in order, without blanks.
        return None
    try:
        part = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            part = msgspec.convert(canonical.from_json(body), _CallPart)
        except (ValueError, RecursionError):
            return None
    return part if part.type in ("tool_call", "tool_result") else None


_decoder = msgspec.json.Decoder(_CallPart)


class _Ingest(msgspec.Struct):
    """Writes the rows of commits."""

    database: apsw.Connection
    _paths: dict[str, int] = msgspec.field(default_factory=dict)
    _sessions: dict[str, int] = msgspec.field(default_factory=dict)

    def add_commit(self, commit: StoredCommit, entries: Sequence[_EntryParts]) -> None:
        """Add the edits of a commit, and the results of earlier edits."""
        insert = "INSERT INTO commits (name) VALUES (?)"
        self.database.execute(insert, (bytes.fromhex(commit.id[4:]),))
        location = _Location(commit, self.database.last_insert_rowid())
        for position, item in enumerate(entries):
            source = item.entry.source or {}
            for part in item.parts:
                if part.type == "tool_result":
                    key = location.call_key(item.entry.occurrence.tool_call_id or "")
                    failed = has_failed(location.author.runtime, source, is_error=part.is_error)
                    self._add_result(location, position, key, failed=failed)
            calls = [part for part in item.parts if part.type == "tool_call"]
            for number, part in enumerate(calls):
                ids = item.entry.occurrence.calls
                call_id = ids[number].get("id") if number < len(ids) else None
                name = call_id if isinstance(call_id, str) else ""
                self._add_call(location, item.entry, (position, number), part, name)

    def _add_result(
        self, location: _Location, position: int, key: int, *, failed: bool | None
    ) -> None:
        if failed is not None:
            update = (
                "UPDATE edits SET is_failed = ?1 WHERE call_key = ?2 AND is_failed IS NULL "
                "AND NOT (?1 AND is_shell)"
            )
            self.database.execute(update, (failed, key))
        view = "UPDATE views SET commit_id = ?, position = ? WHERE call_key = ?"
        self.database.execute(view, (location.row, position, key))

    def _add_call(
        self,
        location: _Location,
        entry: DeltaEntry,
        place: tuple[int, int],
        part: _CallPart,
        call_id: str,
    ) -> None:
        key = location.call_key(call_id)
        if is_view_tool(part.name):
            path = viewed_path(part.arguments)
            if path:
                insert = "INSERT OR REPLACE INTO views VALUES (?, ?, NULL, NULL, ?)"
                self.database.execute(insert, (location.conversation, self._path(path), key))
            return
        if not is_edit_tool(part.name):
            return
        edits = find_edits(part.name, part.arguments)
        if not edits or not self._is_new(location, call_id, part, entry):
            return
        time = time_us(entry.time) or time_us(location.commit.commit.created_at) or 0
        for number, edit in enumerate(edits):
            self._add_edit(
                location, edit, (time, *place, number), key, is_shell=is_shell_tool(part.name)
            )

    def _is_new(
        self, location: _Location, call_id: str, part: _CallPart, entry: DeltaEntry
    ) -> bool:
        """Whether a call was not indexed before. Forks and grown files repeat calls."""
        is_global = len(call_id) >= _MIN_GLOBAL_ID_CHARS
        scope = location.author.runtime if is_global else location.commit.commit.session_id
        time = "" if call_id else entry.time or ""
        key = _hash(scope, call_id, part.name, part.arguments, time)
        self.database.execute("INSERT OR IGNORE INTO calls VALUES (?)", (key,))
        return self.database.changes() == 1

    def _add_edit(
        self,
        location: _Location,
        edit: FileEdit,
        place: tuple[int, int, int, int],
        key: int,
        *,
        is_shell: bool,
    ) -> None:
        """Add an edit. `place`: its time, and the numbers of the message, the call and the file."""
        lines = added_lines(edit)[:_MAX_LINES]
        hashes = [hash_key(line_key(line)) for line in lines]
        path = self._path(edit.path)
        view: tuple[int | None, int | None] = (None, None)
        if any(isinstance(change, Content) for change in edit.changes):
            query = "SELECT commit_id, position FROM views WHERE conversation = ? AND path_id = ?"
            view = self.database.execute(query, (location.conversation, path)).fetchone() or view
        time, position, call, number = place
        moved_from = self._path(edit.moved_from) if edit.moved_from else None
        session = self._session(location.commit.commit.session_id or location.commit.id)
        row = (path, time, session, location.row, position, call, number, moved_from, *view, key)
        data = struct.pack(f"<{len(hashes)}I", *hashes)
        self.database.execute(_INSERT_SQL, (*row, is_shell, data))
        edit_id = self.database.last_insert_rowid()
        anchors = {(hashes[index], edit_id) for index in _choose_anchors(lines)}
        self.database.executemany("INSERT OR IGNORE INTO anchors VALUES (?, ?)", anchors)

    def _path(self, path: str) -> int:
        path = to_utf8(path)
        if path not in self._paths:
            insert = "INSERT OR IGNORE INTO paths (path, name) VALUES (?, ?)"
            self.database.execute(insert, (path, path.rpartition("/")[2]))
            self._paths[path] = self._id("SELECT id FROM paths WHERE path = ?", path)
        return self._paths[path]

    def _session(self, name: str) -> int:
        name = to_utf8(name)
        if name not in self._sessions:
            self.database.execute("INSERT OR IGNORE INTO sessions (name) VALUES (?)", (name,))
            self._sessions[name] = self._id("SELECT id FROM sessions WHERE name = ?", name)
        return self._sessions[name]

    def _id(self, query: str, value: str) -> int:
        row = self.database.execute(query, (value,)).fetchone()
        assert row is not None
        return int(row[0])


_INSERT_SQL = """
INSERT INTO edits (path_id, time, session_id, commit_id, position, call, file, moved_from,
seen_commit_id, seen_position, call_key, is_shell, lines)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(slots=True)
class _Location:
    """A commit, its row, and its author."""

    commit: StoredCommit
    row: int
    author: CommitAuthor = field(init=False)
    conversation: int = field(init=False)
    """The key of the session and the agent."""

    def __post_init__(self) -> None:
        commit = self.commit.commit
        self.author = parse_author(commit.principal, commit.session_id)
        self.conversation = _hash(commit.session_id, commit.principal)

    def call_key(self, call_id: str) -> int:
        """Return the key of a call of this session."""
        is_global = len(call_id) >= _MIN_GLOBAL_ID_CHARS
        return _hash("" if is_global else self.commit.commit.session_id, call_id)


def _choose_anchors(lines: Sequence[str]) -> list[int]:
    """Return the indexes of the lines by which an edit is found: those with most information."""
    sizes: Mapping[int, int] = {index: information(line) for index, line in enumerate(lines)}
    informative = [index for index, size in sizes.items() if size >= _MIN_ANCHOR_INFORMATION]
    return sorted(informative, key=lambda index: -sizes[index])[:_MAX_ANCHORS]


_MIN_ANCHOR_INFORMATION = 12


def _hash(*parts: str) -> int:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake3(data).digest(8), "big", signed=True)
