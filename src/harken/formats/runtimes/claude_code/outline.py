"""The outline of a transcript of Claude Code: which lines make one step, and which step follows.

One idea: records name their parents, but a parent is no message. One response is several records,
each the parent of the next; results hang on single calls; progress stands in between. So records
are first put into units (what is said at once), units are put after each other, and only then it
shows where the conversation really parts: a unit with two that follow it.

A step ends with an answer, before a place where the conversation parts, and before a compaction.
An outline holds a few hundred bytes for each record, whatever is in it.

Source: docs/formats/claude-code.md, "The tree".
"""

from __future__ import annotations

from array import array

from harken.formats.runtimes.claude_code.records import RecordKind, RecordOutline

WHOLE = (RecordKind.BOUNDARY, RecordKind.SUMMARY)
"""What takes the place of all before it."""
_RESPONSES = 64
"""So many responses are remembered: a record may belong to any of them."""


class RecordGroup:
    """What is said at once: an input, all records of a response, all results of one, a summary."""

    __slots__ = (
        "followers",
        "heard",
        "kind",
        "line",
        "parent",
        "results",
        "side",
        "size",
        "step",
        "top",
    )

    def __init__(self, kind: RecordKind, side: str, line: int, parent: RecordGroup | None) -> None:
        """Begin with a record at a line (from 1), of a side chain or of the main one (empty)."""
        self.kind, self.side, self.line, self.parent = kind, side, line, parent
        self.top = parent
        """One above it, perhaps far above: with `parent` it would take longer to find the first."""
        self.size = 0
        """How many records it is."""
        self.heard = b""
        """Calls that it has results of: eight bytes for each, its hash."""
        self.results: RecordGroup | None = None
        """Of an answer: what its calls gave; what follows stands after them."""
        self.followers = 0
        self.step: StepPlan | None = None

    @property
    def end(self) -> RecordGroup:
        """What the next one stands after."""
        return self.results or self

    def first(self) -> RecordGroup:
        """Return the unit that is above all, as far as is known."""
        at = self
        while at.top is not None:
            if at.top.top is not None:
                at.top = at.top.top
            at = at.top
        return at


class StepPlan:
    """A step that is not read yet."""

    __slots__ = ("is_done", "kept", "missing", "number", "parent", "side", "units", "waiting")

    def __init__(self, unit: RecordGroup, parent: StepPlan | None) -> None:
        """Begin with a unit."""
        self.parent, self.side, self.number = parent, unit.side, unit.line
        self.units: tuple[RecordGroup, ...] = ()
        self.kept: tuple[str, ...] = ()
        """Of a compaction: the records that are read after the summary, too."""
        self.missing = 0
        """How many records have not been read yet."""
        self.is_done = False
        self.waiting: tuple[StepPlan, ...] = ()
        """Steps that are read, and come after this one."""

    def add(self, unit: RecordGroup) -> None:
        """Take one more unit."""
        self.units += (unit,)
        self.missing += unit.size
        unit.step = self

    def done(self) -> None:
        """Let go of all that was needed to make the step."""
        self.is_done = True
        for unit in self.units:
            unit.parent = unit.top = unit.results = None
        self.units, self.parent = (), None

    @property
    def is_compaction(self) -> bool:
        """Whether it takes the place of what was before it."""
        return self.units[0].kind in WHOLE

    @property
    def is_spawn(self) -> bool:
        """Whether a subagent begins with it."""
        return bool(self.side) and (self.parent is None or self.parent.side != self.side)


