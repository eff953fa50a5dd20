"""Slash commands that show the context, the usage and the events of the session."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from harken.agents.turn.compaction import CompactionResult
from harken.chat.commands.agent_paths import build_agent_completer, find_agent
from harken.chat.commands.base import MODES, CommandContext, build_choice_completer, slash
from harken.chat.usage import (
    CHARACTERS_A_TOKEN,
    format_tokens,
    format_usage,
    sum_usage,
    sum_usage_by_agent,
)
from harken.core.events import Event, LlmRequest, LlmResponse, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import ThinkingPart
from harken.core.stream import parse_partial_thinking
from harken.terminal.event_lines import format_model_name
from harken.terminal.text import one_line
from harken.views.context import ContextView
from harken.views.message_text import format_count, format_message, readable_text
from harken.views.viewer import SessionViewer

EVENT_LINES = 60
"""The maximum number of lines of an event that is not a message."""


@slash(
    "context",
    "show the context of the model, and its cached part",
    "[AGENT]",
    completes=build_agent_completer("everybody"),
)
def _context(talk: CommandContext, argument: str) -> None:
    viewer = SessionViewer(talk.session.path)
    agent_id = find_agent(talk, argument)
    requests = [e for e in viewer.events if isinstance(e, LlmRequest) and e.agent_id == agent_id]
    messages = talk.session.context(agent_id)
    rows: dict[str, tuple[int, int]] = {}
    for message in messages:
        number, characters = rows.get(message.role, (0, 0))
        rows[message.role] = number + 1, characters + len(format_message(message))
    lines = [f"{format_count(len(messages), 'message')} in the context:"]
    lines += [
        f"  {role:<10} {number:>5}   ~{format_tokens(characters // CHARACTERS_A_TOKEN)} tokens"
        for role, (number, characters) in rows.items()
    ]
    if requests:
        view = viewer.context(requests[-1].message_id)
        schemas = len(str(view.tools or "")) // CHARACTERS_A_TOKEN
        lines.append(
            f"  {'tools':<10} {len(view.tools or ()):>5}   ~{format_tokens(schemas)} tokens"
        )
        lines += _iter_provider_counts(viewer, requests[-1], view)
    talk.print_text("\n".join(lines))


def _iter_provider_counts(
    viewer: SessionViewer, request: LlmRequest, view: ContextView
) -> Iterable[str]:
    """Yield the token counts of the last call, and whether its prefix was cached."""
    responses = (e for e in viewer.events if isinstance(e, LlmResponse))
    usage = next((e.usage for e in responses if e.request == request.message_id), None)
    if usage is not None and usage.input_tokens is not None:
        cached = usage.cache_read_tokens
        part = "" if cached is None else f", {format_tokens(cached)} of them cached"
        yield f"the last request had {format_tokens(usage.input_tokens)} tokens{part}"
    else:
        yield "the tokens of the last request were not counted"
    if view.previous is None:
        return
    first_new = next((row.position for row in view.messages if row.new), len(view.messages))
    kept_after = any(not row.new for row in view.messages[first_new:])
    if view.dropped or kept_after:
        position = min([row.position for row in view.dropped] + [first_new])
        label = one_line(readable_text(view.dropped[0].message.content), 60) if view.dropped else ""
        dropped = f": {view.dropped[0].message.role} {label!r} is gone" if view.dropped else ""
        yield f"its cached prefix ended at message {position}{dropped}"
    else:
        yield (f"its first {first_new} messages equal the previous request: all can be cached")


@slash(
    "compact",
    "replace the context by a summary; the log keeps all",
    "[what to keep]",
    group="session",
)
def _compact(talk: CommandContext, argument: str) -> None:
    talk.compact(argument)


def format_compaction(result: CompactionResult | None) -> str:
    """Format the result of a compaction."""
    if result is None:
        return "the context is too short to compact"
    before, after = format_tokens(result.tokens_before), format_tokens(result.tokens_after)
    messages = format_count(result.messages, "message")
    return f"{messages} summarized: the context has ~{after} tokens, before ~{before}"


@slash("cost", "show usage and cost by agent")
def _cost(talk: CommandContext, _: str) -> None:
    events = [*SessionViewer(talk.session.path).events]
    each, agents = sum_usage_by_agent(events), talk.session.agents
    if not each:
        talk.print_text("no model calls yet")
        return
    rows = [(_name(talk, id_), sums) for id_, sums in each.items() if id_ in agents]
    rows.append(("together", sum_usage(events)))
    width = max(len(name) for name, _ in rows)
    talk.print_text("\n".join(f"{name:<{width}}  {format_usage(sums)}" for name, sums in rows))


def _name(talk: CommandContext, agent_id: AgentId) -> str:
    return one_line(talk.session.agents[agent_id].name or agent_id, 30)


@slash("agents", "list agents, their states and usage")
def _agents(talk: CommandContext, _: str) -> None:
    viewer = SessionViewer(talk.session.path)
    each = sum_usage_by_agent(viewer.events)
    rows = []
    for row in viewer.tree():
        doing = "gone" if row.gone else talk.doing.get(row.agent_id, "")
        hook = "hook" if row.place == "hook" else ""
        usage = format_usage(each[row.agent_id]) if row.agent_id in each else ""
        model = format_model_name(row.language_model) if row.language_model else ""
        notes = filter(None, [hook, model or "code", doing or "idle" * (not hook), usage])
        rows.append("  " * row.depth + f"{one_line(row.name, 30)}  {', '.join(notes)}")
    talk.print_text("\n".join(rows))


@slash("show", "show a message in full, such as a folded result", "N")
def _show(talk: CommandContext, argument: str) -> None:
    viewer = SessionViewer(talk.session.path)
    if not argument:
        talk.print_text("no message given; /show 12 shows msg_012")
        return
    event = viewer.events.get(viewer.resolve_message(argument))
    if isinstance(event, TranscriptEntry):
        talk.print_text(format_message(event))
    elif event is not None:
        lines = json.dumps(viewer.raw(event), ensure_ascii=False, indent=2).split("\n")
        omitted = format_count(len(lines) - EVENT_LINES, "more line")
        note = [f"… {omitted}: `/view raw` has the events"] if len(lines) > EVENT_LINES + 1 else []
        talk.print_text("\n".join([*lines[:EVENT_LINES], *note] if note else lines))


@slash("thinking", "show the last thinking in full")
def _print_thinking(talk: CommandContext, _: str) -> None:
    primary = talk.session.state.primary or talk.session.state.root
    events = reversed(SessionViewer(talk.session.path).events.events)
    thoughts = (_find_thought(event) for event in events if event.agent_id == primary)
    talk.print_text(next(filter(str.strip, thoughts), "no thinking recorded yet"))


def _find_thought(event: Event) -> str:
    """Return the last thought of an answer, also of an incomplete one, or an empty text."""
    if isinstance(event, LlmResponse):
        return parse_partial_thinking(event.partial)
    parts = event.content if isinstance(event, TranscriptEntry) else None
    thoughts = [part.text for part in parts or () if isinstance(part, ThinkingPart)]
    return next(filter(str.strip, reversed(thoughts)), "")


@slash(
    "permission",
    "show or change the permission mode",
    "[ask|edits|all|plan]",
    group="chat",
    completes=build_choice_completer(*MODES),
)
def _permission(talk: CommandContext, argument: str) -> None:
    permissions: Any = talk.runtime.world.permissions
    if permissions is None:
        talk.print_text("this chat has no permission modes")
    elif not argument:
        talk.print_text(f"{permissions.mode}: {MEANINGS[permissions.mode]}")
    elif argument in MODES:
        permissions.mode = argument
        talk.print_text(f"{argument}: {MEANINGS[argument]}")
    else:
        talk.print_text(f"mode {argument!r} not found; modes: {', '.join(MODES)}")


MEANINGS: dict[str, str] = {
    "ask": "reading is allowed; all else needs approval",
    "edits": ("reading, and editing files in the folder, is allowed; all else needs approval"),
    "all": "everything is allowed",
    "plan": "only reading is allowed",
}


@slash("quit", "end the chat; the session is kept", group="chat")
def _quit(talk: CommandContext, _: str) -> None:
    talk.quit()
