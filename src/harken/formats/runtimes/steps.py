"""`StepBuilder`: groups the entries of a tree into steps, for several runtimes.

A step is a round: the input to the model, its answer, and the results of its calls. It ends where
the next round begins, where the tree branches, and at a compaction. A later line changes a step
that has ended only if it follows a node in the middle of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from harken.core.commits import Checkpoint, CommitType
from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import truncate_title
from harken.formats.runtimes.base import ImportStep, ReadReport
from harken.formats.runtimes.read_point import EarlierStepChanged
from harken.formats.runtimes.step_state import (
    MAX_ENDS,
    MAX_RECENT_NODES,
    BuilderState,
    SavedEntry,
    SavedNode,
)

PROMPT, SYSTEM = "prompt", "system"
"""The `kind` in the source of a user message of a person, or of the runtime in the user's name."""
NOTIFICATION = "notification"
"""The `kind` of a system message that the runtime received from another source than the user: a
background task, a schedule, another session. The user approved nothing in it."""
REPEATS = "repeats"
"""A member of the source of an entry in a group chat: true if it repeats a message of another agent
of the session, which is counted there; false if the agent spoke it."""
INSTRUCTIONS = "instructions"
"""The `kind` of a system message with a runtime's instructions for its model."""

_KINDS: Mapping[str, tuple[CommitType, Checkpoint]] = {
    "delta": ("delta", "import"),
    "compaction": ("compaction", "compaction"),
    "replacement": ("snapshot", "import"),
    "spawn": ("snapshot", "spawn"),
}


class StepNumbers(msgspec.Struct):
    """Names the steps of a file, of all agents, by their number.

    Ids in the file may repeat.
    """

    last: int = 0

    def next_name(self) -> str:
        """Return the name of the next step."""
        self.last += 1
        return str(self.last)


