"""The reader of Claude Code transcripts, and the format `claude-code-v1`.

A transcript is read twice, by line. The first pass builds its outline, in which every record has
its position, in any order of the lines; the second pass reads the content, and yields each step
when its last line was read. So memory holds an outline and a step, never a file. For a file in
memory, the second pass uses the lines of the first.

Source: docs/formats/claude-code.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harken.core import structs
from harken.errors import FormatError
from harken.formats.base import Format
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    SourceLine,
    parse_time,
    read_conversation,
)
from harken.formats.runtimes.claude_code.entries import entries_from_records
from harken.formats.runtimes.claude_code.outline import Outline, RecordGroup, StepPlan
from harken.formats.runtimes.claude_code.outline_state import (
    LoggedRecord,
    OutlineState,
    PendingPoint,
    RecordLog,
    StepEnds,
    find_point,
    mark_line,
    restore_outline,
)
from harken.formats.runtimes.claude_code.records import (
    RecordKind,
    RecordOutline,
    decode_outline,
    iter_blocks,
    parse_record,
    record_content,
)
from harken.formats.runtimes.claude_code.resume_request import (
    MESSAGE,
    REQUEST,
    RequestHashes,
    build_resume_request,
)
from harken.formats.runtimes.claude_code.sent_requests import read_sent_requests
from harken.formats.runtimes.claude_code.writer import write_session, write_transcript
from harken.formats.runtimes.joined_records import split_records
from harken.formats.runtimes.read_point import EarlierStepChanged, decode_state
from harken.formats.runtimes.steps import find_title

NAME = "claude-code-v1"
_RESULT = "result"
"""The type of the record that ends a session."""
_RECORD_TYPES = frozenset(
    {"user", "assistant", "system", "summary", "progress", "file-history-snapshot", "attachment"}
    | {"queue-operation", _RESULT}
)
"""Types of records. Every transcript has at least one of these."""
_TITLE_MEMBERS: Mapping[str, str] = {
    "summary": "summary",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
}
"""The member with the title, by the type of record that names the session. The last record wins."""
_SPAWNING_TOOLS = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""
_SESSION_PATTERN = re.compile(rb'"(?:sessionId|parentUuid|leafUuid|messageId)"\s*:')


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a transcript. See `harken.formats.runtimes.base.StepReader`."""
    first_pass = _FirstPass(source, report)
    first_pass.run()
    outline, requests, prompt = first_pass.outline, first_pass.requests, first_pass.prompt
    plans = outline.plans()
    point = first_pass.report_ends(plans)
    del plans  # Each plan is released when its step is done.
    title = first_pass.title
    lines = first_pass.lines if source.is_in_memory else _reread_lines(source, outline)
    if point is not None:
        lines = mark_line(lines, point.start, lambda: point.take(report, prompt))
    for step in _ContentReader(outline, report).steps(lines):
        requests.add_step(step.entries)
        if not prompt and not step.agent:
            prompt = find_title(step.entries)
            report.title = title or prompt
        yield step
    if difference := requests.difference():
        report.notes.append(difference)


