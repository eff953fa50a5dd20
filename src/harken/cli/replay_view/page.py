"""The pages of a step, as styled lines. Each is created on demand.

A line begins with a mark: `+` new, `-` gone, `~` changed, `=` as before, `>` a tool called, `<` its
result, `!` an error. So it reads the same without colors.

The steps of a session are also printed as text, or as lines of JSON, for pipes and programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from harken.chat.usage import UsageTotal, format_cost, format_tokens_in_out
from harken.core.messages import Message
from harken.errors import HarkenError
from harken.terminal.styled_text import Line, clean_text
from harken.views.message_diff import MessageDiff, TextSpan
from harken.views.message_text import (
    format_count,
    format_evidence,
    format_message,
    heading,
    join_tool_names,
)
from harken.views.steps import (
    ChangedSetting,
    Changes,
    Edit,
    ExecutedCall,
    RequestStep,
    RequestSteps,
    StepResult,
)
from harken.views.timeline import format_latency
from harken.views.viewer import SessionViewer

MAX_TEXT_CHARS = 4_000
"""The maximum number of characters of a text unless the full text is requested."""
_PIECE_CHARS = 2_000
"""Longer rows are split into pieces of this size, which limits the cost of a row."""
_MAX_DROPPED = 12
"""The maximum number of listed messages that are gone."""
_STYLES = {"added": "green", "dropped": "red", "changed": "yellow", "same": "dim"}
_MARKS = {"added": "+", "dropped": "-", "changed": "~", "same": "="}


def title_line(step: RequestStep, total: int, of_agent: int) -> Line:
    """Return the position of a request, among all and among those of its agent."""
    return [
        ("bold", f"request {step.number} of {total}"),
        ("", f" · {clean_text(step.name or '?')} ({step.of_agent} of {of_agent}) · "),
        ("dim", f"{step.request} · {clean_text(step.time[:10])} {clean_text(step.time[11:19])}"),
    ]


def facts_line(step: RequestStep) -> Line:
    """Return a line with the usage and duration of a call."""
    sums = UsageTotal()
    usage = step.usage
    if usage is not None:
        sums.input_tokens, sums.output_tokens = usage.input_tokens, usage.output_tokens
        sums.cache_read_tokens = usage.cache_read_tokens
    if step.cost_usd is not None:
        sums.priced_usd, sums.priced = step.cost_usd, 1
    latency = "" if step.latency_s is None else format_latency(step.latency_s)
    facts = [
        clean_text(step.model),
        format_count(step.messages, "message"),
        format_tokens_in_out(sums),
    ]
    facts += [format_cost(sums), latency, clean_text(_end(step))]
    if step.evidence != "recorded":
        facts.append(step.evidence)
    return [("dim", " · ".join(filter(None, facts)))]


def _end(step: RequestStep) -> str:
    return step.stop_reason or ("" if step.ended else "no end logged")


def step_lines(
    steps: RequestSteps, number: int, short: int | None = MAX_TEXT_CHARS
) -> Iterator[Line]:
    """Yield the changes of the context of a call, and its outcome. `short`: as in `text_lines`."""
    yield [("bold", "Context")]
    try:
        yield from _changes(steps.changes(number), short)
    except HarkenError as error:
        yield [("red", f"! {clean_text(str(error))}")]
    yield []
    yield [("bold", "Response")]
    yield from _outcome(steps.outcome(number), short)


def context_lines(steps: RequestSteps, number: int) -> Iterator[Line]:
    """Yield the full context of a call. New messages since the agent's call before have a `+`."""
    try:
        rows = steps.context(number)
        is_intact = steps.is_intact(number)
    except HarkenError as error:
        yield [("red", f"! {clean_text(str(error))}")]
        return
    yield [("bold", f"The full context: {format_count(len(rows), 'message')}")]
    if not is_intact:
        yield [
            ("red", ("! The hash of these messages differs from the logged hash of the request."))
        ]
    step = steps.step(number)
    if evidence := format_evidence(step.evidence, step.missing):
        yield [("yellow", evidence)]
    for row in rows:
        mark, style = ("+", "green") if row.new else (" ", "")
        id_ = row.message_id or row.loaded or ""
        title = f"{mark} {row.position} {clean_text(heading(row.message))}"
        yield [(f"bold {style}".strip(), title), ("dim", f"  {clean_text(id_)}")]
        yield from text_lines(format_message(row.message), style)


