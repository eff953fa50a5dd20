"""Spans: what an agent did between one message of its conversation and the next.

One idea: a transcript says when each message was there, not when it was begun. So the time before a
message went into it: before an answer a model was at work, before a result a tool was (or a person
who had to allow it), before a summary the context was compacted. Before a prompt a person read and
wrote. A longer gap is idle, unless a tool ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import apsw

from harken.analytics.moment import US
from harken.analytics.scope import Scope

Activity: TypeAlias = Literal["prompt", "response", "tool", "thinking", "compaction"]
ACTIVITIES: tuple[Activity, ...] = ("prompt", "response", "tool", "thinking", "compaction")
IDLE_AFTER_US = 10 * 60 * US
"""No model answers and nobody reads for longer than this."""

_QUERY = """
    SELECT kind, began, time, thinking, characters + coalesce(called.arguments, 0)
    FROM (
        SELECT id, kind, time, thinking, characters,
            lag(time) OVER (PARTITION BY agent_id ORDER BY time, id) AS began
        FROM messages WHERE time IS NOT NULL AND NOT is_repeat AND {scope}
    ) AS said
    LEFT JOIN (
        SELECT message_id, sum(arguments) AS arguments FROM tool_calls
        WHERE session_id = :session GROUP BY 1
    ) AS called ON called.message_id = said.id
    ORDER BY time, said.id
"""
_ACTIVITY_OF: dict[str, Activity] = {
    "prompt": "prompt",
    "response": "response",
    "error": "response",
    "tool_result": "tool",
    "summary": "compaction",
}


@dataclass(frozen=True, slots=True)
class Span:
    """What an agent, or the person whom it waits for, did from one moment to another."""

    activity: Activity
    began_us: int
    ended_us: int


def spans(database: apsw.Connection, scope: Scope) -> Iterator[Span]:
    """Yield what was done in the one session of a scope, in the order of its messages.

    An answer with thoughts is two spans, as long as their characters are many.
    """
    for kind, began, ended, thought, said in scope.rows(database, _QUERY):
        activity = _ACTIVITY_OF.get(kind)
        if activity is None or began is None or began == ended:
            continue
        if ended - began > IDLE_AFTER_US and activity != "tool":
            continue
        if activity == "response" and thought:
            thought_until = began + (ended - began) * thought // (thought + said)
            yield Span("thinking", began, thought_until)
            began = thought_until
        if began < ended:
            yield Span(activity, began, ended)
