"""The outline of a Claude Code transcript: which records form a step, and the order of the steps.

Records name their parents, but a parent is no message. A response is several records, each the
parent of the next; results refer to single calls; progress records stand in between. So records are
first grouped, groups are ordered, and then the branches of the conversation are the groups with
several followers.

A step ends with an answer, before a branch, and before a compaction. An outline holds a few hundred
bytes for each record, independent of its size.

Source: docs/formats/claude-code.md, "The tree".
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from harken.formats.runtimes.claude_code.records import RecordKind, RecordOutline
from harken.formats.runtimes.read_point import EarlierStepChanged

COMPACTION_KINDS = (RecordKind.BOUNDARY, RecordKind.SUMMARY)
"""The kinds of records that replace all previous ones."""
_MAX_RESPONSES = 64
"""The number of recent responses to which a record may still belong."""


class RecordGroup:
    """Records that form one message: an input, a response, all results of one, a summary."""

    __slots__ = (
        "call_ids",
        "followers",
        "has_children",
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
        """An ancestor, possibly a distant one: a shortcut for finding the root."""
        self.size = 0
        """The number of records."""
        self.call_ids = b""
        """Hashes of the calls with results in this group, eight bytes each."""
        self.results: RecordGroup | None = None
        """The results of the calls of an answer. The next group follows them."""
        self.followers = 0
        self.has_children = False
        """Whether groups before a read point follow. They are in a step that would change."""
        self.step: StepPlan | None = None
        """Set by `Outline.plans`. A group before a read point has a step from the beginning."""

    @property
    def end(self) -> RecordGroup:
        """The group that the next group follows."""
        return self.results or self

    def first(self) -> RecordGroup:
        """Return the root of the group, as far as it is known."""
        group = self
        while group.top is not None:
            if group.top.top is not None:
                group.top = group.top.top
            group = group.top
        return group


class StepPlan:
    """A planned step whose records are not read yet."""

    __slots__ = ("is_done", "kept", "missing", "number", "parent", "side", "units", "waiting")

    def __init__(self, unit: RecordGroup, parent: StepPlan | None) -> None:
        """Begin with the first group."""
        self.parent, self.side, self.number = parent, unit.side, unit.line
        self.units: tuple[RecordGroup, ...] = ()
        self.kept: tuple[str, ...] = ()
        """Records that are repeated after the summary of a compaction."""
        self.missing = 0
        """The number of records that have not been read yet."""
        self.is_done = False
        self.waiting: tuple[StepPlan, ...] = ()
        """Steps that are read and follow this one."""

    def add(self, unit: RecordGroup) -> None:
        """Add a group."""
        self.units += (unit,)
        self.missing += unit.size
        unit.step = self

    def release(self) -> None:
        """Release the data that was needed to create the step."""
        self.is_done = True
        for unit in self.units:
            unit.parent = unit.top = unit.results = None
        self.units, self.parent = (), None

    @property
    def is_compaction(self) -> bool:
        """Whether the step replaces the previous context."""
        return self.units[0].kind in COMPACTION_KINDS

    @property
    def is_spawn(self) -> bool:
        """Whether the step begins a subagent."""
        return bool(self.side) and (self.parent is None or self.parent.side != self.side)


class Outline:
    """The result of the first pass over a file."""

    def __init__(self) -> None:
        """Create an empty outline."""
        self.lines = array("Q")
        """The numbers of the lines with conversation."""
        self.units: list[RecordGroup] = []
        """The group of each of these lines."""
        self.merged_groups: set[int] = set()
        """The numbers of the lines that are not exactly one record, and are split when read."""
        self.kept: set[str] = set()
        """The records that are repeated after a compaction."""
        self._by_uuid: dict[int, RecordGroup | None] = {}
        """By the hash of the uuid, which takes a third of the memory. Hashes are seeded, so a file
        cannot force collisions. None if neither the record nor an ancestor is conversation."""
        self._links: dict[int, int] = {}
        """Records without conversation, with their parents that were not read yet."""
        self._waiting: dict[int, list[RecordGroup]] = {}
        """Groups by the missing record that they follow."""
        self._last_by_chain: dict[str, RecordGroup] = {}
        """The last group of each chain."""
        self._responses: dict[tuple[str, str], RecordGroup] = {}
        self._compactions: dict[RecordGroup, tuple[str, ...]] = {}
        self._missing: dict[int, str] = {}
        """The uuids of missing parents, by their hashes."""
        self._is_restored, self._is_complete = False, True
        """Whether earlier groups were restored, and whether these are all."""
        self._restored_missing: frozenset[str] = frozenset()

    def restore(
        self,
        records: Iterable[tuple[str, RecordGroup | None]],
        chains: dict[str, RecordGroup],
        missing: Iterable[str],
        *,
        is_complete: bool,
    ) -> None:
        """Continue after a read point.

        records: the records before it by uuid; is_complete: whether these are all.
        """
        self._by_uuid = {hash(uuid): group for uuid, group in records}
        self._last_by_chain = chains
        self._is_restored, self._is_complete = True, is_complete
        self._restored_missing = frozenset(missing)

    def restore_responses(self, responses: Iterable[tuple[str, str]]) -> None:
        """Restore the recent responses before a read point. They are complete."""
        for side, response in responses:
            group = RecordGroup(RecordKind.ANSWER, side, 0, None)
            group.step = StepPlan(group, None)
            self._responses[side, response] = group

    def list_responses(self, before: int) -> list[tuple[str, str]]:
        """Return the recent responses that begin before a record."""
        return [key for key, group in self._responses.items() if group.line < before]

    @property
    def missing(self) -> list[str]:
        """The uuids of parents that were not read."""
        return [*self._restored_missing, *self._missing.values()]

    def add(self, line: int, record: RecordOutline) -> bool:
        """Add a line, and return whether it belongs to the conversation.

        A duplicate uuid is ignored.
        """
        if self._is_restored:
            self._check_record(record)
        uuid = None if record.uuid is None else hash(record.uuid)
        is_duplicate = uuid in self._by_uuid or uuid in self._links
        if record.kind is RecordKind.ASIDE or (uuid is not None and is_duplicate):
            return False
        above, missing = self._find_parent(record)
        if record.kind is RecordKind.LINK:
            self._resolve_waiting(uuid, above, missing)
            return False
        unit = self._group_of(record, line, above)
        if unit.step is not None:
            raise EarlierStepChanged
        unit.size += 1
        self.lines.append(line)
        self.units.append(unit)
        self._last_by_chain[unit.side] = unit
        if missing is not None and unit.parent is None:
            self._waiting.setdefault(missing, []).append(unit)
        self._resolve_waiting(uuid, unit, None)
        return True

    def find_group(self, uuid: str | None) -> RecordGroup | None:
        """Return the group of a record, or of its nearest ancestor with a group."""
        return None if uuid is None else self._by_uuid.get(hash(uuid))

    def _check_record(self, record: RecordOutline) -> None:
        """Raise EarlierStepChanged if a record may refer to one that was not restored."""
        is_isolated = record.uuid is not None and not record.has_parent
        is_conversation = record.kind not in (RecordKind.LINK, RecordKind.ASIDE)
        if (
            record.uuid in self._restored_missing
            or record.preserved
            or (is_isolated and is_conversation and not self._is_complete)
        ):
            raise EarlierStepChanged

    def _find_parent(self, record: RecordOutline) -> tuple[RecordGroup | None, int | None]:
        """Return the group that a record follows, or else the hash of the missing parent."""
        if record.parent is None:
            return (None if record.has_parent else self._last_by_chain.get(record.agent)), None
        uuid = hash(record.parent)
        visited = {uuid}
        while uuid in self._links:
            uuid = self._links[uuid]
            if uuid in visited:
                return None, None  # The links form a cycle.
            visited.add(uuid)
        if uuid in self._by_uuid:
            return self._by_uuid[uuid], None
        self._missing.setdefault(uuid, record.parent)
        return None, uuid

    def _resolve_waiting(
        self, uuid: int | None, unit: RecordGroup | None, missing: int | None
    ) -> None:
        """Resolve the groups that wait for a record.

        A record without conversation passes them to its parent.
        """
        if uuid is None:
            return
        self._missing.pop(uuid, None)
        waiting = self._waiting.pop(uuid, [])
        if missing is not None:
            self._links[uuid] = missing
            if waiting:
                self._waiting.setdefault(missing, []).extend(waiting)
            return
        self._by_uuid[uuid] = unit
        for group in waiting:
            if unit is not None and group.parent is None and unit.first() is not group:
                group.parent = group.top = unit
                if group.kind is RecordKind.RESULT and unit.kind is RecordKind.ANSWER:
                    unit.results = unit.results or group

    def _group_of(self, record: RecordOutline, line: int, above: RecordGroup | None) -> RecordGroup:
        """Return the group that a record belongs to."""
        side = _chain_name(record, line, above)
        match record.kind:
            case RecordKind.ANSWER:
                return self._response_group(record, side, line, above)
            case RecordKind.RESULT:
                return _result_group(record, side, line, above)
            case RecordKind.BOUNDARY | RecordKind.SUMMARY:
                return self._compaction_group(record, side, line, above)
        return RecordGroup(record.kind, side, line, above)

    def _response_group(
        self, record: RecordOutline, side: str, line: int, above: RecordGroup | None
    ) -> RecordGroup:
        """Return the response that a record belongs to, as its child or its sibling."""
        key = (side, record.response or f"line {line}")
        existing = self._responses.get(key)
        if existing is not None and existing.step is not None:
            raise EarlierStepChanged
        if existing is not None and (
            above in (existing, existing.results) or _end_of(above) is _end_of(existing.parent)
        ):
            return existing
        self._responses[key] = created = RecordGroup(record.kind, side, line, above)
        if len(self._responses) > _MAX_RESPONSES:
            del self._responses[next(iter(self._responses))]
        return created

    def _compaction_group(
        self, record: RecordOutline, side: str, line: int, above: RecordGroup | None
    ) -> RecordGroup:
        """Return the compaction that a boundary or a summary belongs to."""
        if (
            record.kind is RecordKind.SUMMARY
            and above is not None
            and above.kind is RecordKind.BOUNDARY
        ):
            return above
        logical = self._by_uuid.get(hash(record.logical_parent or ""))
        if self._is_restored and above is None and logical is None:
            raise EarlierStepChanged
        unit = RecordGroup(
            record.kind, side, line, above or logical or self._last_by_chain.get(side)
        )
        preserved = tuple(uuid for uuid in record.preserved if hash(uuid) in self._by_uuid)
        if preserved:  # Records that follow the summary are read there.
            self._compactions[unit] = preserved
            self.kept.update(preserved)
        return unit

    def plans(self) -> list[StepPlan]:
        """Plan the steps and return them. No line may be added afterwards.

        Raises EarlierStepChanged.
        """
        self._by_uuid, self._links, self._waiting = {}, {}, {}
        first_lines = zip(self.lines, self.units, strict=True)
        units = [unit for line, unit in first_lines if unit.line == line]  # Each group once.
        for unit in units:
            unit.call_ids = b""
            if unit.parent is not None:
                is_result = unit.kind is RecordKind.RESULT and unit.parent.kind is RecordKind.ANSWER
                unit.parent = unit.parent if is_result else unit.parent.end
                unit.parent.followers += unit.side == unit.parent.side
        if self._is_restored:
            for unit in units:
                _check_parent(unit)
        plans: list[StepPlan] = []
        for unit in units:
            _plan_group(unit, plans)
        for unit, preserved in self._compactions.items():
            if unit.step is not None:
                unit.step.kept = preserved
        return plans


def _chain_name(record: RecordOutline, line: int, above: RecordGroup | None) -> str:
    """Return the name of a record's chain. An unnamed chain is named by its first line."""
    if not record.is_side or record.agent:
        return record.agent
    return above.side if above is not None and above.side else f"line {line}"


