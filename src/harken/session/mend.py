"""What a repaired session needs to go on: contexts that a model can read.

Where events were lost, or an older program wrote two results for a call, an agent's context may
hold calls without a result and results without a call, which providers refuse, and its segments
may count messages that are gone. The log keeps every entry; an edit at its end says which of them
the agent reads from now on, each call with its results right after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from harken.core.events import KnownEvent, Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.messages import ChatMessage, ToolCall
from harken.session.fold import context_length, context_now
from harken.session.state import AgentState, SessionState

NO_RESULT = "Error: there is no result of this call in the log, which was repaired."


@dataclass(slots=True)
class _Row:
    """A message and the results of its calls, in the order in which they came."""

    head: ChatMessage
    results: list[ChatMessage] = field(default_factory=list)
    unanswered: dict[str, ToolCall] = field(default_factory=dict)


def mended(state: SessionState, ids: Iterator[MessageId]) -> Iterator[KnownEvent]:
    """Yield the events, with their ids, that make every agent's context readable again.

    Of a sound log there are none. The calls of an agent's last message may be open.
    """
    for agent in state.agents.values():
        context = context_now(agent)
        rows = _rows(context)
        answers = list(_answers(agent, rows[:-1], ids))
        wanted = [message for row in rows for message in (row.head, *row.results)]
        is_same = len(wanted) == len(context) and all(map(_is, wanted, context))
        if not is_same or len(context) != context_length(agent):
            yield from answers
            segments = list(_segments(wanted, context))
            yield TranscriptEdited(
                message_id=next(ids), agent_id=agent.id, segments=segments, reason="repaired"
            )


def _is(one: ChatMessage, other: ChatMessage) -> bool:
    return one is other


def _rows(context: Sequence[ChatMessage]) -> list[_Row]:
    """Put each result to its call; a result that answers no call, or an answered one, is left."""
    rows: list[_Row] = []
    for message in context:
        if message.role != "tool":
            calls = {call.id: call for call in message.tool_calls or ()}
            rows.append(_Row(message, unanswered=calls))
            continue
        for row in reversed(rows):
            if row.unanswered.pop(message.tool_call_id or "", None) is not None:
                row.results.append(message)
                break
    return rows


def _answers(
    agent: AgentState, rows: Sequence[_Row], ids: Iterator[MessageId]
) -> Iterator[TranscriptEntry]:
    """Give calls that were passed over a result that says that there is none."""
    for row in rows:
        for call in row.unanswered.values():
            entry = TranscriptEntry(
                message_id=next(ids),
                agent_id=agent.id,
                role="tool",
                content=NO_RESULT,
                tool_call_id=call.id,
                name=call.function.name,
                is_error=True,
            )
            row.results.append(entry)
            yield entry


def _segments(wanted: Sequence[ChatMessage], context: Sequence[ChatMessage]) -> Iterator[Segment]:
    """Describe a context: entries by id, what came from a commit by its place in the old one."""
    places = {id(message): place for place, message in enumerate(context)}
    for is_entry, group in groupby(wanted, lambda message: isinstance(message, TranscriptEntry)):
        messages = list(group)
        if is_entry:
            entries = [m.message_id for m in messages if isinstance(m, TranscriptEntry)]
            yield Segment(entries=entries)
        else:  # what came from commits stays in its order, without gaps
            start = places[id(messages[0])]
            yield Segment(start=start, stop=start + len(messages))
