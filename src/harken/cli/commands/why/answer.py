"""The answer of `harken why`, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from harken.analytics.number_text import format_dollars
from harken.analytics.times import format_minute
from harken.attribution.text.line_ranges import join_ranges
from harken.capture.files.sources import SOURCE_LOCATIONS
from harken.config.local_zone import LocalZone
from harken.core.commits import SHORT_NAME_DIGITS
from harken.terminal.styled_text import Line, clean_text
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.attribution.answers.explained_lines import ExplainedLines
    from harken.attribution.commit_record import CommitRecord
    from harken.attribution.explanation import Explanation
    from harken.attribution.git.blame import BlameCommit
    from harken.attribution.line_groups import LineGroup

CTX_CHARS = len("ctx-") + SHORT_NAME_DIGITS
SHORT_ID_CHARS = 10
"""Characters of the short id of a git commit."""
_MAX_TEXT_CHARS = 300
_MAX_CONTEXTS = 3
_MAX_GROUPS = 20
"""Groups of lines that an answer without --full lists."""
_RUNTIME_NAMES = {location.runtime: location.name for location in SOURCE_LOCATIONS}


class Answer(msgspec.Struct, frozen=True):
    """The answer for a target."""

    title: str
    """The lines as they are named: `src/a.py:12`."""
    groups: Sequence[ExplainedLines]
    has_files: bool = False
    """Whether the lines are in several files."""

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the short answer."""
        count = sum(len(item.group.origins) for item in self.groups)
        heading: Line = [("bold", clean_text(self.title))]
        if count == 1:
            (origin,) = self.groups[0].group.origins
            heading.append(("", f"  {one_line(origin.line.text, _MAX_TEXT_CHARS)}"))
        yield heading
        for item in self.groups[:_MAX_GROUPS]:
            yield from _group_lines(item, is_single=len(self.groups) == 1, path=self.has_files)
        hidden = len(self.groups) - _MAX_GROUPS
        if hidden > 0:
            yield [("dim", f"  ... and {hidden} more origins; --json lists all")]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one object for each origin."""
        for item in self.groups:
            yield item.as_json()


def _group_lines(item: ExplainedLines, *, is_single: bool, path: bool) -> Iterator[Line]:
    group, explanation = item.group, item.explanation
    name = f"{one_line(item.path, 80)}: " if path else ""
    share = name if is_single else f"{name}{_numbers(item)}: "
    if explanation is None:
        yield [("", f"  {share}"), *_author_spans(group)]
        if item.record is not None:
            yield from _record_lines(item.record)
        return
    if group.is_agent:
        yield [("", f"  {share}written by "), *_agent_spans(explanation), *_confidence_spans(group)]
    elif group.confidence == "uncertain":
        hint: Line = [("yellow", "uncertain: "), ("", "perhaps written by ")]
        yield [("", f"  {share}"), *hint, *_agent_spans(explanation)]
    else:
        yield [("", f"  {share}"), *_author_spans(group)]
        percent = round(100 * group.ratio)
        yield [("", f"  changed from a line ({percent} % equal) of "), *_agent_spans(explanation)]
    if explanation.request:
        yield _quote_line("asked", explanation.request)
    if explanation.task:
        yield _quote_line("task", explanation.task)
    if explanation.reason:
        yield _quote_line("thought" if explanation.is_thinking else "reason", explanation.reason)
    if group.is_agent or group.confidence == "uncertain":
        yield [("", "  commit  "), *_commit_spans(group.commit)]


def _record_lines(record: CommitRecord) -> Iterator[Line]:
    """Yield the records about the commit of lines: the contexts that made it, and a trace."""
    if record.contexts:
        names = ", ".join(name[:CTX_CHARS] for name in record.contexts[:_MAX_CONTEXTS])
        yield [("", "  context "), ("yellow", names), ("", " made the commit")]
    if record.trace is not None:
        trace = record.trace
        texts = [
            one_line(text, 120) for text in (trace.contributor, trace.model, trace.url) if text
        ]
        tool = one_line(trace.tool, 40)
        source = f" (Agent Trace of {tool})" if tool else " (Agent Trace)"
        yield [("", f"  trace   {', '.join(texts)}{source}")]


def _numbers(item: ExplainedLines) -> str:
    """Return the numbers of the lines of a group: `3 lines (12-14)`."""
    numbers = sorted({origin.line.number for origin in item.group.origins})
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in join_ranges(numbers)]
    shown = ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")
    return f"{len(numbers)} line{'' if len(numbers) == 1 else 's'} ({shown})"


def _quote_line(label: str, text: str) -> Line:
    return [("", f"  {label:<7} "), ("", one_line(text, _MAX_TEXT_CHARS))]


def runtime_name(runtime: str) -> str:
    """Return the display name of a runtime."""
    return one_line(_RUNTIME_NAMES.get(runtime, runtime.capitalize()), 40)


def _agent_name(explanation: Explanation) -> str:
    """Return the name of the agent of an edit: its runtime, and its own name if it has one."""
    runtime, name = runtime_name(explanation.runtime), explanation.agent or explanation.template
    return one_line(f"{runtime} ({name})" if name else runtime, 60)


def _agent_spans(explanation: Explanation) -> Line:
    time = datetime.fromtimestamp(explanation.edit.row.time_us / 1e6, UTC)
    cost = explanation.cost_usd
    spans: Line = [("cyan", _agent_name(explanation))]
    if explanation.model:
        spans.append(("", f", {one_line(explanation.model, 60)}"))
    spans.append(("", f", {format_minute(time, LocalZone())}, "))
    spans.append(("yellow", explanation.ctx[:CTX_CHARS]))
    if cost is not None:
        spans.append(("", f", {format_dollars(cost)}"))
    return spans


def _confidence_spans(group: LineGroup) -> Line:
    return [("", ", reformatted since")] if group.confidence == "reformatted" else []


def _author_spans(group: LineGroup) -> Line:
    if group.commit.is_uncommitted:
        return [("", "not committed yet, and no recorded edit wrote it")]
    return [("", "no recorded edit; "), *_commit_spans(group.commit)]


def _commit_spans(commit: BlameCommit) -> Line:
    if commit.is_uncommitted:
        return [("", "not committed yet")]
    time = datetime.fromtimestamp(commit.author_time, UTC)
    author = one_line(commit.author, 40)
    return [
        ("yellow", commit.id[:SHORT_ID_CHARS]),
        ("", f" {one_line(commit.summary, 80)} ({author}, {format_minute(time, LocalZone())})"),
    ]
