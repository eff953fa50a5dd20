"""Format events, contexts and hook actions as lines for a terminal.

It also shortens model names for display.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from rich.cells import cell_len, set_cell_size

from harken.core.events import Event, Json, TranscriptEntry, event_type
from harken.core.ids import USER
from harken.terminal.text import indent, one_line
from harken.views.context import ContextMessage, ContextView
from harken.views.interventions import Intervention
from harken.views.links import causes_of, substance_of
from harken.views.message_text import format_count, format_message, heading, join_tool_names
from harken.views.timeline import Timeline
from harken.views.verdicts import VerdictRow, Watch
from harken.views.viewer import SessionViewer


def format_model_name(name: str | None) -> str:
    """Return a model's name for display: of a file path, only its last part.

    >>> format_model_name("scripted:/tmp/tea.yaml"), format_model_name("anthropic/claude")
    ('scripted:tea.yaml', 'anthropic/claude')
    """
    kind, colon, file = (name or "no model").partition(":")
    return f"{kind}:{PurePath(file).name}" if colon and "/" in file else name or "no model"


_LANE_WIDTH = 16
_HIDDEN = {"message_id", "event_type", "time", "agent_id", "cause", "substance"}
_PROPOSED = {"input": "heard", "result": "got", "action": "proposed", "response": "proposed"}
_VERDICT_VERBS = {
    "ok": "OK",
    "comment": "commented",
    "denial": "denied",
    "rewrite": "rewrote",
    "failure": "failed",
}


def format_entry(entry: TranscriptEntry) -> str:
    """Return an entry of a transcript in full, with indented further lines."""
    text = indent(format_message(entry), "  ")
    return f"{entry.message_id} {_format_links(entry)}{heading(entry)}: {text}"


def format_event(viewer: SessionViewer, event: Event) -> str:
    """Return an event on one line: agent, links, role or type, and text or members."""
    agent_name = viewer.events.names.latest_name(event.agent_id) or ""
    kind, text = event_type(event), ""
    if isinstance(event, TranscriptEntry):
        kind, text = heading(event), format_message(event)
    else:
        data = viewer.raw(event)
        text = data["content"] if isinstance(data.get("content"), str) else _format_members(data)
    line = f"{event.message_id} {agent_name} {_format_links(event)}{kind}: {one_line(text, 160)}"
    return line.replace("  ", " ")


def iter_timeline_lines(view: Timeline, columns: int) -> Iterator[str]:
    """Yield a line for each mark of a timeline: time, id, agent, kind and the text that fits."""
    names = [one_line(lane.name or lane.agent_id, _LANE_WIDTH) for lane in view.lanes]
    lane_width = max(map(cell_len, names), default=0)
    kinds = [mark.role or mark.event_type for mark in view.marks]
    kind_width = max(map(len, kinds), default=0)
    for mark, kind in zip(view.marks, kinds, strict=True):
        name = names[mark.lane] if mark.lane is not None else ""
        name += " " * (lane_width - cell_len(name))
        head = f"{mark.time[11:19]} {mark.message_id} {name} {kind:<{kind_width}}"
        line = f"{head} {one_line(mark.text, columns)}".rstrip()
        fits = cell_len(line) <= columns
        yield line if fits else set_cell_size(line, columns - 1).rstrip() + "…"


def format_context_message(row: ContextMessage, mark: str | None = None) -> str:
    """Return a message of a context in full. Without a `mark`, a new message gets `+`."""
    mark = mark or ("+" if row.new else " ")
    text = indent(format_message(row.message), "      ")
    id_ = row.message_id or row.loaded
    return f"{mark}{row.position:4} {id_} {heading(row.message)}: {text}"


def format_call_options(view: ContextView) -> str:
    """Return the tools and parameters of a model call, and its system prompt if that is unknown."""
    parameters = [
        f"{name}={format_value(value)}"
        for name, value in (view.parameters or {}).items()
        if name != "system"
    ]
    tools, parameter_text = join_tool_names(view.tools or ()), ", ".join(parameters)
    if "parameters" in view.missing:
        parameter_text = f"{parameter_text}, others unknown" if parameter_text else "unknown"
    options = [
        f"tools: {'unknown' if 'tools' in view.missing else tools or 'none'}",
        f"parameters: {parameter_text or 'none'}",
    ]
    if "system" in view.missing:
        options.insert(0, "system prompt: unknown")
    elif prompt := (view.parameters or {}).get("system"):
        options.insert(0, f"system prompt: {_count_blocks(prompt)}, with --json in full")
    return "; ".join(options)


def _count_blocks(prompt: Json) -> str:
    return format_count(len(prompt), "block") if isinstance(prompt, list) else "a text"


def iter_hook_lines(row: Watch | VerdictRow | Intervention) -> Iterator[str]:
    """Yield lines about the action of a hook, or about a change of the hook."""
    if isinstance(row, Watch):
        yield format_watch(row)
        if row.instructions and row.how != "copied":  # a copy has the instructions of the original
            yield f"  told: {one_line(row.instructions)}"
    elif isinstance(row, VerdictRow):
        yield from iter_verdict_lines(row)
    else:
        yield from iter_intervention_lines(row)


def iter_verdict_lines(row: VerdictRow) -> Iterator[str]:
    """Yield the proposal, the verdict of the hook and its outcomes."""
    proposed = _PROPOSED.get(row.point, "proposed")
    yield f"{row.subject} {row.name or '?'} {proposed}: {one_line(row.proposed)}"
    verdict = ": ".join(filter(None, [_VERDICT_VERBS[row.kind], one_line(row.text)]))
    yield f"  {row.message_id} {row.hook_name} {verdict}"
    for outcome in row.outcomes:
        yield f"  {outcome.message_id} {outcome.name} got: {one_line(outcome.text)}"
    if not row.outcomes and row.kind != "ok":
        yield "  no result"


def format_watch(row: Watch) -> str:
    """Return a line about a hook that starts or stops watching an agent, and the cause."""
    hook, watched, by = row.hook_name, row.name, _actor_name(row)
    cause = f" ({row.cause})" if row.cause else ""
    if row.kind == "installed":
        text = f"{hook} watches {watched}, {describe_installation(row)}{cause}"
    elif row.how == "ended":
        text = f"hook {hook} of {watched} removed: terminated by {by}{cause}"
    else:
        why = "it quit" if row.how == "quit" else _describe_move(row)
        text = f"hook {hook} of {watched} removed: {why}{cause}"
    return f"{row.message_id} {text}"


def describe_installation(row: Watch) -> str:
    """Return how a hook came to watch an agent."""
    return {
        "made": f"by {_actor_name(row)}",
        "copied": "a copy of its parent's",
        "moved": f"by {_describe_move(row)}",
    }.get(row.how, "from the beginning")


def _actor_name(row: Watch) -> str:
    """Return the name of the agent that caused the change, or "you" for the user."""
    return "you" if row.by == USER else row.by_name or "unknown"


def _describe_move(row: Watch) -> str:
    return "your move" if row.by == USER else f"a move of {_actor_name(row)}"


def iter_intervention_lines(row: Intervention) -> Iterator[str]:
    """Yield the proposal of an intervention and its outcome."""
    yield f"{row.message_id} {row.name} proposed: {one_line(row.proposed)}"
    yield f"  {row.became_id} {row.heard_by_name} got: {one_line(row.became)}"


def format_value(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_links(event: Event) -> str:
    causes, substance = causes_of(event), substance_of(event)
    links = [f"substance={substance}"] if substance else []
    links += [f"cause={','.join(causes)}"] if causes else []
    return f"[{' '.join(links)}] " if links else ""


def _format_members(data: dict[str, Any]) -> str:
    return " ".join(f"{n}={format_value(value)}" for n, value in data.items() if n not in _HIDDEN)
