"""`compare`: where two runs part, and how what they came to differs; also several against several.

Messages are the same where a model could not tell them apart. A rerun is compared with what it
comes from, from the call on at which it left it.
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
from harken.views.message_text import heading, written

METRICS = (
    *("model_calls", "turns", "input_tokens", "output_tokens", "cost_usd"),
    *("model_s", "wall_s", "tool_calls", "tool_errors", "model_errors"),
)
"""What is compared of several runs, a number for each."""


class ComparedMessage(SparseRecord, frozen=True, kw_only=True):
    """A message, as it is shown."""

    heading: str
    text: str


class Divergence(SparseRecord, frozen=True, kw_only=True):
    """Where two stories of an agent part."""

    agent: str
    position: int
    """So many messages are the same; the next one is not."""
    before: ComparedMessage | None = None
    """The next message of the first run; None: it ends there."""
    after: ComparedMessage | None = None
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """How one text becomes the other, where both have the same heading."""
    answer: int | None = None
    """Which answer after that is the first that differs, from 1; None: they answer the same."""
    answer_before: str | None = None
    answer_after: str | None = None


class RunComparison(SparseRecord, frozen=True, kw_only=True):
    """Two runs beside each other."""

    before: str
    """The session of the first."""
    after: str
    partings: list[Divergence]
    """Of agents that are in both, in the order of the first; none where nothing differs."""
    only_before: list[str] = msgspec.field(default_factory=list)
    """Agents that are not in the other."""
    only_after: list[str] = msgspec.field(default_factory=list)
    outcome_before: RunMetrics
    outcome_after: RunMetrics

    @property
    def same(self) -> bool:
        """Whether all agents read and said the same."""
        return not (self.partings or self.only_before or self.only_after)


class MetricSpread(SparseRecord, frozen=True, kw_only=True):
    """A figure over several runs; of those that say it."""

    median: float
    least: float
    most: float


class Metric(SparseRecord, frozen=True, kw_only=True):
    """A figure of both sides; None: no run says it."""

    name: str
    before: MetricSpread | None = None
    after: MetricSpread | None = None


class DivergencePoint(SparseRecord, frozen=True, kw_only=True):
    """How many pairs of runs part first at one place."""

    agent: str
    position: int
    pairs: int


class FinalAnswer(SparseRecord, frozen=True, kw_only=True):
    """An answer in which runs ended; None: they gave none."""

    text: str | None
    before: int
    """How many runs of the first side ended in it."""
    after: int


class GroupComparison(SparseRecord, frozen=True, kw_only=True):
    """Several runs against several."""

    before: list[str]
    after: list[str]
    metrics: list[Metric]
    answers: list[FinalAnswer]
    """The most frequent first."""
    places: list[DivergencePoint]
    """Where pairs of one run of each side part, the most frequent first."""
    same: int
    """How many pairs do not part, though one may end sooner."""
    pairs: int


def compare(before: ComparedRun, after: ComparedRun) -> RunComparison:
    """Compare two runs. Raises HarkenError where a log lacks some of what was read."""
    before, after = before.beside([after]), after.beside([before])
    one, two = before.stories, after.stories
    return RunComparison(
        before=before.name,
        after=after.name,
        partings=[
            _parting(name, at, one[name], two[name])
            for name, at in _partings(before, after).items()
            if at is not None
        ],
        only_before=[name for name in one if name not in two],
        only_after=[name for name in two if name not in one],
        outcome_before=before.outcome,
        outcome_after=after.outcome,
    )


def compare_groups(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> GroupComparison:
    """Compare several runs with several, each with each. Raises as `compare`."""
    left = [one.beside(after) for one in before]
    right = [one.beside(before) for one in after]
    first = [first_parting(one, two) for one in left for two in right]
    places = Counter(place for place in first if place is not None)
    sides = [Counter(run.outcome.answer for run in side) for side in (left, right)]
    return GroupComparison(
        before=[one.name for one in left],
        after=[one.name for one in right],
        metrics=[
            Metric(name=name, before=_spread(left, name), after=_spread(right, name))
            for name in METRICS
        ],
        answers=[
            FinalAnswer(text=text, before=sides[0][text], after=sides[1][text])
            for text, _ in (sides[0] + sides[1]).most_common()
        ],
        places=[
            DivergencePoint(agent=agent, position=at, pairs=n)
            for (agent, at), n in places.most_common()
        ],
        same=first.count(None),
        pairs=len(first),
    )


def figures(outcome: RunMetrics) -> dict[str, float | int | None]:
    """Return the numbers of an outcome by the names in `METRICS`."""
    plain = msgspec.structs.asdict(outcome)
    plain["tool_calls"] = sum(outcome.tools.values())
    return {name: plain[name] for name in METRICS}


def first_parting(before: ComparedRun, after: ComparedRun) -> tuple[str, int] | None:
    """Return the first agent whose stories part, and after how many messages; None: none does.

    A run that ends sooner, and was the same up to there, does not part here: nobody asked it to go
    on. Both are taken as they are; see `Run.beside`. Raises as `compare`.
    """
    for name, at in _partings(before, after).items():
        if at is not None and at < min(len(before.keys[name]), len(after.keys[name])):
            return name, at
    return None


def _partings(before: ComparedRun, after: ComparedRun) -> dict[str, int | None]:
    """Return for each agent of both how many messages are the same; None: all are."""
    one, two = before.keys, after.keys
    return {name: _same(keys, two[name]) for name, keys in one.items() if name in two}


def _same(one: Sequence[str], two: Sequence[str]) -> int | None:
    shorter = min(len(one), len(two))
    differs = (at for at in range(shorter) if one[at] != two[at])
    return next(differs, None if len(one) == len(two) else shorter)


def _parting(
    agent: str, at: int, one: Sequence[ChatMessage], two: Sequence[ChatMessage]
) -> Divergence:
    before, after = _said(one, at), _said(two, at)
    alike = before is not None and after is not None and before.heading == after.heading
    answers = [[written(m) for m in story[at:] if m.role == "assistant"] for story in (one, two)]
    other = _same(*answers)
    said = [side[other] if other is not None and other < len(side) else None for side in answers]
    return Divergence(
        agent=agent,
        position=at,
        before=before,
        after=after,
        spans=spans(before.text, after.text) if alike and before and after else [],
        answer=None if other is None else other + 1,
        answer_before=said[0],
        answer_after=said[1],
    )


def _said(story: Sequence[ChatMessage], at: int) -> ComparedMessage | None:
    if at >= len(story):
        return None
    return ComparedMessage(heading=heading(story[at]), text=written(story[at]))


def _spread(runs: Sequence[ComparedRun], name: str) -> MetricSpread | None:
    values = [value for run in runs if (value := figures(run.outcome)[name]) is not None]
    if not values:
        return None
    return MetricSpread(median=median(values), least=min(values), most=max(values))
