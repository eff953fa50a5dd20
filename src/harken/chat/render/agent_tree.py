"""The live tree: every agent there is, where it stands, what it does now, what it has used.

It stands above the input while it is open, and is drawn from what the session has at that moment.
Who stands above another in the tree stands above it here: an agent's hooks, then the agent, then
its subagents, each with theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from harken.chat.render.activity import FRAMES, AgentActivity, state_text
from harken.chat.usage import UsageTotal, cost_text, tokens_text
from harken.core.events import Event, LlmResponse
from harken.core.ids import AgentId
from harken.session.state import AgentState, SessionState
from harken.terminal.styled_text import Line, Span, cells, clean, shorten, truncate_line
from harken.views.message_text import count

LONGEST_NAME = 24
MOST_DEPTH = 12
"""How many steps of the tree are indented; what is deeper stands as far in."""
_WIDE = 40
"""With so many columns beside the names there is room for what each has used."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An agent and where it stands."""

    state: AgentState
    depth: int
    is_hook: bool = False


@dataclass(slots=True)
class LiveTree:
    """Draws the tree of a session."""

    session: SessionState
    activity: AgentActivity
    is_open: bool = False
    used: dict[AgentId, UsageTotal] = field(default_factory=dict)
    _first: int = 0
    """The first agent that is shown."""
    _page: int = 1
    """How many were shown the last time."""

    def hear(self, event: Event) -> None:
        """Count what a model call used."""
        if isinstance(event, LlmResponse) and event.agent_id is not None:
            self.used.setdefault(event.agent_id, UsageTotal()).add(event)

    def toggle(self) -> None:
        """Open it, from the top, or close it."""
        self.is_open, self._first = not self.is_open, 0

    def scroll(self, by: int) -> None:
        """Show what is so many pages further down."""
        self._first = max(self._first + by * self._page, 0)

    def lines(
        self, width: int, height: int, now: float, *, asking: Collection[str] = ()
    ) -> list[Line]:
        """Return at most `height` lines: a heading, and a line for each agent that has room.

        asking: names of agents that wait for the user.
        """
        places = [*self._places()]
        room = max(height - 1, 1)
        self._page = room
        self._first = min(self._first, max(len(places) - room, 0))
        shown = places[self._first : self._first + room]
        names = [_heading(one, self.session.primary) for one in shown]
        column = min(max(map(_width, names), default=0), width // 2)
        rows: list[Line] = [self._title(places, len(shown), width)]
        for place, name in zip(shown, names, strict=True):
            rows.append(
                [*_fitted(name, column), *self._state(place.state, width - column, now, asking)]
            )
        return rows[:height]

    def _title(self, places: Sequence[TreeNode], shown: int, width: int) -> Line:
        hooks = sum(place.is_hook for place in places)
        every = len(places)
        text = count(every - hooks, "agent") + (f", {count(hooks, 'hook')}" if hooks else "")
        if shown < every:
            at = f"{self._first + 1} to {self._first + shown} of {every}"
            text = f"{at} · PgUp PgDn · {text}"
        return [("dim", shorten(f"{text} · Ctrl-G closes", width))]

    def _places(self) -> Iterator[TreeNode]:
        """Yield all living agents, from top to bottom, without recursion."""
        start = self.session.primary or self.session.root
        waiting: list[tuple[AgentId, int, bool, bool]] = []
        if start is not None:
            waiting.append((start, 0, False, False))
        seen: set[AgentId] = set()
        while waiting:
            agent_id, depth, is_hook, are_hooks_told = waiting.pop()
            state = self.session.agents.get(agent_id)
            if state is None or (agent_id in seen and not are_hooks_told):
                continue
            if state.hooks and not are_hooks_told:
                seen.add(agent_id)
                waiting.append((agent_id, depth, is_hook, True))
                waiting += [(one, depth, True, False) for one in reversed(state.hooks)]
                continue
            seen.add(agent_id)
            yield TreeNode(state, depth, is_hook)
            waiting += [(one, depth + 1, False, False) for one in reversed(state.subagents)]

    def _state(
        self, state: AgentState, width: int, now: float, asking: Collection[str]
    ) -> Iterator[Span]:
        """Yield what an agent does, and at the end of the row what it has used."""
        frame, doing = self._doing(state, now, asking)
        used = self._used_text(state.id) if width >= _WIDE else ""
        left = width - cells(used) - 4
        text = shorten(f"{frame} {doing}".lstrip(), max(left, 1))
        waits = (state.name or state.id) in asking
        yield "", "  "
        yield "yellow" if waits else "cyan" if frame else "dim", text
        if used:
            yield "dim", " " * (left - cells(text) + 1) + used

    def _doing(self, state: AgentState, now: float, asking: Collection[str]) -> tuple[str, str]:
        """Return a sign that moves, where an agent is at work, and what it does."""
        if (state.name or state.id) in asking:
            return "?", "waits for you"
        doing = self.activity.agents.get(state.id)
        if doing is not None:
            return FRAMES[int(now * 10) % len(FRAMES)], state_text(doing, now)
        points = state.spec.get("points")
        if state.place == "hook" and isinstance(points, list) and not points:
            return "", "waits, silent"
        if state.place == "hook":
            return "", "watches"
        return "", "talks with you" if state.id == self.session.primary else "idle"

    def _used_text(self, agent_id: AgentId) -> str:
        used = self.used.get(agent_id)
        if used is None:
            return ""
        tokens = (used.input_tokens or 0) + (used.output_tokens or 0)
        parts = [tokens_text(tokens) if tokens else "", cost_text(used) if used.priced else ""]
        return " · ".join(filter(None, parts))


def _heading(place: TreeNode, primary: AgentId | None) -> Line:
    """Return an agent's sign and name, as far in as it stands in the tree."""
    state = place.state
    sign = "▲" if place.is_hook else "●" if state.id == primary else "└"
    name = shorten(clean(state.name or state.id), LONGEST_NAME)
    style = "magenta" if place.is_hook else "bold" if state.id == primary else ""
    return [("dim", f"{'  ' * min(place.depth, MOST_DEPTH)}{sign} "), (style, name)]


def _width(line: Line) -> int:
    return sum(cells(text) for _, text in line)


def _fitted(line: Line, column: int) -> Line:
    """Return a line of exactly so many cells."""
    line = truncate_line(line, column)
    return [*line, ("", " " * (column - _width(line)))]
