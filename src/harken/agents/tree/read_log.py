"""`read_log`: a hook reads what the agent that it watches has heard, said and done.

One idea: a hook need not remember what the log has. It sees the agent that it watches and those
below it, nobody else; what it gets is bounded, and looks like nothing that was said to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from harken.agents.agent import Agent
from harken.agents.tree.hook_action import watched_by
from harken.core.events import Reference, TranscriptEntry
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.memory.transcript import entry_text, matching
from harken.world.result import InvalidArguments, ToolResult

MOST = 50
"""So many messages are read at once."""
CHARACTERS, OF_ONE = 8_000, 1_000
"""So long is what is read, and each message in a list of several."""


async def run_read_log(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Return messages of the agent that a hook watches, or of one below.

    Raises InvalidArguments.
    """
    one = _named(agent.session, watched_by(agent).state, arguments["agent"])
    entries = agent.session.agent(one.id).transcript or []
    who = one.name or one.id
    if arguments["message"] is not None:
        entry = _with_id(entries, arguments["message"], who)
        return ToolResult(f"Of {who}, not said to you:\n{_shown(entry, CHARACTERS)}")
    last = max(1, min(arguments["last"], MOST))
    if arguments["query"] is not None:
        found = list(islice(matching(entries, arguments["query"]), last))[::-1]
    else:
        found = entries[-last:]
    return ToolResult(_listed(found, f"{len(found)} of {len(entries)} messages of {who}"))


def _named(session: Session, watched: AgentState, path: str | None) -> AgentState:
    """Return the agent to which a path leads from a watched one; by name, also one that is gone."""
    if path is None or path == (watched.name or watched.id):
        return watched
    at = watched
    for name in path.split("/"):
        below = [
            one for one in session.agents.values() if one.parent == at.id and not _is_hook(one)
        ]
        named = [one for one in below if name in (one.name, one.id)]
        if not named:
            there = ", ".join(dict.fromkeys(one.name or one.id for one in below)) or "nobody"
            raise InvalidArguments(f"{at.name} has no subagent {name!r}; there is: {there}")
        at = named[-1]
    return at


def _is_hook(state: AgentState) -> bool:
    """Whether it stands, or stood, as a hook: those who watch are not below anybody."""
    return state.place == "hook" or (state.place == "gone" and "keeps" in state.spec)


def _with_id(entries: Sequence[TranscriptEntry], id_: str, who: str) -> TranscriptEntry:
    for entry in entries:
        if entry.message_id == id_:
            return entry
    raise InvalidArguments(f"{who} has no message {id_!r}")


def _listed(entries: Sequence[TranscriptEntry], what: str) -> str:
    """Return the newest messages that fit, oldest first."""
    shown: list[str] = []
    left = CHARACTERS
    for entry in reversed(entries):
        text = _shown(entry, OF_ONE)
        left -= len(text)
        if left < 0:
            break
        shown.append(text)
    missing = len(entries) - len(shown)
    more = f" ({missing} more did not fit: ask for fewer, or for one by its id)" if missing else ""
    return "\n".join([f"{what}, oldest first, not said to you{more}:", *shown[::-1]])


def _shown(entry: TranscriptEntry, most: int) -> str:
    """Return a message below a line of its own; its further lines cannot begin another one."""
    who = f"{entry.role} {entry.name}" if entry.role == "tool" else entry.role
    text = entry_text(entry)
    if len(text) > most:
        text = f"{text[:most]}… ({len(text) - most} more characters)"
    return f"{entry.message_id} {who}: " + text.replace("\n", "\n    ")
