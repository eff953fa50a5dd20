"""`read_log`: let a hook read the messages of the agent that it watches.

A hook need not remember what the log has. It can read the agent that it watches and the agents
below it, no others. The output is limited, and is formatted so that it cannot be taken for an
instruction to the hook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.tree.hook_action import get_watched
from harken.core.arguments import format_existing
from harken.core.events import Reference, TranscriptEntry
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.memory.transcript import entry_text, find_matching_entries
from harken.world.result import InvalidArguments, ToolResult

MAX_MESSAGES = 50
"""Maximum messages per call."""
MAX_OUTPUT_CHARS, MAX_MESSAGE_CHARS = 8_000, 1_000
"""Maximum characters of the output, and of each message in a list."""


async def run_read_log(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Return messages of the agent that a hook watches, or of an agent below it.

    Raises InvalidArguments.
    """
    state = _resolve_agent(agent.session, get_watched(agent).state, arguments["agent"])
    entries = agent.session.agent(state.id).transcript or []
    name = state.name or state.id
    if arguments["message"] is not None:
        entry = _get_entry(entries, arguments["message"], name)
        text = _format_entry(entry, MAX_OUTPUT_CHARS)
        return ToolResult(texts.LOG_MESSAGE.format(name, text))
    last = max(1, min(arguments["last"], MAX_MESSAGES))
    if arguments["query"] is not None:
        matches = list(islice(find_matching_entries(entries, arguments["query"]), last))[::-1]
    else:
        matches = entries[-last:]
    title = texts.LOG_COUNT.format(len(matches), len(entries), name)
    return ToolResult(_format_entries(matches, title))


def _resolve_agent(session: Session, watched: AgentState, path: str | None) -> AgentState:
    """Return the agent at a path below a watched agent, by name; it may be terminated."""
    if path is None or path == (watched.name or watched.id):
        return watched
    state = watched
    for name in path.split("/"):
        children = [
            child
            for child in session.agents.values()
            if child.parent == state.id and not _is_hook(child)
        ]
        matches = [child for child in children if name in (child.name, child.id)]
        if not matches:
            names = dict.fromkeys(child.name or child.id for child in children)
            raise InvalidArguments(
                f"{state.name} has no subagent {name!r}{format_existing(names, 'subagents')}"
            )
        state = matches[-1]
    return state


def _is_hook(state: AgentState) -> bool:
    """Whether it is, or was, a hook: hooks do not count as below the agent that they watch."""
    return state.place == "hook" or (state.place == "gone" and state.spec.is_born_as_hook)


def _get_entry(entries: Sequence[TranscriptEntry], id_: str, name: str) -> TranscriptEntry:
    for entry in entries:
        if entry.message_id == id_:
            return entry
    raise InvalidArguments(f"{name} has no message {id_!r}")


def _format_entries(entries: Sequence[TranscriptEntry], title: str) -> str:
    """Format the newest messages that fit, oldest first."""
    lines: list[str] = []
    remaining_chars = MAX_OUTPUT_CHARS
    for entry in reversed(entries):
        text = _format_entry(entry, MAX_MESSAGE_CHARS)
        remaining_chars -= len(text)
        if remaining_chars < 0:
            break
        lines.append(text)
    missing = len(entries) - len(lines)
    omission = texts.LOG_OMISSION.format(missing) if missing else ""
    return "\n".join([texts.LOG_LIST.format(title, omission), *lines[::-1]])


def _format_entry(entry: TranscriptEntry, limit_chars: int) -> str:
    """Format a message; its continuation lines are indented and cannot start another message."""
    speaker = f"{entry.role} {entry.name}" if entry.role == "tool" else entry.role
    text = entry_text(entry)
    if len(text) > limit_chars:
        text = texts.LOG_TRUNCATED.format(text[:limit_chars], len(text) - limit_chars)
    return f"{entry.message_id} {speaker}: " + text.replace("\n", "\n    ")