def tool_lines(steps: RequestSteps, number: int) -> Iterator[Line]:
    """Yield the tools that a call was offered, with their schemas, and its parameters."""
    tools, step = steps.tools(number), steps.step(number)
    parameters = steps.requests[number - 1].parameters or {}
    names = clean_text(join_tool_names(tools) or "none")
    is_known = "tools" not in step.missing
    title = f"{format_count(len(tools), 'tool')}: {names}" if is_known else "Tools: unknown"
    yield [("bold", title)]
    for tool in tools:
        yield []
        yield from text_lines(json.dumps(tool, ensure_ascii=False, indent=2))
    yield []
    yield [("bold", "Parameters")]
    yield from text_lines(json.dumps(parameters, ensure_ascii=False, indent=2))


def raw_lines(steps: RequestSteps, number: int, viewer: SessionViewer) -> Iterator[Line]:
    """Yield the logged events of a step."""
    for event in steps.events(number):
        yield from text_lines(
            json.dumps(viewer.raw(event), ensure_ascii=False, indent=2), indent=""
        )


def text_lines(
    text: str, style: str = "", *, short: int | None = None, indent: str = "    "
) -> Iterator[Line]:
    """Yield the lines of a text, indented. Text after `short` characters is left out."""
    visible = text if short is None or len(text) <= short else text[:short]
    for row in visible.split("\n"):
        for start in range(0, max(len(row), 1), _PIECE_CHARS):
            yield [(style, indent + clean_text(row[start : start + _PIECE_CHARS]))]
    if len(visible) < len(text):
        yield [("dim", f"{indent}... {len(text) - len(visible):,} more characters")]


def _changes(changes: Changes, short: int | None) -> Iterator[Line]:
    if changes.previous is None:
        yield [("dim", "  the first request of the agent: all messages are new")]
    for edit in changes.edits:
        yield _edit(edit, changes.messages)
    if changes.model is not None:
        yield [("yellow", f"~ the model changed; before: {clean_text(changes.model)}")]
    for label, members in (("tool", changes.tools), ("parameter", changes.parameters)):
        for member in members:
            yield from _member(label, member)
    if changes.kept or not changes.messages:
        yield [("dim", f"= {format_count(changes.kept, 'message')} as before")]
    yield from _messages(changes.messages, short)


def _edit(edit: Edit, rows: Sequence[MessageDiff]) -> Line:
    dropped = sum(row.kind == "dropped" for row in rows)
    if edit.kind == "compacted":
        text = (
            f"compacted: {format_count(dropped, 'message')} replaced by the summary {edit.summary}"
        )
    elif edit.kind == "loaded":
        text = f"started from the commit {edit.ctx}"
    else:
        text = f"the context was edited: {edit.kind}"
    return [("magenta", f"~ {clean_text(text)}"), ("dim", f"  {clean_text(edit.message_id)}")]


def _member(label: str, member: ChangedSetting) -> Iterator[Line]:
    mark, style = _MARKS.get(member.kind, "~"), _STYLES.get(member.kind, "yellow")
    yield [(style, f"{mark} {label} {clean_text(member.name)}")]
    if member.spans:
        yield from _spans(member.spans)


def _messages(rows: Sequence[MessageDiff], short: int | None) -> Iterator[Line]:
    """Yield new or changed messages in full, and removed ones on a line each."""
    for kind, group in groupby(rows, key=attrgetter("kind")):
        alike = list(group)
        if kind == "same":
            yield [("dim", f"= {format_count(len(alike), 'message')} as before")]
        elif kind == "dropped":
            yield from _dropped_lines(alike, len(alike) if short is None else _MAX_DROPPED)
        else:
            for row in alike:
                yield from _message(row, short)


def _dropped_lines(rows: Sequence[MessageDiff], limit: int) -> Iterator[Line]:
    for row in rows[:limit]:
        text = " ".join(row.text[:200].split())
        yield [("red", clean_text(f"- {row.heading}: {text}"))]
    if len(rows) > limit:
        yield [("red", f"- and {len(rows) - limit} more")]


