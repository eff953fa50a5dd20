"""The tree of the entries in a Pi session, from the first pass over its lines.

An id refers to the latest entry before that has it, so entries are told apart by the numbers of
their lines. A `TreeState` has the latest entries before a read point. A later entry that follows an
older one, or a compaction that keeps an earlier entry, needs a reading from the beginning.

Source: docs/formats/pi.md; docs/design/005-other-runtimes.md, "A file that grows".
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.json_records import Record, get_count, get_text
from harken.formats.runtimes.base import ReadReport, SessionFile, SourceLine
from harken.formats.runtimes.json_lines import read_records
from harken.formats.runtimes.read_point import EarlierStepChanged, encode_state
from harken.formats.runtimes.step_state import MAX_RECENT_NODES, BuilderState, build_totals
from harken.formats.runtimes.steps import StepBuilder, StepNumbers, can_save

NAME = "pi-v3"


class PiNode(msgspec.Struct, frozen=True):
    """An entry of the tree."""

    number: int
    """The number of its line."""
    id: str
    parent: int | None

    @property
    def key(self) -> str:
        """The name of the entry among the nodes of steps."""
        return str(self.number)

    @property
    def parent_key(self) -> str | None:
        """The name of the parent among the nodes of steps."""
        return None if self.parent is None else str(self.parent)


class TreeState(msgspec.Struct, array_like=True):
    """The entries before a read point."""

    version: int
    records: int
    """The number of records."""
    nodes: list[tuple[int, str, int | None]]
    """The number, the id and the parent of the latest entries, oldest first."""
    is_complete: bool
    """Whether these are all entries."""
    steps: int
    builder: BuilderState


class EntryIds(msgspec.Struct):
    """The ids of entries. Version 1 has none, and counts all records from 0."""

    version: int = 0
    """0 before the header."""
    records: int = 0

    @property
    def is_tree(self) -> bool:
        """Whether entries name their parents."""
        return self.version > 1

    def next_id(self, record: Record) -> str:
        """Return the id of the next record."""
        index, self.records = self.records, self.records + 1
        if get_text(record, "type") == "session":
            self.version = self.version or get_count(record, "version") or 1
        return (get_text(record, "id") or f"line {index}") if self.is_tree else str(index)


class SessionTree(msgspec.Struct):
    """The structure of the entries."""

    parents: dict[int, int | None] = msgspec.field(default_factory=dict)
    """The parents of entries, by the numbers of their lines."""
    branching: set[str] = msgspec.field(default_factory=set)
    """Entries that are continued in another line than the next."""
    kept_numbers: dict[int, list[int]] = msgspec.field(default_factory=dict)
    """The earlier entries that each compaction keeps, oldest first."""
    repeated: set[int] = msgspec.field(default_factory=set)
    """All entries that compactions keep."""
    _ids: EntryIds = msgspec.field(default_factory=EntryIds)
    _numbers: dict[str, int] = msgspec.field(default_factory=dict)
    """The latest entry with each id."""
    _last: int | None = None
    _earlier: set[int] = msgspec.field(default_factory=set)
    """The entries before the read point."""
    _is_complete: bool = True
    """Whether no entries are before these."""

    @property
    def has_header(self) -> bool:
        """Whether a header was read."""
        return self._ids.version > 0

    def restore(self, saved: TreeState) -> None:
        """Add the entries before a read point."""
        self._ids = EntryIds(saved.version, saved.records)
        self._is_complete = saved.is_complete
        for number, id_, parent in saved.nodes:
            self.parents[number], self._numbers[id_], self._last = parent, number, number
        self._earlier = {*self.parents}

    def add(self, line: SourceLine, record: Record) -> None:
        """Add a record. Raises EarlierStepChanged if it refers to an entry that is not known."""
        id_ = self._ids.next_id(record)
        if get_text(record, "type") == "session":
            return
        number, parent = line.number, self._last
        if self._ids.is_tree:
            parent = self._find(get_text(record, "parentId"))
        if parent is not None and parent != self._last:
            self.branching.add(str(parent))
        if get_text(record, "type") == "compaction":
            index = get_count(record, "firstKeptEntryIndex")
            start = get_text(record, "firstKeptEntryId") or ("" if index is None else str(index))
            self.kept_numbers[number] = self._find_path(parent, self._find(start))
            self.repeated.update(self.kept_numbers[number])
        self.parents[number] = parent
        self._numbers[id_] = self._last = number

    def _find(self, id_: str) -> int | None:
        """Return the latest entry with an id. Return None if there is none."""
        number = self._numbers.get(id_)
        if number is None and id_ and not self._is_complete:
            raise EarlierStepChanged
        return number

    def _find_path(self, tip: int | None, start: int | None) -> list[int]:
        """Return the entries from `start` to `tip`. Empty if `start` is no ancestor."""
        path: list[int] = []
        while tip is not None and start is not None:
            path.append(tip)
            if tip in self._earlier:  # Its entry was not read.
                raise EarlierStepChanged
            if tip == start:
                return path[::-1]
            tip = self.parents[tip]
        return []

    def create_builder(self, report: ReadReport, saved: TreeState | None) -> StepBuilder:
        """Return the builder of the steps of these entries. Raises EarlierStepChanged."""
        if saved is None:
            return StepBuilder(report, self.branching)
        report.tips, report.branches = {}, []
        return StepBuilder.restore(saved.builder, report, StepNumbers(saved.steps), self.branching)


class _RecordShape(msgspec.Struct):
    """The members of a line that the first pass decodes."""

    type: object = None
    id: object = None
    parentId: object = None  # noqa: N815 - Pi's name
    version: object = None
    firstKeptEntryId: object = None  # noqa: N815
    firstKeptEntryIndex: object = None  # noqa: N815


_shape_decoder = msgspec.json.Decoder(_RecordShape)


def _decode_shape(data: bytes) -> Any:
    try:
        return msgspec.structs.asdict(_shape_decoder.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return canonical.from_json(data)


def build_tree(source: SessionFile, report: ReadReport, saved: TreeState | None) -> SessionTree:
    """Run the first pass. Raises FormatError if no line is a header, and EarlierStepChanged."""
    tree = SessionTree()
    if saved is not None:
        tree.restore(saved)
    for line, record in read_records(source, ReadReport(extra=report.extra), _decode_shape):
        tree.add(line, record)
    if not tree.has_header:
        raise FormatError(NAME, "it has no session header")
    return tree


class NodeLog:
    """The latest entries of the second pass, for the read point."""

    def __init__(self, saved: TreeState | None) -> None:
        """Begin with the entries before a read point."""
        self._ids = EntryIds() if saved is None else EntryIds(saved.version, saved.records)
        self._is_complete = saved is None or saved.is_complete
        self._nodes = deque(() if saved is None else saved.nodes, MAX_RECENT_NODES)

    def next_id(self, record: Record) -> str:
        """Return the id of the next record."""
        return self._ids.next_id(record)

    def add(self, node: PiNode) -> None:
        """Add an entry."""
        self._is_complete = self._is_complete and len(self._nodes) < MAX_RECENT_NODES
        self._nodes.append((node.number, node.id, node.parent))

    def set_point(self, report: ReadReport, line: SourceLine, builder: StepBuilder) -> None:
        """Set the read point to a line that begins a step, and that is counted already."""
        if can_save([builder]):
            state = builder.save()
            tree = TreeState(
                version=self._ids.version,
                records=self._ids.records - 1,
                nodes=[*self._nodes],
                is_complete=self._is_complete,
                steps=builder.numbers.last,
                builder=state,
            )
            lines, used_lines = report.lines - 1, report.used_lines - 1
            totals = build_totals(report, [state], lines=lines, used_lines=used_lines)
            report.set_point(line, encode_state(tree), totals, state.list_steps())
