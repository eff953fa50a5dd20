"""Claude Code: its transcripts as steps, and as the format `claude-code-v1`.

One idea: a transcript is read twice, by line. The first reading gives its outline, in which every
record has its place whatever order they came in; the second one takes the content, and gives each
step as soon as its last line is read. So memory holds an outline and a step, never a file (of one
that is held anyway, the second reading takes the lines of the first).

Source: docs/formats/claude-code.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harken.errors import FormatError
from harken.formats.base import Format
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    SourceLine,
    conversation,
    time_of,
)
from harken.formats.runtimes.claude_code.entries import entries_of
from harken.formats.runtimes.claude_code.outline import Outline, RecordGroup, StepPlan
from harken.formats.runtimes.claude_code.records import (
    RecordKind,
    RecordOutline,
    blocks_in,
    outlined,
    record_content,
    record_of,
)
from harken.formats.runtimes.claude_code.resume_request import (
    MESSAGE,
    REQUEST,
    RequestHashes,
    build_resume_request,
)
from harken.formats.runtimes.claude_code.writer import exported, writes
from harken.formats.runtimes.joined_records import split_records
from harken.formats.runtimes.steps import title_in

NAME = "claude-code-v1"
_KNOWN = frozenset(
    {"user", "assistant", "system", "summary", "progress", "file-history-snapshot", "attachment"}
    | {"queue-operation", "result"}
)
"""Of these, one at least is in every transcript."""
_TITLES: Mapping[str, str] = {
    "summary": "summary",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
}
"""Records that name the session, and the member that does; one further down counts more."""
_SPAWNING = frozenset({"Task", "Agent"})
"""Tools that begin a subagent."""
_LOOKS = re.compile(rb'"(?:sessionId|parentUuid|leafUuid|messageId)"\s*:')


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a transcript. See `harken.formats.runtimes.base.Steps`."""
    requests = RequestHashes()
    lines: list[SourceLine] = []
    outline = _outline(source, reading, requests, lines)
    plans = outline.plans()
    _say_ends(outline.units, plans, reading)
    del plans  # each goes when its step is done
    again = lines if source.is_held else _again(source, outline)
    for step in _Content(outline, reading).steps(again):
        requests.read(step.entries)
        if not reading.title and not step.agent:
            reading.title = title_in(step.entries)
        yield step
    if difference := requests.difference():
        reading.notes.append(difference)


def _outline(
    source: SessionFile, reading: ReadReport, requests: RequestHashes, lines: list[SourceLine]
) -> Outline:
    """Read a file for the first time; of a file that is held, put the lines of its outline down.

    Raises FormatError where it is no transcript.
    """
    outline = Outline()
    is_one = False
    for number, line, found in _outlined(source, reading, outline.joined):
        try:
            if found.label in _TITLES:
                _name(reading, found.label, record_of(line.data))
            elif found.label in (REQUEST, MESSAGE):
                requests.learn(record_of(line.data))
        except ValueError as error:
            reading.refuse(line, str(error))
            continue
        is_one = is_one or found.label.partition("/")[0] in _KNOWN
        if outline.add(number, found):
            reading.used += 1
            if source.is_held:
                lines.append(line)
        else:
            reading.keep(found.label)
    if not is_one:
        raise FormatError(NAME, "it has no record of a transcript")
    return outline


def _outlined(
    source: SessionFile, reading: ReadReport, joined: set[int]
) -> Iterator[tuple[int, SourceLine, RecordOutline]]:
    """Yield the records of a file with their numbers; report what is none.

    A number is that of the line, and larger by so many parts as lines before it had more than one.
    joined: gets the lines that have to be split again when they are read again.
    """
    more = 0
    for line in source.lines(reading):
        if not line.data.strip():
            reading.keep("empty")
            continue
        try:
            found = outlined(line.data)
        except ValueError as error:
            parts = split_records(line, str(error))
            joined.add(line.number)
            reading.lines += len(parts) - 1
            for count, part in enumerate(parts):
                if part.reason:
                    reading.refuse(part.line, part.reason)
                    continue
                try:
                    yield line.number + more + count, part.line, outlined(part.line.data)
                except ValueError as inner:
                    reading.refuse(part.line, str(inner))
            more += len(parts) - 1
            continue
        yield line.number + more, line, found


def _again(source: SessionFile, outline: Outline) -> Iterator[SourceLine]:
    """Yield the lines of an outline, read once more."""
    wanted = iter(outline.lines)
    at = next(wanted, 0)
    more = 0
    for line in source.lines(ReadReport()):
        if line.number not in outline.joined:
            parts = [line]
        else:
            parts = [part.line for part in split_records(line, "it was split")]
        for count, part in enumerate(parts):
            if line.number + more + count == at:
                yield part
                at = next(wanted, 0)
        more += len(parts) - 1


def _name(reading: ReadReport, label: str, record: Mapping[str, Any]) -> None:
    title = record.get(_TITLES[label])
    if isinstance(title, str) and title.strip():
        reading.title = title


def _say_ends(units: Iterable[RecordGroup], plans: Iterable[StepPlan], reading: ReadReport) -> None:
    """Say which step each agent is at, the main conversation first, and where others ended."""
    tips = {unit.side: unit.step for unit in units if unit.step is not None}
    for side in sorted(tips, key=bool):
        reading.tips[side] = str(tips[side].number)
    parents = {plan.parent for plan in plans if plan.parent and plan.parent.side == plan.side}
    for plan in plans:
        if plan not in parents and tips.get(plan.side) is not plan:
            reading.branches.append((plan.side, str(plan.number)))


