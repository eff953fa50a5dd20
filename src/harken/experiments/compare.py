"""Compare two runs, or two groups of runs: their first divergence and their metrics.

Messages are equal if a model cannot distinguish them. A rerun is compared with its original from
the model call at which it was forked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

import msgspec

from harken.core.messages import ChatMessage
from harken.core.record import SparseRecord
from harken.experiments.outcome import ComparedRun, RunMetrics
from harken.views.message_diff import TextSpan, spans
from harken.views.message_text import format_message, heading

METRICS = (
    *("model_calls", "turns", "input_tokens", "output_tokens", "cost_usd"),
    *("model_s", "wall_s", "tool_calls", "tool_errors", "model_errors"),
)
"""Names of the compared metrics."""


class ComparedMessage(SparseRecord, frozen=True, kw_only=True):
    """A message in a comparison."""

    heading: str
    text: str


class Divergence(SparseRecord, frozen=True, kw_only=True):
    """The first difference between two transcripts of an agent."""

    agent: str
    position: int
    """Number of common leading messages."""
    before: ComparedMessage | None = None
    """The next message of the first run, or None if its transcript ends there."""
    after: ComparedMessage | None = None
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """Diff of the two texts, if both messages have the same heading."""
    answer: int | None = None
    """Number of the first different answer after that, from 1; None if all answers are equal."""
    answer_before: str | None = None
    answer_after: str | None = None


class RunComparison(SparseRecord, frozen=True, kw_only=True):
    """A comparison of two runs."""

    before: str
    """Session of the first run."""
    after: str
    partings: list[Divergence]
    """Divergences of agents in both runs, in the order of the first run."""
    only_before: list[str] = msgspec.field(default_factory=list)
    """Agents that are only in the first run."""
    only_after: list[str] = msgspec.field(default_factory=list)
    outcome_before: RunMetrics
    outcome_after: RunMetrics

    @property
    def same(self) -> bool:
        """Whether all agents have equal transcripts."""
        return not (self.partings or self.only_before or self.only_after)


class MetricSpread(SparseRecord, frozen=True, kw_only=True):
    """A metric over the runs that report it."""

    median: float
    min: float
    max: float


class Metric(SparseRecord, frozen=True, kw_only=True):
    """A metric of both groups. A side is None if no run reports it."""

    name: str
    before: MetricSpread | None = None
    after: MetricSpread | None = None


class DivergencePoint(SparseRecord, frozen=True, kw_only=True):
    """Number of pairs of runs that diverge first at this point."""

    agent: str
    position: int
    pairs: int


class FinalAnswer(SparseRecord, frozen=True, kw_only=True):
    """A final answer of runs. The text is None for runs without one."""

    text: str | None
    before: int
    """Number of runs of the first group that ended with it."""
    after: int


class GroupComparison(SparseRecord, frozen=True, kw_only=True):
    """A comparison of two groups of runs."""

    before: list[str]
    after: list[str]
    metrics: list[Metric]
    answers: list[FinalAnswer]
    """The most frequent answer comes first."""
    places: list[DivergencePoint]
    """Points where pairs of runs diverge, most frequent first."""
    same: int
    """Number of pairs without a divergence, although one run may end earlier."""
    pairs: int


def compare(before: ComparedRun, after: ComparedRun) -> RunComparison:
    """Compare two runs. Raises HarkenError if a log lacks part of a context."""
    before, after = before.from_fork([after]), after.from_fork([before])
    left, right = before.transcripts, after.transcripts
    return RunComparison(
        before=before.name,
        after=after.name,
        partings=[
            _build_divergence(name, position, left[name], right[name])
            for name, position in _find_divergences(before, after).items()
            if position is not None
        ],
        only_before=[name for name in left if name not in right],
        only_after=[name for name in right if name not in left],
        outcome_before=before.outcome,
        outcome_after=after.outcome,
    )


def compare_groups(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> GroupComparison:
    """Compare two groups of runs, each run with each of the other group. Raises as `compare`."""
    left = [left_run.from_fork(after) for left_run in before]
    right = [left_run.from_fork(before) for left_run in after]
    divergences = [
        first_divergence(left_run, right_run) for left_run in left for right_run in right
    ]
    places = Counter(place for place in divergences if place is not None)
    sides = [Counter(run.outcome.answer for run in side) for side in (left, right)]
    return GroupComparison(
        before=[left_run.name for left_run in left],
        after=[left_run.name for left_run in right],
        metrics=[
            Metric(
                name=name, before=_compute_spread(left, name), after=_compute_spread(right, name)
            )
            for name in METRICS
        ],
        answers=[
            FinalAnswer(text=text, before=sides[0][text], after=sides[1][text])
            for text, _ in (sides[0] + sides[1]).most_common()
        ],
        places=[
            DivergencePoint(agent=agent, position=position, pairs=count)
            for (agent, position), count in places.most_common()
        ],
        same=divergences.count(None),
        pairs=len(divergences),
    )


def metric_values(outcome: RunMetrics) -> dict[str, float | int | None]:
    """Return the metrics of a run by the names in `METRICS`."""
    values = msgspec.structs.asdict(outcome)
    values["tool_calls"] = sum(outcome.tools.values())
    return {name: values[name] for name in METRICS}


def first_divergence(before: ComparedRun, after: ComparedRun) -> tuple[str, int] | None:
    """Return the first agent that diverges, and its number of common messages, or None.

    A run that ends earlier, but is equal up to there, does not diverge. Both runs are compared from
    their start; see `ComparedRun.beside`. Raises as `compare`.
    """
    for name, position in _find_divergences(before, after).items():
        if position is not None and position < min(len(before.keys[name]), len(after.keys[name])):
            return name, position
    return None


def _find_divergences(before: ComparedRun, after: ComparedRun) -> dict[str, int | None]:
    """Return the number of common messages of each agent in both runs, or None for all messages."""
    left, right = before.keys, after.keys
    return {name: common_length(keys, right[name]) for name, keys in left.items() if name in right}


def common_length(left: Sequence[str], right: Sequence[str]) -> int | None:
    """Return the number of equal leading items of two lists, or None if the lists are equal."""
    shorter = min(len(left), len(right))
    differs = (index for index in range(shorter) if left[index] != right[index])
    return next(differs, None if len(left) == len(right) else shorter)


def _build_divergence(
    agent: str, position: int, left: Sequence[ChatMessage], right: Sequence[ChatMessage]
) -> Divergence:
    before, after = _message_at(left, position), _message_at(right, position)
    has_same_heading = before is not None and after is not None and before.heading == after.heading
    answers = [
        [format_message(message) for message in messages[position:] if message.role == "assistant"]
        for messages in (left, right)
    ]
    index = common_length(*answers)
    differing = [
        side[index] if index is not None and index < len(side) else None for side in answers
    ]
    return Divergence(
        agent=agent,
        position=position,
        before=before,
        after=after,
        spans=spans(before.text, after.text) if has_same_heading and before and after else [],
        answer=None if index is None else index + 1,
        answer_before=differing[0],
        answer_after=differing[1],
    )


def _message_at(messages: Sequence[ChatMessage], position: int) -> ComparedMessage | None:
    if position >= len(messages):
        return None
    return ComparedMessage(
        heading=heading(messages[position]), text=format_message(messages[position])
    )


def _compute_spread(runs: Sequence[ComparedRun], name: str) -> MetricSpread | None:
    values = [value for run in runs if (value := metric_values(run.outcome)[name]) is not None]
    if not values:
        return None
    return MetricSpread(median=median(values), min=min(values), max=max(values))
