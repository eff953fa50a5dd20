"""Tools: which were called how often, by which kind of agent, and how that went.

Amplification: how much an agent does for each thing that a person says to it.

Source: the specification of contexts, "Analytics Derivability".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from harken.analytics.number_text import ratio
from harken.analytics.quarter_hours import QuarterHour
from harken.analytics.scope import Scope
from harken.analytics.times import seconds
from harken.core.record import Record


class Amplification(Record, frozen=True, kw_only=True):
    """Sums, and what comes of one prompt; None where there was none."""

    prompts: int
    """What persons said."""
    responses: int
    """Answers of models, subagents' too."""
    tool_calls: int
    input_characters: int
    """Of prompts."""
    output_characters: int
    """Of answers; thoughts and the arguments of calls aside."""
    responses_per_prompt: float | None
    tool_calls_per_prompt: float | None
    output_per_input: float | None
    """Characters for a character."""


def amplification(spells: Iterable[QuarterHour], tool_calls: int) -> Amplification:
    """Return the ratios of what was said and called."""
    prompts = responses = heard = said = 0
    for spell in spells:
        prompts += spell.prompts
        responses += spell.responses
        heard += spell.input_characters
        said += spell.output_characters
    return Amplification(
        prompts=prompts,
        responses=responses,
        tool_calls=tool_calls,
        input_characters=heard,
        output_characters=said,
        responses_per_prompt=ratio(responses, prompts),
        tool_calls_per_prompt=ratio(tool_calls, prompts),
        output_per_input=ratio(said, heard),
    )


# Agents are far fewer than calls: the calls are counted before anybody looks whose they are. Times
# that a file claims may be so far apart that whole numbers of 64 bits cannot hold the sum.
_QUERY = """
    SELECT coalesce(agents.template, ''), agents.parent_id IS NOT NULL, called.name,
        sum(calls), sum(errors), sum(unanswered), sum(untold),
        sum(duration)
    FROM (
        SELECT agent_id, name, count(*) AS calls, coalesce(sum(is_error), 0) AS errors,
            sum(result_id IS NULL) AS unanswered,
            sum(result_id IS NOT NULL AND is_error IS NULL) AS untold,
            sum(duration * 1.0) AS duration
        FROM tool_calls WHERE {scope} GROUP BY 1, 2
    ) AS called LEFT JOIN agents ON agents.id = called.agent_id
    GROUP BY 1, 2, 3
"""


class ToolStats(Record, frozen=True, kw_only=True):
    """How often a tool was called."""

    name: str
    calls: int
    errors: int
    """Calls that failed, as far as results tell."""
    unanswered: int
    """Calls without a result."""
    untold: int
    """Calls with a result that does not tell whether they failed."""
    duration_s: float | None
    """From all calls to their results together; None: no time is known of any."""


class TemplateTools(Record, frozen=True, kw_only=True):
    """Which tools agents of one kind called."""

    template: str
    """What kind of agent; "" where that is not known."""
    is_subagent: bool
    """Whether others made them."""
    calls: int
    tools: list[ToolStats]
    """The most called first."""


class Tools(Record, frozen=True, kw_only=True):
    """Which tools were called; the most called first."""

    calls: int
    tools: list[ToolStats]
    templates: list[TemplateTools]


class _Called(NamedTuple):
    """Sums over the calls of one tool by one kind of agent."""

    template: str
    is_subagent: bool
    name: str
    calls: int
    errors: int
    unanswered: int
    untold: int
    duration_us: float | None


def tools(database: apsw.Connection, scope: Scope) -> Tools:
    """Return how often each tool was called, by all and by each kind of agent."""
    called = [_Called(*row) for row in scope.rows(database, _QUERY, "tool_calls")]
    by_template = defaultdict(list)
    for one in called:
        by_template[one.template, bool(one.is_subagent)].append(one)
    templates = [
        TemplateTools(template=name, is_subagent=is_made, calls=_calls(rows), tools=_by_name(rows))
        for (name, is_made), rows in by_template.items()
    ]
    return Tools(
        calls=_calls(called),
        tools=_by_name(called),
        templates=sorted(templates, key=lambda one: (-one.calls, one.template, one.is_subagent)),
    )


def _by_name(called: Iterable[_Called]) -> list[ToolStats]:
    by_name = defaultdict(list)
    for one in called:
        by_name[one.name].append(one)
    found = [_tool(name, rows) for name, rows in by_name.items()]
    return sorted(found, key=lambda one: (-one.calls, one.name))


def _tool(name: str, rows: Sequence[_Called]) -> ToolStats:
    known = [row.duration_us for row in rows if row.duration_us is not None]
    return ToolStats(
        name=name,
        calls=_calls(rows),
        errors=sum(row.errors for row in rows),
        unanswered=sum(row.unanswered for row in rows),
        untold=sum(row.untold for row in rows),
        duration_s=seconds(sum(known)) if known else None,
    )


def _calls(rows: Iterable[_Called]) -> int:
    return sum(row.calls for row in rows)