class _Content:
    """The second reading: the content of what the outline has a place for."""

    def __init__(self, outline: Outline, reading: ReadReport) -> None:
        self._outline, self._reading = outline, reading
        self._records: dict[RecordGroup, list[dict[str, Any]]] = {}
        """What was read of units whose step is not whole yet."""
        self._kept: dict[str, tuple[RecordKind, dict[str, Any]]] = {}
        """What is read once more, after a compaction."""
        self._spawning: dict[str, StepPlan] = {}
        """The prompt of a subagent -> the step that spawned it."""
        self._main: StepPlan | None = None
        """The last step of the main conversation."""

    def steps(self, lines: Iterable[SourceLine]) -> Iterator[ImportStep]:
        """Yield the steps as they become whole. lines: those of the outline."""
        units = _taken_from(self._outline.units)
        for line, unit in zip(lines, units, strict=False):  # a file may have shrunk
            self._reading.at = line.start
            plan = self._take(unit, self._record(line))
            if plan is not None and not plan.missing:
                yield from self._whole(plan)

    def _record(self, line: SourceLine) -> dict[str, Any] | None:
        """Return the record of a line; None, and a report, where only its outline can be read."""
        try:
            return record_of(line.data)
        except ValueError as error:
            self._reading.refuse(line, str(error))
            self._reading.used -= 1
            return None

    def _take(self, unit: RecordGroup, record: dict[str, Any] | None) -> StepPlan | None:
        """Take a record; return its step."""
        if unit.step is None:
            return None
        unit.step.missing -= 1
        records = self._records.setdefault(unit, [])
        if record is None:
            return unit.step
        self._learn(unit, record)
        records.append(record)
        uuid = _text(record.get("uuid"))
        if uuid in self._outline.kept:
            self._kept[uuid] = (unit.kind, record)
        return unit.step

    def _learn(self, unit: RecordGroup, record: Mapping[str, Any]) -> None:
        """Learn what a record tells of the session, and of subagents."""
        reading = self._reading
        reading.session_id = reading.session_id or _text(record.get("sessionId"))
        reading.folder = reading.folder or _text(record.get("cwd"))
        version = record.get("version")
        if version != reading.version:
            reading.version = _text(version) or reading.version
        if unit.kind is RecordKind.RESULT:
            result = record.get("toolUseResult")
            agent = _text(result.get("agentId")) if isinstance(result, dict) else ""
            step = unit.parent.step if unit.parent is not None else None
            if agent and step is not None:
                reading.spawned.setdefault(agent, str(step.number))
        elif unit.kind is RecordKind.ANSWER and unit.step is not None:
            for block in blocks_in(record_content(record)):
                if _text(block.get("name")) in _SPAWNING and isinstance(block.get("input"), dict):
                    self._spawning.setdefault(_text(block["input"].get("prompt")), unit.step)

    def _whole(self, plan: StepPlan) -> Iterator[ImportStep]:
        """Yield a step that was read to its end, after its parent, and those that waited for it."""
        if plan.is_spawn and plan.parent is None:
            plan.parent = self._spawner(plan)
        due = [plan]
        while due:
            one = due.pop()
            if one.parent is not None and not one.parent.is_done:
                one.parent.waiting += (one,)
                continue
            yield self._step(one)
            one.done()
            due += reversed(one.waiting)

    def _spawner(self, plan: StepPlan) -> StepPlan | None:
        """Return the step that spawned a subagent whose chain is in the same file."""
        said = [record_content(record) for record in self._records[plan.units[0]][:1]]
        texts = [_text(block.get("text")) for one in said for block in blocks_in(one)]
        found = self._spawning.get(texts[0]) if texts else None
        return self._main if found is None or found.side == plan.side else found

    def _step(self, plan: StepPlan) -> ImportStep:
        read = [(unit.kind, self._records.pop(unit)) for unit in plan.units]
        entries = [entry for kind, records in read for entry in entries_of(kind, records)]
        if not plan.side:
            self._main = plan
        step = ImportStep(
            id=str(plan.number),
            parent=None if plan.parent is None else str(plan.parent.number),
            agent=plan.side,
            entries=entries,
        )
        if plan.is_compaction:
            times = (time_of(record.get("timestamp")) for _, records in read for record in records)
            for kind, record in (self._kept[uuid] for uuid in plan.kept if uuid in self._kept):
                entries += entries_of(kind, [record])
            time = max(filter(None, times), default=None)
            return replace(step, type="compaction", trigger="compaction", time=time)
        return replace(step, type="snapshot", trigger="spawn") if plan.is_spawn else step


def _taken_from(units: list[RecordGroup]) -> Iterator[RecordGroup]:
    """Yield units, and let go of them: memory then shrinks with what is left of the outline."""
    units.reverse()
    while units:
        yield units.pop()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def looks(path: str, beginning: bytes) -> bool:
    """Whether a file is a transcript: lines of JSON that name sessions, or records by uuid."""
    del path
    first, _, _ = beginning.lstrip().partition(b"\n")
    return first.startswith(b"{") and b'"type"' in beginning and bool(_LOOKS.search(beginning))


def _joins(deltas: Iterable[bytes]) -> bytes:
    """Append lines to lines; one that lacks its end gets it, or two would become one."""
    whole = bytearray()
    for delta in deltas:
        if whole and not whole.endswith(b"\n"):
            whole += b"\n"
        whole += delta
    return bytes(whole)


NATIVE = RuntimeFormat(
    name=NAME, runtime="claude", looks=looks, steps=steps, sent=build_resume_request, writes=writes
)
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=partial(conversation, steps),
    writes=exported,
    joins=_joins,
)
