"""The live tree: every agent with its place, its current work and its usage.

It is above the input while it is open, and is drawn from the current state of the session. The
order is that of the tree: an agent's hooks, then the agent, then its subagents, each with theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from harken.chat.render.activity import FRAMES, AgentActivity, format_status
from harken.chat.usage import UsageTotal, format_cost, format_tokens
from harken.core.events import Event, LlmResponse
from harken.core.ids import AgentId
from harken.session.state import AgentState, SessionState
from harken.terminal.styled_text import Line, Span, cell_width, clean_text, shorten, truncate_line
from harken.views.message_text import format_count

MAX_NAME_CELLS = 24
MAX_INDENT_DEPTH = 12
"""The maximum depth of the indentation. Deeper agents are indented the same."""
_MIN_USAGE_COLUMNS = 40
"""The minimum number of columns beside the names for which the usage is shown."""


class TreeNode(msgspec.Struct, frozen=True):
    """An agent and its position in the tree."""

    state: AgentState
    depth: int
    is_hook: bool = False


class LiveTree(msgspec.Struct):
    """The tree of a session as lines."""

    session: SessionState
    activity: AgentActivity
    is_open: bool = False
    usage: dict[AgentId, UsageTotal] = msgspec.field(default_factory=dict)
    _first: int = 0
    """The index of the first visible agent."""
    _page: int = 1
    """The number of agents shown the last time."""

    def on_event(self, event: Event) -> None:
        """Add the usage of a model call."""
        if isinstance(event, LlmResponse) and event.agent_id is not None:
            self.usage.setdefault(event.agent_id, UsageTotal()).add(event)

    def toggle(self) -> None:
        """Open the tree, from the top, or close it."""
        self.is_open, self._first = not self.is_open, 0

    def scroll(self, by: int) -> None:
        """Scroll down by so many pages."""
        self._first = max(self._first + by * self._page, 0)

    def lines(
        self, width: int, height: int, now: float, *, asking: Collection[str] = ()
    ) -> list[Line]:
        """Return at most `height` lines: a heading, and a line for each agent that has room.

        asking: names of agents that wait for the user.
        """
        places = [*self._iter_nodes()]
        room = max(height - 1, 1)
        self._page = room
        self._first = min(self._first, max(len(places) - room, 0))
        visible = places[self._first : self._first + room]
        names = [_format_heading(place, self.session.primary) for place in visible]
        column = min(max(map(_width, names), default=0), width // 2)
        rows: list[Line] = [self._title(places, len(visible), width)]
        for place, name in zip(visible, names, strict=True):
            rows.append(
                [*_fit_line(name, column), *self._state(place.state, width - column, now, asking)]
            )
        return rows[:height]

    def _title(self, places: Sequence[TreeNode], visible_count: int, width: int) -> Line:
        hooks = sum(place.is_hook for place in places)
        every = len(places)
        text = format_count(every - hooks, "agent") + (
            f", {format_count(hooks, 'hook')}" if hooks else ""
        )
        if visible_count < every:
            position = f"{self._first + 1} to {self._first + visible_count} of {every}"
            text = f"{position} · PgUp PgDn · {text}"
        return [("dim", shorten(f"{text} · Ctrl-G closes", width))]

    def _iter_nodes(self) -> Iterator[TreeNode]:
        """Yield all living agents, from top to bottom, without recursion."""
        start = self.session.primary or self.session.root
        waiting: list[tuple[AgentId, int, bool, bool]] = []
        if start is not None:
            waiting.append((start, 0, False, False))
        seen_ids: set[AgentId] = set()
        while waiting:
            agent_id, depth, is_hook, are_hooks_told = waiting.pop()
            state = self.session.agents.get(agent_id)
            if state is None or (agent_id in seen_ids and not are_hooks_told):
                continue
            if state.hooks and not are_hooks_told:
                seen_ids.add(agent_id)
                waiting.append((agent_id, depth, is_hook, True))
                waiting += [(agent_id, depth, True, False) for agent_id in reversed(state.hooks)]
                continue
            seen_ids.add(agent_id)
            yield TreeNode(state, depth, is_hook)
            waiting += [
                (agent_id, depth + 1, False, False) for agent_id in reversed(state.subagents)
            ]

    def _state(
        self, state: AgentState, width: int, now: float, asking: Collection[str]
    ) -> Iterator[Span]:
        """Yield the work of an agent and, at the end of the row, its usage."""
        frame, doing = self._describe_work(state, now, asking)
        usage_text = self._used_text(state.id) if width >= _MIN_USAGE_COLUMNS else ""
        remaining = width - cell_width(usage_text) - 4
        text = shorten(f"{frame} {doing}".lstrip(), max(remaining, 1))
        waits = (state.name or state.id) in asking
        yield "", "  "
        yield "yellow" if waits else "cyan" if frame else "dim", text
        if usage_text:
            yield "dim", " " * (remaining - cell_width(text) + 1) + usage_text

    def _describe_work(
        self, state: AgentState, now: float, asking: Collection[str]
    ) -> tuple[str, str]:
        """Return a spinner if the agent is busy, and a description of its work."""
        if (state.name or state.id) in asking:
            return "?", "waits for you"
        doing = self.activity.agents.get(state.id)
        if doing is not None:
            return FRAMES[int(now * 10) % len(FRAMES)], format_status(doing, now)
        if state.place == "hook" and state.spec.standing.points == []:
            return "", "waits, silent"
        if state.place == "hook":
            return "", "watches"
        return "", "talks to you" if state.id == self.session.primary else "idle"

    def _used_text(self, agent_id: AgentId) -> str:
        usage = self.usage.get(agent_id)
        if usage is None:
            return ""
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        parts = [
            format_tokens(tokens) if tokens else "",
            format_cost(usage) if usage.priced else "",
        ]
        return " · ".join(filter(None, parts))


def _format_heading(place: TreeNode, primary: AgentId | None) -> Line:
    """Return an agent's sign and name, indented by its depth in the tree."""
    state = place.state
    sign = "▲" if place.is_hook else "●" if state.id == primary else "└"
    name = shorten(clean_text(state.name or state.id), MAX_NAME_CELLS)
    style = "magenta" if place.is_hook else "bold" if state.id == primary else ""
    return [("dim", f"{'  ' * min(place.depth, MAX_INDENT_DEPTH)}{sign} "), (style, name)]


def _width(line: Line) -> int:
    return sum(cell_width(text) for _, text in line)


def _fit_line(line: Line, column: int) -> Line:
    """Return a line of exactly this width."""
    line = truncate_line(line, column)
    return [*line, ("", " " * (column - _width(line)))]
