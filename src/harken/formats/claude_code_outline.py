"""The outline of a transcript of Claude Code: which lines make one step, and which step follows.

One idea: records name their parents, but a parent is no message. One response is several records,
each the parent of the next; results hang on single calls; progress stands in between. So records
are first put into units (what is said at once), units are put after each other, and only then it
shows where the conversation really parts: a unit with two that follow it.

A step ends with an answer, before a place where the conversation parts, and before a compaction.

Source: docs/formats/claude-code.md, "The tree".
"""

from __future__ import annotations

from harken.formats.claude_code_records import Kind, Outlined

WHOLE = (Kind.BOUNDARY, Kind.SUMMARY)
"""What takes the place of all before it."""


class Node:
    """A record that holds conversation, or that others hang on."""

    __slots__ = ("calls", "is_preserved", "kind", "line", "parent", "response", "side", "unit")

    def __init__(self, line: int, found: Outlined, side: str) -> None:
        """Be the record at a line (from 1), of a side chain or of the main one (empty)."""
        self.line, self.kind, self.side = line, found.kind, side
        self.parent: Node | str | None = None
        """A text: the parent's uuid, as long as that record has not been seen."""
        self.response, self.calls = found.response, found.calls
        self.unit: Unit | None = None
        self.is_preserved = False


class Unit:
    """What is said at once: an input, all records of a response, all results of one, a summary."""

    __slots__ = (
        "followers",
        "heard",
        "kind",
        "lines",
        "nodes",
        "parent",
        "results",
        "side",
        "step",
    )

    def __init__(self, node: Node, parent: Unit | None) -> None:
        """Begin with one record."""
        self.kind, self.side, self.parent = node.kind, node.side, parent
        self.nodes: list[Node] = []
        self.heard: set[str] = set()
        """Calls that it has results of."""
        self.results: Unit | None = None
        """Of an answer: what its calls gave; what follows stands after them."""
        self.followers = 0
        self.step: Plan | None = None

    def add(self, node: Node) -> None:
        """Take one more record."""
        self.nodes.append(node)
        self.heard.update(node.calls)
        node.unit = self

    @property
    def end(self) -> Unit:
        """What the next one stands after."""
        return self.results or self


class Plan:
    """A step that is not read yet."""

    __slots__ = ("is_done", "missing", "number", "parent", "preserved", "side", "units", "waiting")

    def __init__(self, unit: Unit, parent: Plan | None) -> None:
        """Begin with a unit."""
        self.parent, self.side = parent, unit.side
        self.number = unit.nodes[0].line
        """The line that it begins with: its name."""
        self.units: list[Unit] = []
        self.preserved: list[Node] = []
        """Of a compaction: what is read after the summary, too."""
        self.missing = 0
        """How many records have not been read yet."""
        self.is_done = False
        self.waiting: list[Plan] = []
        """Steps that are read, and come after this one."""

    def add(self, unit: Unit) -> None:
        """Take one more unit."""
        self.units.append(unit)
        self.missing += len(unit.nodes)
        unit.step = self

    @property
    def is_compaction(self) -> bool:
        """Whether it takes the place of what was before it."""
        return self.units[0].kind in WHOLE


