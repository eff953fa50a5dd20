"""The current work of each busy agent, computed from events and chunks alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from harken.chat.render.tool_calls import format_call
from harken.chat.usage import CHARACTERS_A_TOKEN, format_tokens
from harken.core.events import AgentMoved, Event, LlmRequest, LlmResponse, TranscriptEntry
from harken.core.ids import USER, AgentId
from harken.core.messages import FunctionCall
from harken.core.stream import Chunk, TextDelta, ThinkingDelta, ToolCallDelta
from harken.terminal.styled_text import Line, clean_text, shorten
from harken.world.tool import Tool

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MIN_AGENTS = 6
"""The number of agents that are always shown; more if there is room."""


class AgentStatus(msgspec.Struct):
    """The current work of an agent."""

    work: str
    since: float
    """The time of its start, in seconds of the caller's clock."""
    characters: int = 0
    """The number of characters of its answer received so far."""
    calls: dict[str, str] = msgspec.field(default_factory=dict)
    """The texts of calls without a result, by id."""


class AgentActivity(msgspec.Struct):
    """The busy agents. Times are those of one clock, in seconds."""

    agents: dict[AgentId, AgentStatus] = msgspec.field(default_factory=dict)
    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    """The tools, which describe the subject of their calls."""

    def __bool__(self) -> bool:
        return bool(self.agents)

    def on_chunk(self, agent: AgentId, chunk: Chunk, now: float) -> None:
        """Process a chunk of an answer."""
        match chunk:
            case TextDelta():
                self._set_streaming(agent, "writing", len(chunk.text), now)
            case ThinkingDelta():
                self._set_streaming(agent, "thinking", len(chunk.text), now)
            case ToolCallDelta():
                self._set_streaming(agent, "writing a call", len(chunk.arguments), now)
            case _:
                pass

    def _set_streaming(self, agent: AgentId, work: str, characters: int, now: float) -> None:
        doing = self.agents.get(agent)
        if doing is None or doing.work != work:
            before = 0 if doing is None else doing.characters
            doing = self.agents[agent] = AgentStatus(work, now, before)
        doing.characters += characters

    def on_event(self, event: Event, now: float) -> None:
        """Process an event."""
        agent = event.agent_id
        if agent is None or agent == USER:
            return
        match event:
            case LlmRequest():
                self.agents[agent] = AgentStatus("waiting for the model", now)
            case TranscriptEntry(role="assistant") if event.tool_calls:
                calls = {call.id: self._text(call.function) for call in event.tool_calls}
                self.agents[agent] = AgentStatus("running", now, calls=calls)
            case TranscriptEntry(role="tool"):
                self._remove_call(agent, event.tool_call_id or "")
            case LlmResponse():
                if agent in self.agents and not self.agents[agent].calls:
                    del self.agents[agent]
            case AgentMoved(place="gone"):
                self.agents.pop(agent, None)
            case _:
                pass

    def restart(self, agent: AgentId, now: float) -> None:
        """Restart the duration of an agent's calls after the user answered a question."""
        if agent in self.agents:
            self.agents[agent].since = now

    def _remove_call(self, agent: AgentId, call: str) -> None:
        doing = self.agents.get(agent)
        if doing is not None:
            doing.calls.pop(call, None)
            if not doing.calls:
                del self.agents[agent]

    def _text(self, call: FunctionCall) -> str:
        return format_call(call.name, call.arguments, self.tools.get(call.name))

    def clear(self) -> None:
        """Remove all agents: the turn has ended."""
        self.agents.clear()

    def lines(
        self,
        name: Callable[[AgentId], str],
        now: float,
        *,
        asking: Collection[str] = (),
        most: int = MIN_AGENTS,
    ) -> list[Line]:
        """Return a line for each busy agent. Agents in `asking` wait for the user."""
        visible = list(self.agents.items())[: max(most, MIN_AGENTS)]
        names = [shorten(clean_text(name(agent)), 20) for agent, _ in visible]
        waiting = [name(agent) in asking for agent, _ in visible]
        width = max(map(len, names), default=0)
        frame = FRAMES[int(now * 10) % len(FRAMES)]
        rows: list[Line] = [
            [
                ("yellow", "? ") if asks else ("cyan", f"{frame} "),
                ("bold", f"{agent_name:<{width}} "),
                ("dim", "waiting for you" if asks else format_status(doing, now)),
            ]
            for agent_name, asks, (_, doing) in zip(names, waiting, visible, strict=True)
        ]
        if hidden_count := len(self.agents) - len(visible):
            rows.append([("dim", f"  … and {hidden_count} more agents")])
        return rows


def format_status(doing: AgentStatus, now: float) -> str:
    """Format the work of an agent, its duration and its amount."""
    work = clean_text(doing.work)
    if doing.calls:
        calls: Sequence[str] = list(doing.calls.values())
        work = f"running {clean_text(calls[0])}"
        if len(calls) > 1:
            work = f"running {len(calls)} calls: {', '.join(clean_text(call) for call in calls)}"
    elapsed = max(now - doing.since, 0)
    notes = [f"{elapsed:.0f}s"] if elapsed >= 1 else []
    if doing.characters:
        notes.append(f"~{format_tokens(doing.characters // CHARACTERS_A_TOKEN)} tokens")
    return f"{shorten(work, 60)} {' · '.join(notes)}".rstrip()
