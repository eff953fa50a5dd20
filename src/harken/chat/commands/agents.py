"""Slash commands that show agents, their hooks, permissions and transcripts.

They read the current state of the session, so they work while a turn runs, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from harken.agents.action_schemas import ACTIONS, HOOK_ACTIONS
from harken.agents.agent import get_agent
from harken.agents.hooks.hook import hook_points
from harken.agents.tool_agent import ToolAgent
from harken.chat.commands.agent_paths import build_agent_completer, find_agent, map_agent_paths
from harken.chat.commands.base import CommandContext, slash
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, parse_id_number
from harken.core.messages import ChatMessage, text_of
from harken.session.state import AgentState
from harken.terminal.event_lines import describe_installation, format_model_name
from harken.terminal.text import one_line
from harken.views.message_text import format_count, format_message, heading
from harken.views.viewer import SessionViewer

DEFAULT_MESSAGES = 20
"""The default number of last messages of a transcript."""
MESSAGE_LINES = 6
PROMPT_LINES = 3
"""The number of lines of a system prompt when those of all agents are shown."""
MAX_LINES = 400
MAX_LINE_CHARS = 1000


@slash(
    "subagents",
    "list subagents, their states and their last inputs",
    "[AGENT]",
    completes=build_agent_completer("everybody"),
)
def _subagents(talk: CommandContext, argument: str) -> None:
    state = talk.session.agents[find_agent(talk, argument)]
    lines: list[str] = []
    for agent_id in state.subagents:
        below = talk.session.agents[agent_id]
        notes = [_model(below), talk.doing.get(agent_id, "idle")]
        notes += [format_count(len(below.hooks), "hook")] if below.hooks else []
        notes += [format_count(len(below.subagents), "subagent")] if below.subagents else []
        lines.append(f"{_format_name(below)}  {', '.join(notes)}")
        last = _last(talk, agent_id)
        if last is not None:
            lines.append(
                f"  {last.role}: {one_line(text_of(last.content) or format_message(last), 90)}"
            )
    talk.print_text("\n".join(lines) or f"{_format_name(state)} has no subagents")


def iter_hook_summaries(talk: CommandContext, agent_id: AgentId) -> Iterator[str]:
    """Yield lines about the hooks of an agent, in the order in which they are called."""
    session = talk.session
    rows = SessionViewer(session.path).watches()
    came = {row.hook: row for row in rows if row.kind == "installed"}
    for hook_id in session.agents[agent_id].hooks:
        state, hook = session.agents[hook_id], get_agent(talk.primary, hook_id)
        points = [
            point
            for point in ("input", "action", "result", "response")
            if point in hook_points(hook)
        ]
        point_text = "at all points" if len(points) == 4 else ", ".join(points) or "silent"
        kind = f"code ({state.spec.kind})"
        if state.language_model is not None:
            kind = format_model_name(state.language_model)
        yield (
            f"{_format_name(state)}  {kind} · {point_text} · {describe_installation(came[hook_id])}"
        )
        if (last_text := _find_last_text(talk, hook_id)) is not None:
            yield f"  last: {one_line(last_text, 90)}"


def _find_last_text(talk: CommandContext, agent_id: AgentId) -> str | None:
    for entry in reversed(talk.session.agent(agent_id).transcript or []):
        if entry.is_utterance:
            return text_of(entry.content)
    return None


@slash(
    "tools",
    "list the tools of each agent, and those withheld",
    "[AGENT]",
    completes=build_agent_completer("everybody"),
)
def _tools(talk: CommandContext, argument: str) -> None:
    ids = [find_agent(talk, argument)] if argument else [*map_agent_paths(talk.session)]
    agents = [get_agent(talk.primary, id_) for id_ in ids]
    by_tools: dict[tuple[str, ...], str] = {}
    lines: list[str] = []
    for agent, path in zip(agents, map(map_agent_paths(talk.session).get, ids), strict=True):
        label = path or agent.name
        mine = tuple(agent.tools) if isinstance(agent, ToolAgent) else ()
        if isinstance(agent, ToolAgent) and mine in by_tools:
            lines.append(f"{label}: as {by_tools[mine]}")
        elif isinstance(agent, ToolAgent):
            by_tools[mine] = label
            lines += [f"{label}:", *_iter_permitted_tools(mine, talk.runtime.world.tools)]
        elif argument:
            lines.append(f"{label} is code and has no tools")
    talk.print_text("\n".join(lines))


def _iter_permitted_tools(mine: Sequence[str], tools: Collection[str]) -> Iterator[str]:
    """Yield the tools that an agent may use, and those that it may not."""
    of_world = [name for name in mine if name in tools]
    actions = [name for name in mine if name in ACTIONS]
    missing = [name for name in (*tools, *ACTIONS) if name not in mine and name not in HOOK_ACTIONS]
    yield f"  tools: {', '.join(of_world) or 'none'}"
    yield f"  actions: {', '.join(actions) or 'none'}"
    if missing:
        yield f"  not granted: {', '.join(missing)}"


@slash(
    "system",
    "show the system prompt of an agent, or the start of all",
    "[AGENT]",
    completes=build_agent_completer("everybody"),
)
def _system(talk: CommandContext, argument: str) -> None:
    if argument:
        talk.print_text(
            "\n".join(_truncate_lines(_prompt(talk, find_agent(talk, argument)), MAX_LINES))
        )
        return
    lines: list[str] = []
    for agent_id in map_agent_paths(talk.session):
        state = talk.session.agents[agent_id]
        if state.language_model is not None:
            visible = _truncate_lines(_prompt(talk, agent_id), PROMPT_LINES)
            lines += [f"{_format_name(state)}:", *(f"  {line}" for line in visible)]
    talk.print_text("\n".join(lines))


def _prompt(talk: CommandContext, agent_id: AgentId) -> list[str]:
    messages = [message for message in talk.session.context(agent_id) if message.role == "system"]
    texts = [text_of(message.content) for message in messages]
    return "\n\n".join(texts).split("\n") if texts else ["(no system prompt)"]


@slash(
    "transcript",
    "show the last messages of an agent",
    "[AGENT] [HOW MANY]",
    completes=build_agent_completer("everybody"),
)
def _transcript(talk: CommandContext, argument: str) -> None:
    name, limit = _split_number(argument)
    agent_id = find_agent(talk, name)
    messages = [message for message in talk.session.context(agent_id) if message.role != "system"]
    agent_name = _format_name(talk.session.agents[agent_id])
    if not messages:
        talk.print_text(f"{agent_name} has no messages")
        return
    lines: list[str] = []
    if omitted := len(messages[:-limit]):
        lines = [
            (
                f"… {format_count(omitted, 'earlier message')} (/transcript {agent_name} "
                f"{len(messages)})"
            )
        ]
    for message in messages[-limit:]:
        lines += _message_lines(message)
    doing = talk.doing.get(agent_id)
    lines += [f"({agent_name} is working: {doing})"] if doing else []
    talk.print_text("\n".join(lines))


def _split_number(argument: str) -> tuple[str, int]:
    """Split an optional number from the end of a name."""
    name, _, last = argument.rpartition(" ")
    if last.isascii() and last.isdecimal() and int(last[:9]) > 0:
        return name.strip(), int(last[:9])
    return argument, DEFAULT_MESSAGES


def _message_lines(message: ChatMessage) -> list[str]:
    """Return the beginning of a message, with the number for `/show` if it is an entry."""
    number = (
        parse_id_number(message.message_id, "msg_")
        if isinstance(message, TranscriptEntry)
        else None
    )
    prefix = "" if number is None else f"{number} "
    lines = format_message(message).split("\n")
    hint = "" if number is None else f" (/show {number})"
    visible = _truncate_lines(lines, MESSAGE_LINES, hint)
    return [f"{prefix}{heading(message)}: {visible[0]}", *(f"  {line}" for line in visible[1:])]


def _truncate_lines(lines: Sequence[str], limit: int, hint: str = "") -> list[str]:
    """Return the first lines, with very long ones truncated."""
    visible = [
        line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…" for line in lines
    ]
    if len(visible) <= limit + 1 and not any(line.endswith("…") for line in visible):
        return visible
    omitted = len(visible) - limit
    return [
        *visible[:limit],
        *([f"… {format_count(omitted, 'more line')}{hint}"] if omitted > 0 else []),
    ]


def _last(talk: CommandContext, agent_id: AgentId) -> ChatMessage | None:
    messages = talk.session.context(agent_id)
    return messages[-1] if messages and messages[-1].role != "system" else None


def _model(state: AgentState) -> str:
    return "code" if state.language_model is None else format_model_name(state.language_model)


def _format_name(state: AgentState) -> str:
    return one_line(state.name or state.id, 30)