class StepBuilder(msgspec.Struct):
    """Creates steps of nodes. Parents must be added before their children."""

    reading: ReadReport
    branching: Collection[str] = ()
    """Nodes that are continued elsewhere than in the next node."""
    agent: str = ""
    origin: str | None = None
    """The step that spawned the agent. The agent's context begins with its first step."""
    numbers: StepNumbers = msgspec.field(default_factory=StepNumbers)
    """Shared by all agents of a file."""
    head: str | None = None
    """The last node."""
    _steps_by_node: dict[str, str | None] = msgspec.field(default_factory=dict)
    """The step of a node, or the step before it, for the last node and for those with branches.
    Other nodes are removed, because a long conversation has many."""
    _step_id: str = ""
    _parent: str | None = None
    _entries: list[ConversationEntry] = msgspec.field(default_factory=list)
    _end_steps: dict[str, None] = msgspec.field(default_factory=dict)
    """Steps without a following step, in order."""
    _recent_nodes: deque[SavedNode] = msgspec.field(
        default_factory=lambda: deque(maxlen=MAX_RECENT_NODES)
    )
    """The latest nodes, if a read point is needed."""
    _open_nodes: list[SavedNode] = msgspec.field(default_factory=list)
    """Those in the current step, after its last entry."""

    @classmethod
    def restore(
        cls,
        state: BuilderState,
        reading: ReadReport,
        numbers: StepNumbers,
        branching: Collection[str] = (),
    ) -> StepBuilder:
        """Return the builder at a read point.

        Raises EarlierStepChanged if a branch begins in the middle of an earlier step.
        """
        builder = cls(reading, branching, state.agent, state.origin, numbers, state.head)
        for node in state.nodes:
            if node.node in branching and not node.is_end:
                raise EarlierStepChanged
            builder._steps_by_node[node.node] = node.step
        if state.head is not None:
            builder._steps_by_node[state.head] = state.head_step
        builder._step_id, builder._parent = state.open_step, state.parent
        builder._entries = [entry.to_entry() for entry in state.entries]
        builder._end_steps = dict.fromkeys(state.end_steps)
        builder._recent_nodes.extend(state.nodes)
        return builder

    def save(self, *, is_tree: bool = True) -> BuilderState:
        """Return the state for a read point. Raises ValueError if an entry cannot be stored.

        is_tree: whether a later node may follow another one than the last.
        """
        return BuilderState(
            agent=self.agent,
            origin=self.origin,
            parent=self._parent,
            head=self.head,
            head_step=self.current,
            end_steps=[*self._end_steps],
            nodes=[*self._recent_nodes] if is_tree else [],
            open_step=self._step_id if self._entries else "",
            entries=[*map(SavedEntry.from_entry, self._entries)],
        )

    @property
    def end_count(self) -> int:
        """The number of steps without a following step."""
        return len(self._end_steps)

    def begins_step(self, parent: str | None, entries: Sequence[ConversationEntry]) -> bool:
        """Whether a node with these entries would begin a step."""
        if not entries:
            return False
        is_open = bool(self._entries) and parent == self.head
        return not is_open or self._is_next_round(entries[0])

    def add(
        self, node: str, parent: str | None, entries: Sequence[ConversationEntry] = ()
    ) -> Iterator[ImportStep]:
        """Add a node, with or without entries. An unknown parent counts as none."""
        yield from self._move_to(parent)
        for entry in entries:
            if self._entries and self._is_next_round(entry):
                yield from self._seal_step()
            self._open_step()
            self._entries.append(entry)
            for earlier in self._open_nodes:
                earlier.is_end = False
            self._open_nodes.clear()
            self._update_title(entry)
        yield from self._finish_node(node)

    def compact(
        self, node: str, parent: str | None, summary: str, entries: Sequence[ConversationEntry]
    ) -> Iterator[ImportStep]:
        """Add a node that replaces the previous context by entries, under a summary."""
        return self._replace_context(node, parent, entries, summary=summary)

    def replace(
        self, node: str, parent: str | None, entries: Sequence[ConversationEntry]
    ) -> Iterator[ImportStep]:
        """Add a node with another context than the previous one: entries that no summary begins."""
        return self._replace_context(node, parent, entries, kind="replacement")

    def _replace_context(
        self,
        node: str,
        parent: str | None,
        entries: Sequence[ConversationEntry],
        *,
        summary: str | None = None,
        kind: str = "delta",
    ) -> Iterator[ImportStep]:
        yield from self._move_to(parent)
        yield from self._seal_step()
        if entries:
            self._open_step()
        self._entries = list(entries)
        yield from self._seal_step(summary, kind)
        yield from self._finish_node(node)

    def pause(self) -> Iterator[ImportStep]:
        """End the current step, because another conversation continues from it."""
        yield from self._seal_step()

    @property
    def step(self) -> str | None:
        """The last step that has ended, if no entry was added since."""
        return self._parent

    @property
    def last_position(self) -> int:
        """The position of the last entry in the current step."""
        return max(len(self._entries) - 1, 0)

    @property
    def current(self) -> str | None:
        """The step of the last node, or the step before it."""
        return self._steps_by_node.get(self.head) if self.head is not None else None

    def end(self) -> Iterator[ImportStep]:
        """End the last step, and report the tip and the abandoned branches."""
        yield from self._seal_step()
        tip = self.current
        if tip is not None:
            self.reading.tips[self.agent] = tip
        self.reading.branches += [(self.agent, step) for step in self._end_steps if step != tip]

    def _move_to(self, parent: str | None) -> Iterator[ImportStep]:
        if parent != self.head:
            yield from self._seal_step()
            self._parent = self._steps_by_node.get(parent) if parent is not None else None

    def _finish_node(self, node: str) -> Iterator[ImportStep]:
        if self.head is not None and self.head not in self.branching:
            self._steps_by_node.pop(self.head, None)
        step = self._steps_by_node[node] = self._step_id if self._entries else self._parent
        self.head = node
        if self.reading.size_bytes is not None:
            self._recent_nodes.append(SavedNode(node, step))
            self._open_nodes += [self._recent_nodes[-1]] if self._entries else []
        if node in self.branching:
            yield from self._seal_step()

    def _is_next_round(self, entry: ConversationEntry) -> bool:
        has_answer = any(entry_.message.role == "assistant" for entry_ in self._entries)
        return has_answer and entry.message.role != "tool"

    def _open_step(self) -> None:
        if not self._entries:
            self._step_id = self.numbers.next_name()

    def _seal_step(self, summary: str | None = None, kind: str = "delta") -> Iterator[ImportStep]:
        """End the step, if it is not empty. With a summary, it is a compaction."""
        if not self._entries:
            return
        if summary is not None:
            kind = "compaction"
        elif self._parent is None and self.origin is not None:
            kind = "spawn"
        type_, trigger = _KINDS[kind]
        yield ImportStep(
            id=self._step_id,
            parent=self.origin if self._parent is None else self._parent,
            agent=self.agent,
            type=type_,
            trigger=trigger,
            entries=self._entries,
            summary=summary or "",
        )
        self._end_steps.pop(self._parent or "", None)
        self._end_steps[self._step_id] = None
        self._parent, self._entries = self._step_id, []
        self._open_nodes.clear()

    def _update_title(self, entry: ConversationEntry) -> None:
        self.reading.title = self.reading.title or find_title([entry])


def can_save(builders: Sequence[StepBuilder]) -> bool:
    """Whether the states of all agents are small enough for a read point, without open steps."""
    return len(builders) + sum(builder.end_count for builder in builders) <= MAX_ENDS


def find_title(entries: Sequence[ConversationEntry]) -> str:
    """Return the beginning of the first prompt of a person, or an empty string."""
    for entry in entries:
        if (entry.source or {}).get("kind") == PROMPT:
            title = truncate_title(text_of(entry.message.content))
            if title:
                return title
    return ""