class Outline:
    """What the first reading of a file gives."""

    def __init__(self) -> None:
        """Begin with no line."""
        self.nodes: list[Node] = []
        """The records that hold conversation, in the order of their lines."""
        self._by_uuid: dict[str, Node | None] = {}
        """None: it has no parent that holds conversation, and holds none itself."""
        self._last: dict[str, Node] = {}
        """The last record of each chain so far."""
        self._logical: dict[Node, Node | None] = {}
        self._preserved: dict[Node, tuple[str, ...]] = {}
        self._responses: dict[tuple[str, str], Unit] = {}

    def add(self, line: int, found: Outlined) -> bool:
        """Take a line; return whether it belongs to the conversation. A second uuid counts not."""
        if found.uuid is not None and found.uuid in self._by_uuid:
            return False
        if found.kind is Kind.ASIDE:
            return False
        if found.kind is Kind.LINK:
            self._link(line, found)
            return False
        node = Node(line, found, self._side(found, line))
        node.parent = self._parent(found, node.side)
        if found.kind in WHOLE:
            self._compaction(node, found)
        self._know(found, node)
        self._last[node.side] = node
        self.nodes.append(node)
        return True

    def _link(self, line: int, found: Outlined) -> None:
        """Let whoever hangs on a record without conversation hang on its parent."""
        parent = self._parent(found, found.agent)
        if isinstance(parent, str):  # it comes later: only then it shows what it is
            parent = node = Node(line, found, found.agent)
            node.parent = found.parent
        self._know(found, parent)

    def _know(self, found: Outlined, node: Node | None) -> None:
        if found.uuid is not None:
            self._by_uuid[found.uuid] = node

    def _parent(self, found: Outlined, side: str) -> Node | str | None:
        if found.parent is not None:
            return self._by_uuid.get(found.parent, found.parent)
        return None if found.has_parent else self._last.get(side)

    def _side(self, found: Outlined, line: int) -> str:
        """Return the name of a record's chain; one without a name is named by its first line."""
        if not found.is_side or found.agent:
            return found.agent
        above = self._by_uuid.get(found.parent or "")
        return above.side if above is not None and above.side else f"line {line}"

    def _compaction(self, node: Node, found: Outlined) -> None:
        """Remember what a compaction takes the place of."""
        logical = self._by_uuid.get(found.logical_parent or "")
        self._logical[node] = logical or self._last.get(node.side)
        if found.preserved:
            self._preserved[node] = found.preserved

    def plans(self) -> list[Plan]:
        """Put the records into units, and these into steps; return them, each after its parent.

        Where parents go round in a circle, it is cut open.
        """
        for node in self.nodes:
            self._place_all(node)
        units = list(dict.fromkeys(node.unit for node in self.nodes if node.unit is not None))
        for unit in units:
            if unit.parent is not None:
                unit.parent = _before(unit, unit.parent)
                unit.parent.followers += unit.side == unit.parent.side
        plans: list[Plan] = []
        for unit in units:
            _plan_all(unit, plans)
        self._keep_preserved()
        return plans

    def _place_all(self, node: Node) -> None:
        """Put a record into a unit, and before it those above it that are in none."""
        path: dict[Node, None] = {}
        at: Node | None = node
        while at is not None and at.unit is None and at not in path:
            path[at] = None
            at = self._above(at)
        if at is not None and at in path:  # a circle
            circle = [*path][[*path].index(at) :]
            min(circle, key=lambda one: one.line).parent = None
            self._place_all(node)
            return
        for one in reversed(path):
            self._place(one)

    def _above(self, node: Node) -> Node | None:
        """Return the record with conversation above another, and remember it."""
        parent, seen = node.parent, {node}
        while parent is not None:
            if isinstance(parent, str):
                parent = self._by_uuid.get(parent)
            elif parent in seen:
                parent = None
            elif parent.kind is Kind.LINK:
                seen.add(parent)
                parent = parent.parent
            else:
                break
        node.parent = parent
        return parent

    def _place(self, node: Node) -> None:
        """Put a record, whose parent has its place, into a unit."""
        above = node.parent.unit if isinstance(node.parent, Node) else None
        if node.kind is Kind.ANSWER:
            unit = self._answer(node, above)
        elif node.kind is Kind.RESULT:
            unit = _heard(node, above)
        elif node.kind in WHOLE:
            unit = self._whole(node, above)
        else:
            unit = Unit(node, above)
        unit.add(node)

    def _answer(self, node: Node, above: Unit | None) -> Unit:
        """Return the response that a record is a part of: it hangs on it, or beside it."""
        key = (node.side, node.response or f"line {node.line}")
        known = self._responses.get(key)
        if known is not None and (
            above in (known, known.results) or _end(above) is _end(known.parent)
        ):
            return known
        self._responses[key] = made = Unit(node, above)
        return made

    def _whole(self, node: Node, above: Unit | None) -> Unit:
        """Return the compaction that a boundary or a summary is a part of."""
        if node.kind is Kind.SUMMARY and above is not None and above.kind is Kind.BOUNDARY:
            return above
        before = self._logical[node]
        return Unit(node, above or (before.unit if before is not None else None))

    def _keep_preserved(self) -> None:
        """Tell each compaction which records are still read; those that follow it are, anyway."""
        for node, uuids in self._preserved.items():
            if node.unit is None or node.unit.step is None:
                continue
            found = (self._by_uuid.get(uuid) for uuid in uuids)
            kept = [one for one in found if one is not None and one.line < node.line]
            for one in kept:
                one.is_preserved = True
            node.unit.step.preserved += kept


def _heard(node: Node, above: Unit | None) -> Unit:
    """Return the results that a record belongs to; a second result of a call begins anew."""
    if above is None or above.side != node.side or above.kind not in (Kind.ANSWER, Kind.RESULT):
        return Unit(node, above)
    known = above.results if above.kind is Kind.ANSWER else above
    if known is not None and known.heard.isdisjoint(node.calls):
        return known
    made = Unit(node, above)
    if known is None:
        above.results = made
    return made


def _before(unit: Unit, parent: Unit) -> Unit:
    """Return what a unit stands after: results stand after their answer, all else after these."""
    return parent if unit.kind is Kind.RESULT else parent.end


def _end(unit: Unit | None) -> Unit | None:
    return None if unit is None else unit.end


def _plan_all(unit: Unit, plans: list[Plan]) -> None:
    """Put a unit into a step, and before it those above it that are in none."""
    path: list[Unit] = []
    at: Unit | None = unit
    while at is not None and at.step is None:
        path.append(at)
        at = at.parent
    for one in reversed(path):
        step = one.parent.step if one.parent is not None else None
        if one.parent is None or step is None or _begins(one, one.parent):
            step = Plan(one, step)
            plans.append(step)
        step.add(one)


def _begins(unit: Unit, parent: Unit) -> bool:
    """Whether a step begins with a unit."""
    is_end = parent.kind is Kind.ANSWER or parent.kind in WHOLE or parent.followers > 1
    return is_end or unit.kind in WHOLE or unit.side != parent.side