def _result_group(
    record: RecordOutline, side: str, line: int, above: RecordGroup | None
) -> RecordGroup:
    """Return the results that a record belongs to. A second result of a call begins a new group."""
    group = None
    if (
        above is not None
        and above.side == side
        and above.kind in (RecordKind.ANSWER, RecordKind.RESULT)
    ):
        group = above.results if above.kind is RecordKind.ANSWER else above
    calls = [hash(call).to_bytes(8, "big", signed=True) for call in record.calls]
    if group is None or any(call in group.call_ids for call in calls):
        created = RecordGroup(record.kind, side, line, above)
        if group is None and above is not None and above.kind is RecordKind.ANSWER:
            if above.step is not None and above.has_children:
                raise EarlierStepChanged
            above.results = created
        group = created
    group.call_ids += b"".join(calls)
    return group


def _end_of(unit: RecordGroup | None) -> RecordGroup | None:
    return None if unit is None else unit.end


def _check_parent(unit: RecordGroup) -> None:
    """Raise EarlierStepChanged if a group after a read point changes a step before it."""
    parent = unit.parent
    if parent is None:  # Its parent may be before the restored records.
        raise EarlierStepChanged
    is_end = parent.kind is RecordKind.ANSWER or parent.kind in COMPACTION_KINDS
    if parent.step is None or is_end or unit.side != parent.side:
        return
    is_joined = parent.followers == 1 and unit.kind not in COMPACTION_KINDS
    if parent.has_children or is_joined:
        raise EarlierStepChanged


def _plan_group(unit: RecordGroup, plans: list[StepPlan]) -> None:
    """Add a group to a step, after its ancestors that are in no step yet."""
    path: list[RecordGroup] = []
    ancestor: RecordGroup | None = unit
    while ancestor is not None and ancestor.step is None:
        path.append(ancestor)
        ancestor = ancestor.parent
    for group in reversed(path):
        step = group.parent.step if group.parent is not None else None
        if group.parent is None or step is None or _begins_step(group, group.parent):
            step = StepPlan(group, step)
            plans.append(step)
        step.add(group)


def _begins_step(unit: RecordGroup, parent: RecordGroup) -> bool:
    """Whether a step begins with a group."""
    is_end = (
        parent.kind is RecordKind.ANSWER or parent.kind in COMPACTION_KINDS or parent.followers > 1
    )
    return is_end or unit.kind in COMPACTION_KINDS or unit.side != parent.side
