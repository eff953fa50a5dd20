"""Lifecycles: how each session went, from its first message to its last, and how it ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import apsw

from harken.analytics.moment import moment, seconds
from harken.analytics.scope import Scope
from harken.analytics.spell import Spell
from harken.analytics.usage import Sums
from harken.core.record import Record

_SESSIONS = """
    SELECT id, name, title, project, runtime, began, ended, outcome FROM sessions
    WHERE {scope} ORDER BY ended DESC, id DESC
"""
_COMPACTIONS = """
    SELECT session_id, count(*) FROM commits WHERE type = 'compaction' AND {scope} GROUP BY 1
"""
_CALLS = "SELECT session_id, count(*) FROM tool_calls WHERE {scope} GROUP BY 1"


class Lifecycle(Record, frozen=True, kw_only=True):
    """One session. Times, duration and outcome are of all of it, the rest is of the scope."""

    session: str
    """Its name: `claude:0f1e...`, or the id of a session of Harken."""
    title: str
    project: str
    runtime: str
    began: datetime | None
    ended: datetime | None
    duration_s: float | None
    """From its first message to its last."""
    outcome: str | None
    """As the runtime says: `success`, `error_max_turns`, ...; None: it says nothing."""
    compactions: int
    prompts: int
    responses: int
    tool_calls: int
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int


class Outcome(Record, frozen=True, kw_only=True):
    """The sessions that ended in one way."""

    outcome: str | None
    sessions: int
    median_duration_s: float | None
    compactions: int


@dataclass(frozen=True, slots=True)
class Done:
    """What was done in the sessions of a scope, by their ids in the facts."""

    spells: Sequence[Spell]
    usage: Mapping[int, Sums]


def lifecycles(database: apsw.Connection, scope: Scope, done: Done) -> list[Lifecycle]:
    """Return the sessions, the last written first. With a span of time: those that said something.

    `done`: what was done in the same scope.
    """
    prompts, responses = Counter[int](), Counter[int]()
    for spell in done.spells:
        prompts[spell.session_id] += spell.prompts
        responses[spell.session_id] += spell.responses
    compactions = dict(scope.rows(database, _COMPACTIONS, "commits"))
    calls = dict(scope.rows(database, _CALLS, "tool_calls"))
    found = []
    for id_, *known in scope.rows(database, _SESSIONS, "sessions"):
        if scope.is_span and scope.session_id is None and id_ not in prompts:
            continue
        name, title, project, runtime, began, ended, outcome = known
        used = done.usage.get(id_, Sums()).members()
        found.append(
            Lifecycle(
                session=name,
                title=title,
                project=project,
                runtime=runtime,
                began=moment(began),
                ended=moment(ended),
                duration_s=None if began is None or ended is None else seconds(ended - began),
                outcome=outcome,
                compactions=compactions.get(id_, 0),
                prompts=prompts[id_],
                responses=responses[id_],
                tool_calls=calls.get(id_, 0),
                output_tokens=used["output_tokens"],
                cost_usd=used["cost_usd"],
                unpriced=used["unpriced"],
            )
        )
    return found


def outcomes(sessions: Iterable[Lifecycle]) -> list[Outcome]:
    """Return in which ways sessions ended, the most frequent first."""
    of_outcome: dict[str | None, list[Lifecycle]] = defaultdict(list)
    for session in sessions:
        of_outcome[session.outcome].append(session)
    found = [_outcome(outcome, ended) for outcome, ended in of_outcome.items()]
    return sorted(found, key=lambda one: (-one.sessions, one.outcome or ""))


def _outcome(outcome: str | None, ended: Sequence[Lifecycle]) -> Outcome:
    durations = [one.duration_s for one in ended if one.duration_s is not None]
    return Outcome(
        outcome=outcome,
        sessions=len(ended),
        median_duration_s=median(durations) if durations else None,
        compactions=sum(one.compactions for one in ended),
    )