class Outline:
    """What the first reading of a file gives."""

    def __init__(self) -> None:
        """Begin with no line."""
        self.lines = array("Q")
        """The numbers of the lines that hold conversation."""
        self.units: list[RecordGroup] = []
        """The unit of each of them."""
        self.joined: set[int] = set()
        """The numbers of the lines that are not one record: they are split when they are read."""
        self.kept: set[str] = set()
        """The records that are read once more, after a compaction."""
        self._by_uuid: dict[int, RecordGroup | None] = {}
        """By the hash of the uuid, which takes a third of the room; nobody outside can choose two
        that are the same. None: it holds no conversation, and hangs on nothing that does."""
        self._links: dict[int, int] = {}
        """Records without conversation whose parents were not seen yet."""
        self._waiting: dict[int, list[RecordGroup]] = {}
        """What hangs on a record that was not seen yet."""
        self._last: dict[str, RecordGroup] = {}
        """Where each chain is."""
        self._responses: dict[tuple[str, str], RecordGroup] = {}
        self._compactions: dict[RecordGroup, tuple[str, ...]] = {}

    def add(self, line: int, found: RecordOutline) -> bool:
        """Take a line; return whether it belongs to the conversation. A second uuid counts not."""
        uuid = None if found.uuid is None else hash(found.uuid)
        is_again = uuid in self._by_uuid or uuid in self._links
        if found.kind is RecordKind.ASIDE or (uuid is not None and is_again):
            return False
        above, missing = self._above(found)
        if found.kind is RecordKind.LINK:
            self._settle(uuid, above, missing)
            return False
        unit = self._unit(found, line, above)
        unit.size += 1
        self.lines.append(line)
        self.units.append(unit)
        self._last[unit.side] = unit
        if missing is not None and unit.parent is None:
            self._waiting.setdefault(missing, []).append(unit)
        self._settle(uuid, unit, None)
        return True

    def _above(self, found: RecordOutline) -> tuple[RecordGroup | None, int | None]:
        """Return what a record hangs on, or else which record it is that was not seen yet."""
        if found.parent is None:
            return (None if found.has_parent else self._last.get(found.agent)), None
        uuid = hash(found.parent)
        seen = {uuid}
        while uuid in self._links:
            uuid = self._links[uuid]
            if uuid in seen:
                return None, None  # a circle
            seen.add(uuid)
        return (self._by_uuid[uuid], None) if uuid in self._by_uuid else (None, uuid)

    def _settle(self, uuid: int | None, unit: RecordGroup | None, missing: int | None) -> None:
        """Say what hangs on a record where that is; of one without conversation, on its parent."""
        if uuid is None:
            return
        waiting = self._waiting.pop(uuid, [])
        if missing is not None:
            self._links[uuid] = missing
            if waiting:
                self._waiting.setdefault(missing, []).extend(waiting)
            return
        self._by_uuid[uuid] = unit
        for one in waiting:
            if unit is not None and one.parent is None and unit.first() is not one:
                one.parent = one.top = unit
                if one.kind is RecordKind.RESULT and unit.kind is RecordKind.ANSWER:
                    unit.results = unit.results or one

    def _unit(self, found: RecordOutline, line: int, above: RecordGroup | None) -> RecordGroup:
        """Return the unit that a record is a part of."""
        side = _side(found, line, above)
        match found.kind:
            case RecordKind.ANSWER:
                return self._answer(found, side, line, above)
            case RecordKind.RESULT:
                return _heard(found, side, line, above)
            case RecordKind.BOUNDARY | RecordKind.SUMMARY:
                return self._whole(found, side, line, above)
        return RecordGroup(found.kind, side, line, above)

    def _answer(
        self, found: RecordOutline, side: str, line: int, above: RecordGroup | None
    ) -> RecordGroup:
        """Return the response that a record is a part of: it hangs on it, or beside it."""
        key = (side, found.response or f"line {line}")
        known = self._responses.get(key)
        if known is not None and (
            above in (known, known.results) or _end(above) is _end(known.parent)
        ):
            return known
        self._responses[key] = made = RecordGroup(found.kind, side, line, above)
        if len(self._responses) > _RESPONSES:
            del self._responses[next(iter(self._responses))]
        return made

    def _whole(
        self, found: RecordOutline, side: str, line: int, above: RecordGroup | None
    ) -> RecordGroup:
        """Return the compaction that a boundary or a summary is a part of."""
        if (
            found.kind is RecordKind.SUMMARY
            and above is not None
            and above.kind is RecordKind.BOUNDARY
        ):
            return above
        logical = self._by_uuid.get(hash(found.logical_parent or ""))
        unit = RecordGroup(found.kind, side, line, above or logical or self._last.get(side))
        kept = tuple(uuid for uuid in found.preserved if hash(uuid) in self._by_uuid)
        if kept:  # what is not there yet comes after the summary, and is read there
            self._compactions[unit] = kept
            self.kept.update(kept)
        return unit

    def plans(self) -> list[StepPlan]:
        """Put units into steps; return them. No line may be added any more."""
        self._by_uuid, self._links, self._waiting, self._responses = {}, {}, {}, {}
        begun = zip(self.lines, self.units, strict=True)
        units = [unit for line, unit in begun if unit.line == line]  # each once
        for unit in units:
            unit.heard = b""
            if unit.parent is not None:
                is_result = unit.kind is RecordKind.RESULT and unit.parent.kind is RecordKind.ANSWER
                unit.parent = unit.parent if is_result else unit.parent.end
                unit.parent.followers += unit.side == unit.parent.side
        plans: list[StepPlan] = []
        for unit in units:
            _plan(unit, plans)
        for unit, kept in self._compactions.items():
            if unit.step is not None:
                unit.step.kept = kept
        return plans


def _side(found: RecordOutline, line: int, above: RecordGroup | None) -> str:
    """Return the name of a record's chain; one without a name is named by its first line."""
    if not found.is_side or found.agent:
        return found.agent
    return above.side if above is not None and above.side else f"line {line}"


def _heard(found: RecordOutline, side: str, line: int, above: RecordGroup | None) -> RecordGroup:
    """Return the results that a record belongs to; a second result of a call begins anew."""
    known = None
    if (
        above is not None
        and above.side == side
        and above.kind in (RecordKind.ANSWER, RecordKind.RESULT)
    ):
        known = above.results if above.kind is RecordKind.ANSWER else above
    calls = [hash(call).to_bytes(8, "big", signed=True) for call in found.calls]
    if known is None or any(call in known.heard for call in calls):
        made = RecordGroup(found.kind, side, line, above)
        if known is None and above is not None and above.kind is RecordKind.ANSWER:
            above.results = made
        known = made
    known.heard += b"".join(calls)
    return known


def _end(unit: RecordGroup | None) -> RecordGroup | None:
    return None if unit is None else unit.end


def _plan(unit: RecordGroup, plans: list[StepPlan]) -> None:
    """Put a unit into a step, and before it those above it that are in none."""
    path: list[RecordGroup] = []
    at: RecordGroup | None = unit
    while at is not None and at.step is None:
        path.append(at)
        at = at.parent
    for one in reversed(path):
        step = one.parent.step if one.parent is not None else None
        if one.parent is None or step is None or _begins(one, one.parent):
            step = StepPlan(one, step)
            plans.append(step)
        step.add(one)


def _begins(unit: RecordGroup, parent: RecordGroup) -> bool:
    """Whether a step begins with a unit."""
    is_end = parent.kind is RecordKind.ANSWER or parent.kind in WHOLE or parent.followers > 1
    return is_end or unit.kind in WHOLE or unit.side != parent.side
