"""Pi: its sessions, which are trees of entries, of all versions.

One idea: a file is read twice. The first time tells how the tree hangs together: where it branches,
and what a compaction keeps. So the second one can make steps of rounds, each ending where another
branch begins, and holds in memory only what a compaction will say again.

Source: docs/formats/pi.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harken.core.messages import text_of
from harken.errors import FormatError
from harken.formats.base import WholeEntry
from harken.formats.native import Line, Native, Reading, Source, Step
from harken.formats.pi_messages import branch_summary, entry_of, injected, sent, summary
from harken.formats.records import Record, count, inner, records, text, time_of, title_of

NAME = "pi-v3"


def looks(path: str, head: bytes) -> bool:
    """Whether a file is a session of Pi, by its header."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    is_header = first.startswith(b"{") and b'"type":"session"' in first
    return is_header and b'"cwd"' in first and b'"id"' in first


def steps(source: Source, reading: Reading) -> Iterator[Step]:
    """Read a session. Raises FormatError where it has no header."""
    tree = _outline(source)
    session = _Session(reading, tree)
    for at, (line, record) in enumerate(records(source, reading)):
        if text(record, "type") == "session":
            session.begin(record)
            continue
        node = tree.nodes.name(record, at)
        yield from session.take(node, record, line)
    yield from session.seal()
    if session.head is not None and (tip := session.places.get(session.head)) is not None:
        reading.tips[""] = tip
    reading.branches += [("", step) for step in session.ends if step != reading.tips.get("")]


@dataclass(slots=True)
class _Nodes:
    """The names of entries, and of their parents: those of version 1 have none."""

    is_tree: bool = False
    last: str | None = None

    def name(self, record: Record, at: int) -> _Node:
        """Return the next entry; `at` counts all records from 0, as version 1 does."""
        id_ = text(record, "id") if self.is_tree else str(at)
        parent = text(record, "parentId") if self.is_tree else self.last
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


def _outline(source: Source) -> _Tree:
    """Read what the tree is like. Raises FormatError where no line is a header."""
    tree, aside = _Tree(), Reading()
    nodes, version = _Nodes(), 0
    for at, (_, record) in enumerate(records(source, aside)):
        if text(record, "type") == "session":
            version = version or count(record, "version") or 1
            nodes.is_tree = version > 1
            continue
        node = nodes.name(record, at)
        parent = node.parent if node.parent in tree.parents else None
        tree.parents[node.id] = parent
        if parent is not None and parent != node.before:
            tree.branching.add(parent)
        if text(record, "type") == "compaction":
            index = count(record, "firstKeptEntryIndex")
            start = text(record, "firstKeptEntryId") or ("" if index is None else str(index))
            tree.kept[node.id] = tree.path(parent, start)
    if not version:
        raise FormatError(NAME, "no line of it is the header of a session")
    tree.nodes.is_tree = version > 1
    return tree


@dataclass(slots=True)
class _Session:
    """What a session said so far, and the step that its entries are in."""

    reading: Reading
    tree: _Tree
    held: dict[str, WholeEntry] = field(default_factory=dict)
    """What compactions will say again."""
    places: dict[str, str | None] = field(default_factory=dict)
    """Entry -> the step that it is in, or that is before it."""
    head: str | None = None
    """The last entry."""
    id: str = ""
    """Of the open step."""
    parent: str | None = None
    entries: list[WholeEntry] = field(default_factory=list)
    compaction: str | None = None
    names: set[str] = field(default_factory=set)
    """Of all steps."""
    ends: dict[str, None] = field(default_factory=dict)
    """Steps that nothing goes on from, in their order."""
    wanted: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Know which entries to hold."""
        self.wanted = {id_ for kept in self.tree.kept.values() for id_ in kept}

    def begin(self, header: Record) -> None:
        """Read the header."""
        reading = self.reading
        reading.keep("session")
        reading.session_id = reading.session_id or text(header, "id")
        reading.folder = reading.folder or text(header, "cwd")
        reading.version = reading.version or str(count(header, "version") or 1)
        origin = text(header, "parentSession") or text(header, "branchedFrom")
        reading.parent = reading.parent or origin

    def take(self, node: _Node, record: Record, line: Line) -> Iterator[Step]:
        """Take the next entry of the file."""
        if node.parent != self.head:
            yield from self.seal()
            self.parent = self.places.get(node.parent or "")
        kind, time = text(record, "type"), time_of(record.get("timestamp"))
        if kind == "compaction":
            yield from self.seal()
            self._compact(node, record, time, line)
        else:
            entry = self._entry(kind, record, time)
            if entry is not None:
                if self._is_next_round(entry):
                    yield from self.seal()
                self._add(node, entry, line)
        self.places[node.id] = self.id if self.entries else self.parent
        self.head = node.id
        if kind == "compaction" or node.id in self.tree.branching:
            yield from self.seal()

    def seal(self) -> Iterator[Step]:
        """End the step, if there is anything in it."""
        if not self.entries:
            return
        is_delta = self.compaction is None
        yield Step(
            id=self.id,
            parent=self.parent,
            type="delta" if is_delta else "compaction",
            trigger="import" if is_delta else "compaction",
            entries=self.entries,
            summary=self.compaction or "",
        )
        self.ends.pop(self.parent or "", None)
        self.ends[self.id] = None
        self.parent, self.entries, self.compaction = self.id, [], None

    def _entry(self, kind: str, record: Record, time: str | None) -> WholeEntry | None:
        """Return what the model reads of an entry; None: it reads nothing."""
        entry = None
        match kind:
            case "message":
                message = inner(record, "message")
                entry = entry_of(message, time or time_of(message.get("timestamp")))
                kind = f"message/{text(message, 'role')}"
            case "custom_message":
                entry = injected(text(record, "customType"), record.get("content"), time)
            case "branch_summary" if text(record, "summary"):
                entry = branch_summary(text(record, "summary"), time)
            case "session_info":
                self.reading.title = title_of(text(record, "name"))
        if entry is None:
            self.reading.keep(kind or "unknown")
        return entry

    def _is_next_round(self, entry: WholeEntry) -> bool:
        """Whether an entry begins a step: an answer after another one, whoever asks after one."""
        if self.compaction is not None:
            return True
        answered = any(one.message.role == "assistant" for one in self.entries)
        return answered and entry.message.role != "tool"

    def _add(self, node: _Node, entry: WholeEntry, line: Line) -> None:
        self.reading.used += 1
        self._open(node, line)
        source = {**(entry.source or {}), "id": node.id}
        entry = replace(entry, source=source)
        if node.id in self.wanted:
            self.held[node.id] = entry
        self.entries.append(entry)
        if entry.message.role == "user" and "injected" not in source:
            self.reading.title = self.reading.title or title_of(text_of(entry.message.content))

    def _compact(self, node: _Node, record: Record, time: str | None, line: Line) -> None:
        """Take a compaction: a summary, then what it keeps, as it was said before."""
        self.reading.used += 1
        self._open(node, line)
        self.compaction = text(record, "summary")
        kept = self.tree.kept.get(node.id, ())
        self.entries = [summary(self.compaction, time)]
        self.entries += [self.held[id_] for id_ in kept if id_ in self.held]

    def _open(self, node: _Node, line: Line) -> None:
        if not self.entries:
            self.id = node.id if node.id not in self.names else f"{node.id} in line {line.number}"
            self.names.add(self.id)


NATIVE = Native(name=NAME, runtime="pi", looks=looks, steps=steps, sent=sent)
