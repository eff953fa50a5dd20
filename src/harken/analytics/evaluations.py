"""Statistics of evaluations: scores by scorer, and labels by agent.

A score counts with its number; the numbers of different scorers are never mixed. A label counts for
the agent that it names.
"""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from harken.analytics.scope import Scope
from harken.core.record import Record

_BY_SCORER_SQL = """
    SELECT runtime, scorer, count(*), count(DISTINCT scores.session_id), count(number), avg(number),
    min(number), max(number)
    FROM scores JOIN sessions ON sessions.id = scores.session_id WHERE {scope}
    GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
"""
_BY_LABEL_SQL = """
    SELECT runtime, labels.name, labels.agent, count(*), count(DISTINCT labels.session_id)
    FROM labels JOIN sessions ON sessions.id = labels.session_id WHERE {scope}
    GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3
"""
_SCORES_SQL = """
    SELECT scorer, value, number, sample, answer, explanation, metadata FROM scores
    WHERE session_id IN (SELECT id FROM sessions WHERE {scope}) ORDER BY id
"""
_LABELS_SQL = """
    SELECT name, value, agent, explanation, message_id FROM labels
    WHERE session_id IN (SELECT id FROM sessions WHERE {scope}) ORDER BY id
"""


class ScorerStats(Record, frozen=True, kw_only=True):
    """The scores of one scorer in the sessions of a runtime."""

    runtime: str
    scorer: str
    scores: int
    sessions: int
    numbers: int
    """The number of scores with a number, over which the others are computed."""
    mean: float | None
    minimum: float | None
    maximum: float | None


class LabelStats(Record, frozen=True, kw_only=True):
    """The labels with one name that name one agent."""

    runtime: str
    label: str
    agent: str
    """Empty if they name none."""
    labels: int
    sessions: int


class SessionScore(Record, frozen=True, kw_only=True):
    """A score of a session."""

    scorer: str
    value: Any
    number: float | None
    sample: str
    answer: str
    explanation: str
    metadata: Any


class SessionLabel(Record, frozen=True, kw_only=True):
    """A label of a session."""

    label: str
    value: str
    agent: str
    explanation: str
    message_id: int | None
    """The row of the message in the index."""


def scorer_stats(database: apsw.Connection, scope: Scope) -> list[ScorerStats]:
    """Return the scores by scorer, the most frequent first."""
    names = ScorerStats.__struct_fields__
    rows = scope.rows(database, _BY_SCORER_SQL, "sessions")
    return [ScorerStats(**dict(zip(names, row, strict=True))) for row in rows]


def label_stats(database: apsw.Connection, scope: Scope) -> list[LabelStats]:
    """Return the labels by name and agent, the most frequent first."""
    names = LabelStats.__struct_fields__
    rows = scope.rows(database, _BY_LABEL_SQL, "sessions")
    return [LabelStats(**dict(zip(names, row, strict=True))) for row in rows]


def session_scores(database: apsw.Connection, scope: Scope) -> list[SessionScore]:
    """Return the scores of the session of a scope."""
    return [
        SessionScore(
            scorer=scorer,
            value=_parse(value),
            number=number,
            sample=sample,
            answer=answer,
            explanation=explanation,
            metadata=_parse(metadata),
        )
        for scorer, value, number, sample, answer, explanation, metadata in scope.rows(
            database, _SCORES_SQL, "sessions"
        )
    ]


def session_labels(database: apsw.Connection, scope: Scope) -> list[SessionLabel]:
    """Return the labels of the session of a scope."""
    names = SessionLabel.__struct_fields__
    rows = scope.rows(database, _LABELS_SQL, "sessions")
    return [SessionLabel(**dict(zip(names, row, strict=True))) for row in rows]


def _parse(text: str) -> Any:
    """Return the value of a text that is JSON, and another text as it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
