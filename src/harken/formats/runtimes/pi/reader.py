"""The reader of Pi sessions, which are trees of entries, of all versions.

A file is read twice. The first pass builds the tree: its branches, and the entries that a
compaction keeps. The second pass creates a step for each round and at each branch, and holds in
memory only the entries that a compaction will repeat.

Source: docs/formats/pi.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format
from harken.formats.json_records import Record, get_count, get_object, get_text, truncate_title
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    read_conversation,
)
from harken.formats.runtimes.json_lines import normalize_time, read_records
from harken.formats.runtimes.pi.messages import (
    build_branch_summary_entry,
    build_injected_entry,
    build_resume_request,
    build_summary_entry,
    parse_entry,
)
from harken.formats.runtimes.pi.writer import write_export, write_session
from harken.formats.runtimes.steps import StepBuilder

NAME = "pi-v3"


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a session of Pi, by its header."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    is_header = first.startswith(b"{") and b'"type":"session"' in first
    return is_header and b'"cwd"' in first and b'"id"' in first


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a session. Raises FormatError if the file has no header."""
    tree = _build_tree(source)
    session = _Session(
        report, tree, {id_ for kept_entries in tree.kept_ids.values() for id_ in kept_entries}
    )
    builder = StepBuilder(report, tree.branching)
    for number, (_, record) in enumerate(read_records(source, report)):
        if get_text(record, "type") == "session":
            session.begin(record)
            continue
        node = tree.nodes.name(record, number)
        if get_text(record, "type") == "compaction":
            kept_entries = session.compaction(node, record)
            yield from builder.compact(
                node.id, node.parent, get_text(record, "summary"), kept_entries
            )
        else:
            yield from builder.add(node.id, node.parent, session.entries(node, record))
    yield from builder.end()


@dataclass(slots=True)
class _Nodes:
    """Assigns ids to entries and their parents, which version 1 does not have."""

    is_tree: bool = False
    last: str | None = None

    def name(self, record: Record, number: int) -> _Node:
        """Return the node of the next entry.

        `number` counts all records from 0, as version 1 does.
        """
        id_ = get_text(record, "id") if self.is_tree else str(number)
        parent = get_text(record, "parentId") if self.is_tree else self.last
        node = _Node(id_ or f"line {number}", parent or None, self.last)
        self.last = node.id
        return node


@dataclass(frozen=True, slots=True)
class _Node:
    """An entry of the tree."""

    id: str
    parent: str | None
    before: str | None
    """The id of the previous entry in the file."""


@dataclass(slots=True)
class _Tree:
    """The structure of the entries."""

    nodes: _Nodes = field(default_factory=_Nodes)
    parents: dict[str, str | None] = field(default_factory=dict)
    branching: set[str] = field(default_factory=set)
    """Entries that are continued in another line than the next."""
    kept_ids: dict[str, list[str]] = field(default_factory=dict)
    """The earlier entries that each compaction keeps, oldest first."""

    def path(self, tip: str | None, start: str) -> list[str]:
        """Return the entries from `start` to `tip`. Empty if `start` is no ancestor."""
        if start not in self.parents:
            return []
        path_: list[str] = []
        while tip is not None and len(path_) <= len(self.parents):
            path_.append(tip)
            if tip == start:
                return path_[::-1]
            tip = self.parents.get(tip)
        return []


class _Shape(msgspec.Struct):
    """The members of a line that the first pass decodes."""

    type: object = None
    id: object = None
    parentId: object = None  # noqa: N815 - Pi's name
    version: object = None
    firstKeptEntryId: object = None  # noqa: N815
    firstKeptEntryIndex: object = None  # noqa: N815


_shape_decoder = msgspec.json.Decoder(_Shape)


def _decode_shape(data: bytes) -> Any:
    try:
        return msgspec.structs.asdict(_shape_decoder.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return canonical.from_json(data)


def _build_tree(source: SessionFile) -> _Tree:
    """Run the first pass. Raises FormatError if no line is a header."""
    tree, report = _Tree(), ReadReport()
    nodes, version = _Nodes(), 0
    for number, (_, record) in enumerate(read_records(source, report, _decode_shape)):
        if get_text(record, "type") == "session":
            version = version or get_count(record, "version") or 1
            nodes.is_tree = version > 1
            continue
        node = nodes.name(record, number)
        parent = node.parent if node.parent in tree.parents else None
        tree.parents[node.id] = parent
        if parent is not None and parent != node.before:
            tree.branching.add(parent)
        if get_text(record, "type") == "compaction":
            index = get_count(record, "firstKeptEntryIndex")
            start = get_text(record, "firstKeptEntryId") or ("" if index is None else str(index))
            tree.kept_ids[node.id] = tree.path(parent, start)
    if not version:
        raise FormatError(NAME, "it has no session header")
    tree.nodes.is_tree = version > 1
    tree.parents = {}  # The parents are not needed any more.
    return tree


@dataclass(slots=True)
class _Session:
    """Reads the entries of a session."""

    reading: ReadReport
    tree: _Tree
    repeated_ids: set[str]
    """The ids of entries that compactions will repeat."""
    entries_by_id: dict[str, ConversationEntry] = field(default_factory=dict)

    def begin(self, header: Record) -> None:
        """Read the header."""
        report = self.reading
        report.count_uninterpreted("session")
        report.session_id = report.session_id or get_text(header, "id")
        report.folder = report.folder or get_text(header, "cwd")
        report.version = report.version or str(get_count(header, "version") or 1)
        origin = get_text(header, "parentSession") or get_text(header, "branchedFrom")
        report.parent = report.parent or origin

    def compaction(self, node: _Node, record: Record) -> list[ConversationEntry]:
        """Return a summary, then the earlier entries that are kept."""
        self.reading.used_lines += 1
        summary_entry = build_summary_entry(
            get_text(record, "summary"), normalize_time(record.get("timestamp"))
        )
        kept_ids = self.tree.kept_ids.get(node.id, ())
        return [
            _with_id(summary_entry, node),
            *(self.entries_by_id[id_] for id_ in kept_ids if id_ in self.entries_by_id),
        ]

    def entries(self, node: _Node, record: Record) -> list[ConversationEntry]:
        """Return the entries of a record. Empty if the model does not read it."""
        kind = get_text(record, "type")
        entry = self._parse_entry(kind, record, normalize_time(record.get("timestamp")))
        if entry is None:
            role = get_text(get_object(record, "message"), "role")
            self.reading.count_uninterpreted(f"{kind}/{role}" if role else kind or "unknown")
            return []
        self.reading.used_lines += 1
        entry = _with_id(entry, node)
        if node.id in self.repeated_ids:
            self.entries_by_id[node.id] = entry
        return [entry]

    def _parse_entry(self, kind: str, record: Record, time: str | None) -> ConversationEntry | None:
        match kind:
            case "message":
                message = get_object(record, "message")
                return parse_entry(message, time or normalize_time(message.get("timestamp")))
            case "custom_message":
                return build_injected_entry(
                    get_text(record, "customType"), record.get("content"), time
                )
            case "branch_summary" if get_text(record, "summary"):
                return build_branch_summary_entry(get_text(record, "summary"), time)
            case "session_info" if get_text(record, "name"):
                self.reading.title = truncate_title(get_text(record, "name"))
        return None


def _with_id(entry: ConversationEntry, node: _Node) -> ConversationEntry:
    return replace(entry, source={**(entry.source or {}), "id": node.id})


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="pi",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    writes=write_session,
)
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=partial(read_conversation, iter_steps),
    writes=write_export,
)
