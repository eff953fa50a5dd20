"""Rounds: the steps of a tree of entries, as several runtimes keep their conversations.

One idea: a step is a round: what was put to the model, its answer, and the results of its calls.
So it ends where the next one begins, where the tree goes on elsewhere, and at a compaction; and
what a file says later never changes a step that has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harken.core.commits import Checkpoint, CommitType
from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import title_of
from harken.formats.runtimes.base import ImportStep, ReadReport

PROMPT, SYSTEM = "prompt", "system"
"""The `kind` in the source of a user message: a person said it, or the runtime in their name."""
INSTRUCTIONS = "instructions"
"""That of a message of the system in which a runtime tells its model what it is."""

_KINDS: Mapping[str, tuple[CommitType, Checkpoint]] = {
    "delta": ("delta", "import"),
    "compaction": ("compaction", "compaction"),
    "spawn": ("snapshot", "spawn"),
}


@dataclass(slots=True)
class StepBuilder:
    """Makes steps of nodes, which come in an order in which parents stand before their children."""

    reading: ReadReport
    branching: Collection[str] = ()
    """Nodes that go on elsewhere than in the next one."""
    agent: str = ""
    origin: str | None = None
    """The step that spawned the agent: what it then reads, it reads from its first step on."""
    names: set[str] = field(default_factory=set)
    """Of all steps of a file, whoever's they are."""
    head: str | None = None
    """The last node."""
    _places: dict[str, str | None] = field(default_factory=dict)
    """Node -> the step that it is in, or that is before it: the last node, and those that the tree
    goes back to. A long conversation has many others."""
    _id: str = ""
    _parent: str | None = None
    _entries: list[ConversationEntry] = field(default_factory=list)
    _ends: dict[str, None] = field(default_factory=dict)
    """Steps that nothing goes on from, in their order."""

    def add(
        self, node: str, parent: str | None, entries: Sequence[ConversationEntry] = ()
    ) -> Iterator[ImportStep]:
        """Add a node, with or without anything that the model reads; an unknown parent is none."""
        yield from self._go_to(parent)
        for entry in entries:
            if self._entries and self._is_next_round(entry):
                yield from self._seal()
            self._open(node)
            self._entries.append(entry)
            self._look_at(entry)
        yield from self._leave(node)

    def compact(
        self, node: str, parent: str | None, summary: str, entries: Sequence[ConversationEntry]
    ) -> Iterator[ImportStep]:
        """Add a node that replaces all before it by entries."""
        yield from self._go_to(parent)
        yield from self._seal()
        self._open(node)
        self._entries = list(entries)
        yield from self._seal(summary)
        yield from self._leave(node)

    def pause(self) -> Iterator[ImportStep]:
        """End the step here: another conversation goes on from it."""
        yield from self._seal()

    @property
    def step(self) -> str | None:
        """The last step that has ended, where nothing came since."""
        return self._parent

    @property
    def current(self) -> str | None:
        """The step that the last node is in, or that is before it."""
        return self._places.get(self.head) if self.head is not None else None

    def end(self) -> Iterator[ImportStep]:
        """End the last step; say where the conversation is, and where it once was."""
        yield from self._seal()
        tip = self.current
        if tip is not None:
            self.reading.tips[self.agent] = tip
        self.reading.branches += [(self.agent, step) for step in self._ends if step != tip]

    def _go_to(self, parent: str | None) -> Iterator[ImportStep]:
        if parent != self.head:
            yield from self._seal()
            self._parent = self._places.get(parent) if parent is not None else None

    def _leave(self, node: str) -> Iterator[ImportStep]:
        if self.head is not None and self.head not in self.branching:
            self._places.pop(self.head, None)
        self._places[node] = self._id if self._entries else self._parent
        self.head = node
        if node in self.branching:
            yield from self._seal()

    def _is_next_round(self, entry: ConversationEntry) -> bool:
        answered = any(one.message.role == "assistant" for one in self._entries)
        return answered and entry.message.role != "tool"

    def _open(self, node: str) -> None:
        if self._entries:
            return
        self._id, count = node, 1
        while self._id in self.names:
            count += 1
            self._id = f"{node} ({count})"
        self.names.add(self._id)

    def _seal(self, summary: str | None = None) -> Iterator[ImportStep]:
        """End the step, if there is anything in it; with a summary, it is a compaction."""
        if not self._entries:
            return
        kind, trigger = _KINDS["delta" if summary is None else "compaction"]
        if summary is None and self._parent is None and self.origin is not None:
            kind, trigger = _KINDS["spawn"]
        yield ImportStep(
            id=self._id,
            parent=self.origin if self._parent is None else self._parent,
            agent=self.agent,
            type=kind,
            trigger=trigger,
            entries=self._entries,
            summary=summary or "",
        )
        self._ends.pop(self._parent or "", None)
        self._ends[self._id] = None
        self._parent, self._entries = self._id, []

    def _look_at(self, entry: ConversationEntry) -> None:
        self.reading.title = self.reading.title or title_in([entry])


def title_in(entries: Sequence[ConversationEntry]) -> str:
    """Return the beginning of the first prompt of a person; empty: there is none."""
    for entry in entries:
        if (entry.source or {}).get("kind") == PROMPT:
            title = title_of(text_of(entry.message.content))
            if title:
                return title
    return ""
