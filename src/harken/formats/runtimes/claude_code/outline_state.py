"""The state of the reader of Claude Code transcripts at a read point.

A step is complete when later steps follow it: a response may still get blocks and results, but not
after two further steps. So the read point is before the last steps. The state has the latest groups
before it, by the uuids of their records, so that new records find their parents. A record that
refers to an older group, or changes an earlier step, needs a reading from the beginning.

Source: docs/design/005-other-runtimes.md, "A file that grows".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from harken.formats.runtimes.base import ReadReport, SourceLine
from harken.formats.runtimes.claude_code.outline import Outline, RecordGroup, StepPlan
from harken.formats.runtimes.claude_code.records import RecordKind
from harken.formats.runtimes.read_point import (
    MAX_BAD_LINES,
    ReadPoint,
    encode_state,
    list_step_ids,
)

OPEN_STEPS = 3
"""The number of last steps that are after the read point."""
MAX_RECORDS = 512
"""The number of records before the read point that a later record may refer to."""
_MAX_LOGGED = 4 * MAX_RECORDS
_MAX_NAMES = 1000
"""The maximum number of chains, ends of branches and missing parents in a state."""

Leaf: TypeAlias = tuple[str, int]
"""The side and the number of a step without a following step of the same side."""


class _SavedGroup(msgspec.Struct, array_like=True):
    kind: int
    side: str
    line: int
    step: int
    results: int | None
    """The index of the group of its results."""
    is_split: bool
    """Whether several groups follow, so that each begins a step."""
    has_children: bool


class OutlineState(msgspec.Struct, array_like=True):
    """The outline of the lines before a read point."""

    groups: list[_SavedGroup]
    uuids: list[tuple[str, int | None]]
    """The latest records with the indexes of their groups, oldest first."""
    is_complete: bool
    """Whether these are all records."""
    missing: list[str]
    """Parents that were not read."""
    chains: dict[str, int]
    """The last group of each chain."""
    responses: list[tuple[str, str]]
    tips: dict[str, int]
    leaves: list[Leaf]
    title: str
    """The title of the session that the client wrote."""
    prompt: str
    """The title from the first prompt."""


class LoggedRecord(NamedTuple):
    """A record of the first pass, or a blank line."""

    number: int
    line: int
    start: int
    extra: int
    uuid: str | None
    group: RecordGroup | None
    kind: str | None
    """The kind under which it is counted as uninterpreted. None if it is in the outline."""


class StepEnds(msgspec.Struct, frozen=True):
    """The ends of the conversations in a file."""

    tips: dict[str, int] = msgspec.field(default_factory=dict)
    """The last step of each side."""
    leaves: list[Leaf] = msgspec.field(default_factory=list)
    """All steps without a following step of the same side, in order."""

    def follow(
        self, outline: Outline, plans: Sequence[StepPlan], before: int | None = None
    ) -> StepEnds:
        """Return the ends after further steps, or after those before a record."""
        tips = dict(self.tips)
        for number, group in zip(outline.lines, outline.units, strict=True):
            if group.step is not None and (before is None or number < before):
                tips[group.side] = group.step.number
        steps = [plan for plan in plans if before is None or plan.number < before]
        parents = {
            (plan.side, plan.parent.number)
            for plan in steps
            if plan.parent is not None and plan.parent.side == plan.side
        }
        leaves = [*self.leaves, *((plan.side, plan.number) for plan in steps)]
        return StepEnds(tips, [leaf for leaf in leaves if leaf not in parents])

    def branches(self) -> list[tuple[str, str]]:
        """Return the sides and the steps at the ends of abandoned branches."""
        return [(side, str(step)) for side, step in self.leaves if self.tips.get(side) != step]


class RecordLog(msgspec.Struct):
    """The last records of the first pass."""

    records: deque[LoggedRecord] = msgspec.field(default_factory=lambda: deque(maxlen=_MAX_LOGGED))
    is_complete: bool = True
    """Whether it has all records of the file."""

    def add(self, record: LoggedRecord) -> None:
        """Add a record, or a blank line."""
        self.is_complete = self.is_complete and len(self.records) < _MAX_LOGGED
        self.records.append(record)


def restore_outline(state: OutlineState, log: RecordLog) -> Outline:
    """Return the outline at a read point, and add its records to a log."""
    outline = Outline()
    plans: dict[int, StepPlan] = {}
    groups: list[RecordGroup] = []
    for saved in state.groups:
        group = RecordGroup(RecordKind(saved.kind), saved.side, saved.line, None)
        if saved.step not in plans:
            plans[saved.step] = StepPlan(group, None)
            plans[saved.step].number, plans[saved.step].is_done = saved.step, True
        group.step = plans[saved.step]
        group.followers, group.has_children = 2 * saved.is_split, saved.has_children
        groups.append(group)
    for group, saved in zip(groups, state.groups, strict=True):
        group.results = None if saved.results is None else groups[saved.results]
    records = [(uuid, None if at is None else groups[at]) for uuid, at in state.uuids]
    chains = {side: groups[at] for side, at in state.chains.items()}
    outline.restore(records, chains, state.missing, is_complete=state.is_complete)
    outline.restore_responses(state.responses)
    log.is_complete = state.is_complete
    for uuid, above in records:
        log.records.append(LoggedRecord(0, 0, 0, 0, uuid, above, None))
    return outline


class PendingPoint:
    """The read point of a transcript, until the second pass reaches it."""

    def __init__(self, outline: Outline, log: RecordLog, tail: Sequence[LoggedRecord]) -> None:
        """Set the point to the beginning of the line of the first record of `tail`."""
        self._outline, self._log, self._tail = outline, log, tail
        self.start, self.number = tail[0].start, tail[0].number
        self._state: OutlineState | None = None

    def prepare(self, ends: StepEnds, title: str) -> bool:
        """Build the state, while the groups are complete. Return whether it is possible.

        ends: those of the steps before the point; title: the last one that the client wrote. It may
        be after the point, because those lines are read again.
        """
        outline, log, number = self._outline, self._log, self.number
        earlier = [record for record in log.records if record.number < number and record.uuid]
        window = earlier[-MAX_RECORDS:]
        indexes: dict[RecordGroup, int] = {}
        for record in window:
            if record.group is not None:
                indexes.setdefault(record.group, len(indexes))
        for group in indexes:
            if group.step is None or group.step.number >= number:
                return False
            parent = group.parent
            if parent is not None and parent in indexes and group is not parent.results:
                parent.has_children |= parent.kind is RecordKind.ANSWER or parent.side == group.side
        chains = [(side, group) for side, group in _last_by_side(window) if group in indexes]
        if max(len(ends.tips), len(ends.leaves), len(outline.missing)) > _MAX_NAMES:
            return False
        self._state = OutlineState(
            groups=[_save_group(group, indexes) for group in indexes],
            uuids=[(record.uuid or "", _index_of(record.group, indexes)) for record in window],
            is_complete=log.is_complete and len(window) == len(earlier),
            missing=[*outline.missing],
            chains={side: indexes[group] for side, group in chains},
            responses=outline.list_responses(number),
            tips=ends.tips,
            leaves=ends.leaves,
            title=title,
            prompt="",
        )
        return True

    def take(self, report: ReadReport, prompt: str) -> None:
        """Set the read point, now that all lines before it were read."""
        state, first = self._state, self._tail[0]
        if state is None or len(report.bad) > MAX_BAD_LINES:
            return
        state.prompt = prompt
        kinds = [record.kind for record in self._tail]
        used_lines = report.used_lines - kinds.count(None)
        totals = report.copy_totals(lines=first.line - 1 + first.extra, used_lines=used_lines)
        later = Counter(kind for kind in kinds if kind is not None)
        totals.uninterpreted = dict(Counter(totals.uninterpreted) - later)
        totals.bad = [bad for bad in totals.bad if bad.start < self.start]
        totals.tips = {side: str(number) for side, number in state.tips.items()}
        totals.branches = StepEnds(state.tips, state.leaves).branches()
        data = encode_state(state)
        if data is not None:
            step_ids = list_step_ids(totals, [str(group.step) for group in state.groups])
            report.point = ReadPoint(self.start, first.line, first.extra, data, step_ids, totals)


def find_point(outline: Outline, plans: Sequence[StepPlan], log: RecordLog) -> PendingPoint | None:
    """Return the last read point of an outline with these plans. Return None if there is none."""
    numbers = sorted(plan.number for plan in plans)
    if len(numbers) <= OPEN_STEPS:
        return None
    first, tail = numbers[-OPEN_STEPS], list[LoggedRecord]()
    for record in reversed(log.records):
        if record.number < first and (
            not tail or record.start != tail[-1].start or not record.number
        ):
            break
        # A step before the point has all its records there, and so has a line.
        tail.append(record)
        first = min(first, record.number)
        if record.group is not None and record.group.step is not None:
            first = min(first, record.group.step.number)
    tail.reverse()
    is_logged = tail and len(tail) < len(log.records) and tail[0].number == first
    is_closed = all(
        plan.parent is None or plan.parent.number < first for plan in plans if plan.number < first
    )
    return PendingPoint(outline, log, tail) if is_logged and is_closed else None


def mark_line(
    lines: Iterable[SourceLine], start: int, take: Callable[[], None]
) -> Iterator[SourceLine]:
    """Yield lines. `take` is called once, before the first line at or after an offset."""
    is_taken = False
    for line in lines:
        if not is_taken and line.start >= start:
            is_taken = True
            take()
        yield line


def _last_by_side(records: Iterable[LoggedRecord]) -> list[tuple[str, RecordGroup]]:
    groups = (record.group for record in records if record.group is not None)
    return [*{group.side: group for group in groups}.items()]


def _save_group(group: RecordGroup, indexes: dict[RecordGroup, int]) -> _SavedGroup:
    return _SavedGroup(
        kind=group.kind.value,
        side=group.side,
        line=group.line,
        step=group.step.number if group.step is not None else 0,
        results=_index_of(group.results, indexes),
        is_split=group.followers > 1,
        has_children=group.has_children,
    )


def _index_of(group: RecordGroup | None, indexes: dict[RecordGroup, int]) -> int | None:
    return None if group is None else indexes.get(group)
