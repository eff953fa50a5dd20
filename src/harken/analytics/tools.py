"""Statistics of tool calls by tool and template, and of the work per prompt.

Amplification is the number of responses and tool calls per prompt of a user.

Source: the specification of contexts, "Analytics Derivability".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from harken.analytics.number_text import compute_ratio
from harken.analytics.quarter_hours import QuarterHour
from harken.analytics.scope import Scope
from harken.analytics.times import to_seconds
from harken.core.record import Record


class Amplification(Record, frozen=True, kw_only=True):
    """Sums, and ratios per prompt. A ratio is None without prompts."""

    prompts: int
    """Prompts of users."""
    responses: int
    """Responses of models, including those of subagents."""
    tool_calls: int
    input_characters: int
    """Characters of prompts."""
    output_characters: int
    """Characters of responses, without thoughts and arguments."""
    responses_per_prompt: float | None
    tool_calls_per_prompt: float | None
    output_per_input: float | None
    """Output characters per input character."""


def amplification(quarter_hours: Iterable[QuarterHour], tool_calls: int) -> Amplification:
    """Compute the ratios per prompt."""
    prompts = responses = input_chars = output_chars = 0
    for quarter_hour in quarter_hours:
        prompts += quarter_hour.prompts
        responses += quarter_hour.responses
        input_chars += quarter_hour.input_characters
        output_chars += quarter_hour.output_characters
    return Amplification(
        prompts=prompts,
        responses=responses,
        tool_calls=tool_calls,
        input_characters=input_chars,
        output_characters=output_chars,
        responses_per_prompt=compute_ratio(responses, prompts),
        tool_calls_per_prompt=compute_ratio(tool_calls, prompts),
        output_per_input=compute_ratio(output_chars, input_chars),
    )


# Calls are grouped by agent before the join, because there are far fewer agents than calls. Times
# in a file may differ so much that their sum exceeds 64 bits, so it is a float.
_CALLS_SQL = """
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
    """Statistics of a tool."""

    name: str
    calls: int
    errors: int
    """Failed calls, as far as results report failures."""
    unanswered: int
    """Calls without a result."""
    untold: int
    """Calls whose result does not report success or failure."""
    duration_s: float | None
    """Total time from calls to their results, or None if no time is known."""


class TemplateTools(Record, frozen=True, kw_only=True):
    """Tool calls of agents of one template."""

    template: str
    """Name of the template, or "" if it is unknown."""
    is_subagent: bool
    """Whether other agents created them."""
    calls: int
    tools: list[ToolStats]
    """The most used tool comes first."""


class Tools(Record, frozen=True, kw_only=True):
    """Tool calls of a scope, the most used tool first."""

    calls: int
    tools: list[ToolStats]
    templates: list[TemplateTools]


class _CallGroup(NamedTuple):
    """Sums over the calls of one tool by agents of one template."""

    template: str
    is_subagent: bool
    name: str
    calls: int
    errors: int
    unanswered: int
    untold: int
    duration_us: float | None


def tools(database: apsw.Connection, scope: Scope) -> Tools:
    """Count the calls of each tool, in total and by template."""
    groups = [_CallGroup(*row) for row in scope.rows(database, _CALLS_SQL, "tool_calls")]
    by_template = defaultdict(list)
    for group in groups:
        by_template[group.template, bool(group.is_subagent)].append(group)
    templates = [
        TemplateTools(
            template=name,
            is_subagent=is_subagent,
            calls=_sum_calls(rows),
            tools=_group_by_name(rows),
        )
        for (name, is_subagent), rows in by_template.items()
    ]
    return Tools(
        calls=_sum_calls(groups),
        tools=_group_by_name(groups),
        templates=sorted(
            templates, key=lambda group: (-group.calls, group.template, group.is_subagent)
        ),
    )


def _group_by_name(groups: Iterable[_CallGroup]) -> list[ToolStats]:
    by_name = defaultdict(list)
    for group in groups:
        by_name[group.name].append(group)
    stats = [_build_tool(name, rows) for name, rows in by_name.items()]
    return sorted(stats, key=lambda group: (-group.calls, group.name))


def _build_tool(name: str, rows: Sequence[_CallGroup]) -> ToolStats:
    durations_us = [row.duration_us for row in rows if row.duration_us is not None]
    return ToolStats(
        name=name,
        calls=_sum_calls(rows),
        errors=sum(row.errors for row in rows),
        unanswered=sum(row.unanswered for row in rows),
        untold=sum(row.untold for row in rows),
        duration_s=to_seconds(sum(durations_us)) if durations_us else None,
    )


def _sum_calls(rows: Iterable[_CallGroup]) -> int:
    return sum(row.calls for row in rows)