def _message(row: MessageDiff, short: int | None) -> Iterator[Line]:
    style = _STYLES[row.kind]
    yield [(f"bold {style}", f"{_MARKS[row.kind]} {clean_text(row.heading)}")]
    if row.kind == "changed":
        yield from _spans(row.spans)
    else:
        yield from text_lines(row.text, short=short)


def _spans(spans: Iterable[TextSpan]) -> Iterator[Line]:
    """Yield a text with removed parts as `[-gone-]` and new ones as `{+new+}`."""
    line: Line = [("", "    ")]
    for span in spans:
        before, after = {"added": ("{+", "+}"), "dropped": ("[-", "-]")}.get(span.kind, ("", ""))
        rows = f"{before}{span.text}{after}".split("\n")
        for index, row in enumerate(rows):
            if index:
                yield line
                line = [("", "    ")]
            pieces = range(0, len(row), _PIECE_CHARS)
            line += [(_STYLES[span.kind], clean_text(row[p : p + _PIECE_CHARS])) for p in pieces]
    yield line


def _outcome(outcome: StepResult, short: int | None) -> Iterator[Line]:
    if outcome.answer is not None:
        text = format_message(_without_calls(outcome.answer))
        if text:
            yield from text_lines(text, short=short, indent="  ")
    else:
        yield [("red", f"! no answer{_reason(outcome)}")]
        if outcome.partial:
            yield [("dim", "  received:")]
            yield from text_lines(outcome.partial, "dim", short=short)
    for ran in outcome.ran:
        yield from _executed_call_lines(ran, short)
    for row in outcome.rewritten:
        yield [("magenta", f"~ {clean_text(row.heard_by_name or '?')} heard:")]
        yield from text_lines(row.became, short=short)
    for operation in outcome.memory:
        yield [("magenta", f"~ memory: {clean_text(_memory(operation))}")]


def _reason(outcome: StepResult) -> str:
    return f": {clean_text(outcome.error)}" if outcome.error else ""


def _without_calls(message: Message) -> Message:
    return Message(message.role, message.content)


def _executed_call_lines(ran: ExecutedCall, short: int | None) -> Iterator[Line]:
    first, *tail = text_lines(f"{ran.tool} {ran.arguments}", "cyan", short=short)
    yield [("bold cyan", "> "), ("cyan", first[0][1].strip())]
    yield from tail
    if ran.became is not None:
        yield [("magenta", "~ rewritten by a hook:")]
        yield from text_lines(ran.became, "magenta", short=short)
    if ran.result is None:
        yield [("red", "! no result logged")]
        return
    yield [("red" if ran.is_error else "dim", f"< {'failed' if ran.is_error else 'result'}")]
    yield from text_lines(ran.result, short=short)


def _memory(operation: dict[str, Any]) -> str:
    names = ("memory_type", "operation", "file_path", "query", "content_preview")
    return " ".join(str(operation[name]) for name in names if operation.get(name) is not None)


def as_lines(steps: RequestSteps, numbers: Iterable[int], *, is_full: bool) -> Iterator[str]:
    """Yield the lines of these steps; `is_full`: with the full contexts."""
    for index, number in enumerate(numbers):
        step = steps.step(number)
        if index:
            yield ""
        yield "── " + _text(title_line(step, len(steps), len(steps.numbers_for(step.agent_id))))
        yield _text(facts_line(step))
        for line in step_lines(steps, number, short=None):
            yield _text(line)
        if is_full:
            yield ""
            for line in context_lines(steps, number):
                yield _text(line)


def as_rows(
    steps: RequestSteps, numbers: Iterable[int], *, is_full: bool
) -> Iterator[dict[str, Any]]:
    """Yield these steps as JSON; `is_full`: with the full contexts and tools."""
    for number in numbers:
        row = steps.step(number).as_json()
        try:
            row["changes"] = steps.changes(number).as_json()
            if is_full:
                row["context"] = [item.as_json() for item in steps.context(number)]
                row["verified"] = steps.verified(number)
                row["tools"] = None if "tools" in row.get("missing", ()) else steps.tools(number)
        except HarkenError as error:
            row["cannot"] = str(error)
        yield {**row, "outcome": steps.outcome(number).as_json()}


def _text(line: list[tuple[str, str]]) -> str:
    return "".join(text for _, text in line).rstrip()