class _FirstPass:
    """The first pass over a file, or over the lines after a read point."""

    def __init__(self, source: SessionFile, report: ReadReport) -> None:
        """Begin. Raises EarlierStepChanged if the read point is not of this version."""
        self._source, self._report = source, report
        self.outline, self.requests = Outline(), RequestHashes()
        self.lines: Iterable[SourceLine] = []
        """The lines of the outline, of a file in memory."""
        self.title = self.prompt = ""
        """The title that the client wrote; that from the first prompt before the read point."""
        self._log = None if report.size_bytes is None else RecordLog()
        self._ends = StepEnds()
        if source.point is not None:
            state = decode_state(source.point, OutlineState)
            self._log = RecordLog()
            self.outline = restore_outline(state, self._log)
            self._ends = StepEnds(state.tips, state.leaves)
            self.title, self.prompt = state.title, state.prompt

    def run(self) -> None:
        """Build the outline.

        Raises FormatError if the file is no transcript, and EarlierStepChanged.
        """
        report, outline = self._report, self.outline
        lines: list[SourceLine] = []
        is_transcript = self._source.point is not None
        for number, line, record in self._iter_outlines():
            try:
                self._read_metadata(record.label, line)
            except ValueError as error:
                report.report_bad(line, str(error))
                continue
            is_transcript = is_transcript or record.label.partition("/")[0] in _RECORD_TYPES
            kind = None
            if outline.add(number, record):
                report.used_lines += 1
                if self._source.is_in_memory:
                    lines.append(line)
            else:
                kind = report.count_uninterpreted(record.label)
            self._log_record(line, number, record.uuid, kind)
        if not is_transcript:
            raise FormatError(NAME, "it has no record of a transcript")
        self.lines, report.title = lines, self.title or self.prompt

    def report_ends(self, plans: Sequence[StepPlan]) -> PendingPoint | None:
        """Report the last step of each agent, the main one first, and the abandoned branches.

        Return the next read point, if there is one.
        """
        report, ends = self._report, self._ends.follow(self.outline, plans)
        report.tips = {side: str(ends.tips[side]) for side in sorted(ends.tips, key=bool)}
        report.branches = ends.branches()
        point = None if self._log is None else find_point(self.outline, plans, self._log)
        if point is not None:
            ends = self._ends.follow(self.outline, plans, point.number)
        return point if point is not None and point.prepare(ends, self.title) else None

    def _read_metadata(self, label: str, line: SourceLine) -> None:
        """Read a title, an outcome or a recorded request. Raises ValueError, EarlierStepChanged."""
        if label in _TITLE_MEMBERS:
            title = parse_record(line.data).get(_TITLE_MEMBERS[label])
            if isinstance(title, str) and title.strip():
                self.title = title
        elif label.partition("/")[0] == _RESULT:
            _set_outcome(self._report, parse_record(line.data))
        elif label in (REQUEST, MESSAGE):
            # Recorded requests are compared with all messages, so there is no read point.
            if self._source.point is not None:
                raise EarlierStepChanged
            self._log = None
            self.requests.add(parse_record(line.data))

    def _log_record(
        self, line: SourceLine, number: int, uuid: str | None, kind: str | None
    ) -> None:
        """Log a record that was added or counted as `kind`, for the read point."""
        if self._log is None:
            return
        group = self.outline.find_group(uuid) if kind is not None else self.outline.units[-1]
        report = self._report
        self._log.add(
            LoggedRecord(number, line.number, report.offset, report.extra, uuid, group, kind)
        )

    def _iter_outlines(self) -> Iterator[tuple[int, SourceLine, RecordOutline]]:
        """Yield the records of the file with their numbers, and report invalid lines.

        The number of a record is that of its line, plus the number of additional parts of earlier
        lines.
        """
        report, extra = self._report, self._report.extra
        for line in self._source.lines(report):
            report.extra = extra
            if not line.data.strip():
                kind = report.count_uninterpreted("empty")
                self._log_record(line, line.number + extra, None, kind)
                continue
            try:
                record = decode_outline(line.data)
            except ValueError as error:
                parts = split_records(line, str(error))
                self.outline.merged_groups.add(line.number)
                report.lines += len(parts) - 1
                for count, part in enumerate(parts):
                    if part.reason:
                        report.report_bad(part.line, part.reason)
                        continue
                    try:
                        yield line.number + extra + count, part.line, decode_outline(part.line.data)
                    except ValueError as part_error:
                        report.report_bad(part.line, str(part_error))
                extra += len(parts) - 1
                continue
            yield line.number + extra, line, record


def _reread_lines(source: SessionFile, outline: Outline) -> Iterator[SourceLine]:
    """Yield the lines of an outline in a second pass."""
    numbers = iter(outline.lines)
    next_number = next(numbers, 0)
    extra = 0
    for line in source.lines(ReadReport()):
        if line.number not in outline.merged_groups:
            parts = [line]
        else:
            parts = [part.line for part in split_records(line, "it was split")]
        for count, part in enumerate(parts):
            if line.number + extra + count == next_number:
                yield part
                next_number = next(numbers, 0)
        extra += len(parts) - 1


def _set_outcome(report: ReadReport, record: Mapping[str, Any]) -> None:
    outcome = _as_text(record.get("subtype"))
    if outcome:
        report.outcome = outcome
        report.end_time = parse_time(record.get("timestamp")) or report.end_time


