"""Pi: its sessions, which are trees of entries, of all versions.

One idea: a file is read twice. The first time tells how the tree hangs together: where it branches,
and what a compaction keeps. So the second one can make steps of rounds, each ending where another
branch begins, and holds in memory only what a compaction will say again.

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
from harken.formats.json_records import Record, get_count, get_object, get_text, title_of
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    conversation,
)
from harken.formats.runtimes.json_lines import read_records, time_of
from harken.formats.runtimes.pi.messages import (
    branch_summary,
    build_resume_request,
    entry_of,
    injected,
    summary,
)
from harken.formats.runtimes.pi.writer import exported, writes
from harken.formats.runtimes.steps import StepBuilder

NAME = "pi-v3"


def looks(path: str, head: bytes) -> bool:
    """Whether a file is a session of Pi, by its header."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    is_header = first.startswith(b"{") and b'"type":"session"' in first
    return is_header and b'"cwd"' in first and b'"id"' in first


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Read a session. Raises FormatError where it has no header."""
    tree = _outline(source)
    session = _Session(reading, tree, {id_ for kept in tree.kept.values() for id_ in kept})
    rounds = StepBuilder(reading, tree.branching)
    for at, (_, record) in enumerate(read_records(source, reading)):
        if get_text(record, "type") == "session":
            session.begin(record)
            continue
        node = tree.nodes.name(record, at)
        if get_text(record, "type") == "compaction":
            kept = session.compaction(node, record)
            yield from rounds.compact(node.id, node.parent, get_text(record, "summary"), kept)
        else:
            yield from rounds.add(node.id, node.parent, session.entries(node, record))
    yield from rounds.end()


@dataclass(slots=True)
class _Nodes:
    """The names of entries, and of their parents: those of version 1 have none."""

    is_tree: bool = False
    last: str | None = None

    def name(self, record: Record, at: int) -> _Node:
        """Return the next entry; `at` counts all records from 0, as version 1 does."""
        id_ = get_text(record, "id") if self.is_tree else str(at)
        parent = get_text(record, "parentId") if self.is_tree else self.last
        node = _Node(id_ or f"line {at}", parent or None, self.last)
        self.last = node.id
        return node


@dataclass(frozen=True, slots=True)
class _Node:
    """An entry of the tree."""

    id: str
    parent: str | None
    before: str | None
    """The entry before it in the file."""


@dataclass(slots=True)
class _Tree:
    """How the entries hang together."""

    nodes: _Nodes = field(default_factory=_Nodes)
    parents: dict[str, str | None] = field(default_factory=dict)
    branching: set[str] = field(default_factory=set)
    """Entries that go on elsewhere than in the next line."""
    kept: dict[str, list[str]] = field(default_factory=dict)
    """Compaction -> the entries before it that are still read, oldest first."""

    def path(self, tip: str | None, start: str) -> list[str]:
        """Return the entries from `start` to `tip`; empty: it is not above it."""
        if start not in self.parents:
            return []
        found: list[str] = []
        while tip is not None and len(found) <= len(self.parents):
            found.append(tip)
            if tip == start:
                return found[::-1]
            tip = self.parents.get(tip)
        return []


class _Shape(msgspec.Struct):
    """What the outline wants of a line; anything else is passed over."""

    type: object = None
    id: object = None
    parentId: object = None  # noqa: N815 - as Pi calls it
    version: object = None
    firstKeptEntryId: object = None  # noqa: N815
    firstKeptEntryIndex: object = None  # noqa: N815


_shapes = msgspec.json.Decoder(_Shape)


def _shape(data: bytes) -> Any:
    try:
        return msgspec.structs.asdict(_shapes.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return canonical.from_json(data)


def _outline(source: SessionFile) -> _Tree:
    """Read what the tree is like. Raises FormatError where no line is a header."""
    tree, aside = _Tree(), ReadReport()
    nodes, version = _Nodes(), 0
    for at, (_, record) in enumerate(read_records(source, aside, _shape)):
        if get_text(record, "type") == "session":
            version = version or get_count(record, "version") or 1
            nodes.is_tree = version > 1
            continue
        node = nodes.name(record, at)
        parent = node.parent if node.parent in tree.parents else None
        tree.parents[node.id] = parent
        if parent is not None and parent != node.before:
            tree.branching.add(parent)
        if get_text(record, "type") == "compaction":
            index = get_count(record, "firstKeptEntryIndex")
            start = get_text(record, "firstKeptEntryId") or ("" if index is None else str(index))
            tree.kept[node.id] = tree.path(parent, start)
    if not version:
        raise FormatError(NAME, "no line of it is the header of a session")
    tree.nodes.is_tree = version > 1
    tree.parents = {}  # what follows from them is known now
    return tree


@dataclass(slots=True)
class _Session:
    """Reads the entries of a session."""

    reading: ReadReport
    tree: _Tree
    wanted: set[str]
    """What compactions will say again."""
    held: dict[str, ConversationEntry] = field(default_factory=dict)

    def begin(self, header: Record) -> None:
        """Read the header."""
        reading = self.reading
        reading.keep("session")
        reading.session_id = reading.session_id or get_text(header, "id")
        reading.folder = reading.folder or get_text(header, "cwd")
        reading.version = reading.version or str(get_count(header, "version") or 1)
        origin = get_text(header, "parentSession") or get_text(header, "branchedFrom")
        reading.parent = reading.parent or origin

    def compaction(self, node: _Node, record: Record) -> list[ConversationEntry]:
        """Return a summary, then what is kept of what was said before."""
        self.reading.used += 1
        told = summary(get_text(record, "summary"), time_of(record.get("timestamp")))
        kept = self.tree.kept.get(node.id, ())
        return [_named(told, node), *(self.held[id_] for id_ in kept if id_ in self.held)]

    def entries(self, node: _Node, record: Record) -> list[ConversationEntry]:
        """Return what the model reads of an entry, if anything."""
        kind = get_text(record, "type")
        entry = self._entry(kind, record, time_of(record.get("timestamp")))
        if entry is None:
            role = get_text(get_object(record, "message"), "role")
            self.reading.keep(f"{kind}/{role}" if role else kind or "unknown")
            return []
        self.reading.used += 1
        entry = _named(entry, node)
        if node.id in self.wanted:
            self.held[node.id] = entry
        return [entry]

    def _entry(self, kind: str, record: Record, time: str | None) -> ConversationEntry | None:
        match kind:
            case "message":
                message = get_object(record, "message")
                return entry_of(message, time or time_of(message.get("timestamp")))
            case "custom_message":
                return injected(get_text(record, "customType"), record.get("content"), time)
            case "branch_summary" if get_text(record, "summary"):
                return branch_summary(get_text(record, "summary"), time)
            case "session_info" if get_text(record, "name"):
                self.reading.title = title_of(get_text(record, "name"))
        return None


def _named(entry: ConversationEntry, node: _Node) -> ConversationEntry:
    return replace(entry, source={**(entry.source or {}), "id": node.id})


NATIVE = RuntimeFormat(
    name=NAME, runtime="pi", looks=looks, steps=steps, sent=build_resume_request, writes=writes
)
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=partial(conversation, steps),
    writes=exported,
)
