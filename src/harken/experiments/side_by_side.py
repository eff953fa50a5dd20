"""Several runs side by side: the transcripts of their agents, aligned by position.

All runs begin where the first of them was forked from another, as in `compare`. Messages before
that are the `earlier` ones, which an agent did not read again: they are equal in all runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage
from harken.core.record import Record
from harken.errors import NameNotFound
from harken.experiments.compare import RunComparison, common_length, compare
from harken.experiments.outcome import ComparedRun, RunMetrics
from harken.views.message_diff import TextSpan, spans
from harken.views.message_text import format_message, heading


class RunCell(Record, frozen=True, kw_only=True):
    """A message of a run in a row."""

    heading: str
    text: str
    message_id: MessageId | None
    """None if it is known from the context of a model call only."""
    is_same: bool
    """Whether the first run has an equal message in this row."""
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """At the first difference from the first run: that of the texts, if the headings are equal."""


class AlignedRow(Record, frozen=True, kw_only=True):
    """The messages of all runs at one position."""

    position: int | None
    """The position in the compared transcripts, from 0. None for an earlier message."""
    is_same: bool
    """Whether it is equal in all runs: then there is only the cell of the first one."""
    cells: list[RunCell | None]
    """None for a run that has ended."""


class RunAgent(Record, frozen=True, kw_only=True):
    """An agent of a run."""

    name: str
    agent_id: AgentId
    messages: int


class AlignedAgents:
    """The transcripts of one agent of each run."""

    def __init__(
        self,
        earlier: Sequence[ChatMessage],
        transcripts: Sequence[Sequence[ChatMessage]],
        keys: Sequence[Sequence[str]],
    ) -> None:
        """`keys`: the hashes of the messages of each transcript."""
        self._earlier, self._transcripts, self._keys = earlier, transcripts, keys
        self.earlier = len(earlier)
        self.positions = [common_length(keys[0], other) for other in keys[1:]]
        """The number of messages that each other run has in common with the first one.

        It is None if all are equal.
        """
        differing = [position for position in self.positions if position is not None]
        self.position = min(differing, default=None)

    def __len__(self) -> int:
        return self.earlier + max(map(len, self._transcripts))

    def build_row(self, index: int) -> AlignedRow:
        """Return a row by its index; earlier messages come first."""
        position = index - self.earlier
        if position < 0:
            cell = _build_cell(self._earlier[index])
            return AlignedRow(position=None, is_same=True, cells=[cell])
        if self.position is None or position < self.position:
            cell = _build_cell(self._transcripts[0][position])
            return AlignedRow(position=position, is_same=True, cells=[cell])
        runs = range(len(self._transcripts))
        cells = [self._build_differing_cell(run, position) for run in runs]
        return AlignedRow(position=position, is_same=False, cells=cells)

    def read_text(self, index: int, run: int) -> str:
        """Return the text of a message by its row and run. Raises NameNotFound."""
        position = index - self.earlier
        if position < 0:
            return format_message(self._earlier[index])
        if run >= len(self._transcripts) or position >= len(self._transcripts[run]):
            raise NameNotFound("message", f"row {index} of run {run}", [])
        return format_message(self._transcripts[run][position])

    def _build_differing_cell(self, run: int, position: int) -> RunCell | None:
        transcript = self._transcripts[run]
        if position >= len(transcript):
            return None
        is_in_first = position < len(self._keys[0])
        is_same = is_in_first and self._keys[run][position] == self._keys[0][position]
        text_spans: list[TextSpan] = []
        if run and is_in_first and self.positions[run - 1] == position:
            first = self._transcripts[0][position]
            if heading(first) == heading(transcript[position]):
                text_spans = spans(format_message(first), format_message(transcript[position]))
        return _build_cell(transcript[position], is_same=is_same, text_spans=text_spans)


class SideBySide:
    """Two or more runs, each compared with the first one."""

    def __init__(self, runs: Sequence[ComparedRun]) -> None:
        self._whole_runs = runs
        self._runs = cut_at_fork(runs)

    @cached_property
    def pairs(self) -> list[RunComparison]:
        """The comparison of the first run with each other one. Raises as `compare`."""
        first, *others = self._whole_runs
        return [compare(first, other) for other in others]

    @property
    def outcomes(self) -> list[RunMetrics]:
        """The metrics of the runs since they were forked."""
        return [run.outcome for run in self._runs]

    def agents(self) -> list[list[RunAgent]]:
        """Return the agents of each run."""
        return [
            [
                RunAgent(name=name, agent_id=run.agent_ids[name], messages=len(messages))
                for name, messages in run.transcripts.items()
            ]
            for run in self._runs
        ]

    def align(self, names: Sequence[str]) -> AlignedAgents:
        """Align one agent of each run. Raises NameNotFound."""
        for name, run in zip(names, self._runs, strict=True):
            if name not in run.transcripts:
                raise NameNotFound("agent", name, run.transcripts)
        pairs = list(zip(names, self._runs, strict=True))
        transcripts = [run.transcripts[name] for name, run in pairs]
        return AlignedAgents(
            self._find_earlier(names), transcripts, [run.keys[name] for name, run in pairs]
        )

    def _find_earlier(self, names: Sequence[str]) -> Sequence[ChatMessage]:
        """Return the messages before the compared ones, if they are the same in all runs."""
        heads: list[Sequence[str]] = []
        for name, whole, run in zip(names, self._whole_runs, self._runs, strict=True):
            whole_keys, keys = whole.keys.get(name, []), run.keys[name]
            count = len(whole_keys) - len(keys)
            if count <= 0 or whole_keys[count:] != keys:
                return ()
            heads.append(whole_keys[:count])
        if any(head != heads[0] for head in heads):
            return ()
        return self._whole_runs[0].transcripts[names[0]][: len(heads[0])]


def cut_at_fork(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Return runs from the first point at which one of them and the first run parted.

    Two runs are cut as by `compare`. Runs that are not related are compared as a whole.
    """
    first, *others = runs
    if len(others) == 1:
        return [first.from_fork(others), others[0].from_fork([first])]
    starts = [first.from_fork([other]).since for other in others]
    if None in starts:
        return [*runs]
    positions = first.steps.links.positions
    start = min(filter(None, starts), key=lambda event: positions[event])
    return [run.from_event(start) for run in runs]


def _build_cell(
    message: ChatMessage, *, is_same: bool = True, text_spans: Sequence[TextSpan] = ()
) -> RunCell:
    return RunCell(
        heading=heading(message),
        text=format_message(message),
        message_id=message.message_id if isinstance(message, TranscriptEntry) else None,
        is_same=is_same,
        spans=[*text_spans],
    )