class _ContentReader:
    """The second pass, which reads the content of the records in the outline."""

    def __init__(self, outline: Outline, report: ReadReport) -> None:
        self._build_outline, self._reading = outline, report
        self._records_by_group: dict[RecordGroup, list[dict[str, Any]]] = {}
        """The records of groups whose step is incomplete."""
        self._preserved: dict[str, tuple[RecordKind, dict[str, Any]]] = {}
        """Records that are repeated after a compaction, by uuid."""
        self._spawning_plans: dict[str, StepPlan] = {}
        """The spawning steps by the prompt of the subagent."""
        self._last_main_plan: StepPlan | None = None
        """The last step of the main conversation."""

    def steps(self, lines: Iterable[SourceLine]) -> Iterator[ImportStep]:
        """Yield the steps when they are complete. lines: those of the outline."""
        units = _iter_and_release(self._build_outline.units)
        for line, unit in zip(lines, units, strict=False):  # The file may have been truncated.
            self._reading.offset = line.start
            plan = self._add_record(unit, self._parse_record(line))
            if plan is not None and not plan.missing:
                yield from self._complete_step(plan)

    def _parse_record(self, line: SourceLine) -> dict[str, Any] | None:
        """Parse the record of a line.

        Return None, after a report, if only its outline can be read.
        """
        try:
            return parse_record(line.data)
        except ValueError as error:
            self._reading.report_bad(line, str(error))
            self._reading.used_lines -= 1
            return None

    def _add_record(self, unit: RecordGroup, record: dict[str, Any] | None) -> StepPlan | None:
        """Add a record and return its step."""
        if unit.step is None:
            return None
        unit.step.missing -= 1
        records = self._records_by_group.setdefault(unit, [])
        if record is None:
            return unit.step
        self._read_metadata(unit, record)
        records.append(record)
        uuid = _as_text(record.get("uuid"))
        if uuid in self._build_outline.kept:
            self._preserved[uuid] = (unit.kind, record)
        return unit.step

    def _read_metadata(self, unit: RecordGroup, record: Mapping[str, Any]) -> None:
        """Read metadata of the session and of subagents from a record."""
        report = self._reading
        report.session_id = report.session_id or _as_text(record.get("sessionId"))
        report.folder = report.folder or _as_text(record.get("cwd"))
        version = record.get("version")
        if version != report.version:
            report.version = _as_text(version) or report.version
        if unit.kind is RecordKind.RESULT:
            result = record.get("toolUseResult")
            agent = _as_text(result.get("agentId")) if isinstance(result, dict) else ""
            step = unit.parent.step if unit.parent is not None else None
            if agent and step is not None:
                report.spawned.setdefault(agent, str(step.number))
        elif unit.kind is RecordKind.ANSWER and unit.step is not None:
            for block in iter_blocks(record_content(record)):
                if _as_text(block.get("name")) in _SPAWNING_TOOLS and isinstance(
                    block.get("input"), dict
                ):
                    self._spawning_plans.setdefault(
                        _as_text(block["input"].get("prompt")), unit.step
                    )

    def _complete_step(self, plan: StepPlan) -> Iterator[ImportStep]:
        """Yield a completed step after its parent, and the steps that waited for it."""
        if plan.is_spawn and plan.parent is None:
            plan.parent = self._find_spawner(plan)
        due = [plan]
        while due:
            step_plan = due.pop()
            if step_plan.parent is not None and not step_plan.parent.is_done:
                step_plan.parent.waiting += (step_plan,)
                continue
            yield self._build_step(step_plan)
            step_plan.release()
            due += reversed(step_plan.waiting)

    def _find_spawner(self, plan: StepPlan) -> StepPlan | None:
        """Return the step that spawned a subagent whose chain is in the same file."""
        contents = [record_content(record) for record in self._records_by_group[plan.units[0]][:1]]
        texts = [
            _as_text(block.get("text")) for content in contents for block in iter_blocks(content)
        ]
        spawning_plan = self._spawning_plans.get(texts[0]) if texts else None
        return (
            self._last_main_plan
            if spawning_plan is None or spawning_plan.side == plan.side
            else spawning_plan
        )

    def _build_step(self, plan: StepPlan) -> ImportStep:
        groups = [(unit.kind, self._records_by_group.pop(unit)) for unit in plan.units]
        entries = [
            entry for kind, records in groups for entry in entries_from_records(kind, records)
        ]
        if not plan.side:
            self._last_main_plan = plan
        step = ImportStep(
            id=str(plan.number),
            parent=None if plan.parent is None else str(plan.parent.number),
            agent=plan.side,
            entries=entries,
        )
        if plan.is_compaction:
            times = (
                parse_time(record.get("timestamp")) for _, records in groups for record in records
            )
            for kind, record in (
                self._preserved[uuid] for uuid in plan.kept if uuid in self._preserved
            ):
                entries += entries_from_records(kind, [record])
            time = max(filter(None, times), default=None)
            return structs.replace(step, type="compaction", trigger="compaction", time=time)
        return structs.replace(step, type="snapshot", trigger="spawn") if plan.is_spawn else step


def _iter_and_release(units: list[RecordGroup]) -> Iterator[RecordGroup]:
    """Yield groups and release them, so that memory shrinks with the remaining outline."""
    units.reverse()
    while units:
        yield units.pop()


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a transcript: lines of JSON that name sessions, or records by uuid."""
    del path
    first, _, _ = beginning.lstrip().partition(b"\n")
    return (
        first.startswith(b"{")
        and b'"type"' in beginning
        and bool(_SESSION_PATTERN.search(beginning))
    )


def _join_lines(deltas: Iterable[bytes]) -> bytes:
    """Concatenate lines, and add a missing line end between deltas."""
    content = bytearray()
    for delta in deltas:
        if content and not content.endswith(b"\n"):
            content += b"\n"
        content += delta
    return bytes(content)


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="claude",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    build_request_for_model=build_resume_request,
    writes=write_session,
    sent_requests=read_sent_requests,
)
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=partial(read_conversation, iter_steps),
    writes=write_transcript,
    joins=_join_lines,
)
