"""Recorded tool calls of a session, looked up by agent, tool and arguments.

Calls are equal if the agent's name, the tool and the JSON arguments are equal; for repeated calls,
the n-th call gets the n-th result. The call is used as it was run, after rewrites by hooks. Calls
that did not reach the world (structural actions, blocked and interrupted calls) are excluded,
because their results are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall
from harken.session.fold import format_call_reference
from harken.views.links import Links, causes_of, substance_of


def find_concurrent_tools(links: Links) -> set[str]:
    """Return the tools with calls that ran beside another call of their message.

    A tool that changes the world runs alone; the log does not have this property of a tool.
    """
    first_positions: dict[ev.Reference, int] = {}
    result_positions: dict[ev.Reference, int] = {}
    for event in links:
        position = links.positions[event.message_id]
        if isinstance(event, ev.ActionStarted):
            first_positions.setdefault(event.call, position)
        for link in links.links_from(event):
            first_positions.setdefault(link.reference, position)
            if link.kind == "call":
                result_positions[link.reference] = position
    tools: set[str] = set()
    for event in links:
        if not isinstance(event, ev.TranscriptEntry):
            continue
        calls = event.tool_calls or ()
        made = [(format_call_reference(event, call.id), call.function.name) for call in calls]
        for (earlier, tool), (later, other_tool) in combinations(made, 2):
            ended, began = result_positions.get(earlier), first_positions.get(later)
            if ended is not None and began is not None and began < ended:
                tools |= {tool, other_tool}
    return tools


Key: TypeAlias = tuple[str, str, bytes]
"""Agent name, tool name, and encoded arguments."""


class RecordedCall(msgspec.Struct, frozen=True):
    """A call with its recorded result."""

    reference: ev.Reference
    result: ev.TranscriptEntry
    events: tuple[ev.Event, ...] = ()
    """Events that the call caused while it ran, in order, such as questions to the user."""


class RecordedCalls(msgspec.Struct):
    """All calls of a session. Each is returned once, in the order of the log."""

    by_key: dict[Key, list[RecordedCall]]
    names: Mapping[AgentId, str]
    """Names of the recorded agents."""
    events_by_call: Mapping[ev.Reference, Sequence[ev.Event]] = msgspec.field(default_factory=dict)
    """Events that a call caused while it ran, also for interrupted calls."""
    _used_counts: dict[Key, int] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        events: Iterable[ev.Event],
        after: MessageId | None = None,
        actions: Collection[str] = frozenset(ACTIONS),
    ) -> RecordedCalls:
        """Collect the calls of a session. With `after`, only calls after this event.

        `actions` are the names of structural actions. Other programs have none.
        """
        links = Links.of(events)
        first = -1 if after is None else links.positions[after]
        found: dict[Key, list[RecordedCall]] = {}
        said = _collect_caused_events(links)
        for reference, result in _iter_results(links):
            call = _get_executed(links, reference)
            if links.positions[links.target(reference)] <= first or call is None:
                continue
            if call.name in actions or _is_unanswered(result):
                continue
            agent = links.names.latest_name(result.agent_id) or ""
            recorded = RecordedCall(reference, result, tuple(said.get(reference, ())))
            found.setdefault(call_key(agent, call), []).append(recorded)
        return cls(found, links.names.latest_names, said)

    def get_next(self, agent: str, call: FunctionCall) -> RecordedCall | None:
        """Return the next recorded call with this key, or None if there is no other."""
        key = call_key(agent, call)
        calls, used_count = self.by_key.get(key, ()), self._used_counts.get(key, 0)
        if used_count >= len(calls):
            return None
        self._used_counts[key] = used_count + 1
        return calls[used_count]


def call_key(agent: str, call: FunctionCall) -> Key:
    """Return the identity of a call. Arguments that are not JSON are compared as text."""
    text = call.arguments.encode("utf-8", "surrogatepass")
    try:
        arguments = canonical.to_canonical_bytes(
            canonical.from_json(text if text.strip() else b"{}")
        )
    except (ValueError, RecursionError):
        arguments = text
    return agent, call.name, arguments


def _iter_results(links: Links) -> Iterator[tuple[ev.Reference, ev.TranscriptEntry]]:
    """Yield each result with its call, in the order of the calls."""
    results = [
        (link.reference, event)
        for event in links
        if isinstance(event, ev.TranscriptEntry) and event.role == "tool"
        for link in links.links_from(event)
        if link.kind == "call"
    ]
    return iter(sorted(results, key=lambda pair: links.positions[links.target(pair[0])]))


def _get_executed(links: Links, reference: ev.Reference) -> FunctionCall | None:
    """Return a call as it was run, after rewrites by hooks."""
    call = links.find_call(reference)
    function = None if call is None else call.function
    for event in links.events_to(links.target(reference)):
        if isinstance(event, ev.ActionRewritten) and event.call == reference:
            function = FunctionCall(event.tool, event.arguments)
    return function


def _is_unanswered(result: ev.TranscriptEntry) -> bool:
    """Whether the call was blocked or interrupted, so that it has no result of the world."""
    return result.closed not in (None, "refused")


def _collect_caused_events(links: Links) -> dict[ev.Reference, list[ev.Event]]:
    """Return, by call, the events that it caused besides its result."""
    events_by_call: dict[ev.Reference, list[ev.Event]] = {}
    call_by_event: dict[str, ev.Reference] = {}
    for event in links:
        if isinstance(event, ev.ActionStarted):
            events_by_call.setdefault(event.call, []).append(event)
            continue
        references = [*causes_of(event), *filter(None, [substance_of(event)])]
        call = next(
            (call_by_event[reference] for reference in references if reference in call_by_event),
            None,
        )
        if call is None:
            call = next(
                (reference for reference in references if links.find_call(reference) is not None),
                None,
            )
        if call is None or not _is_logged_by_tool(event):
            continue
        call_by_event[event.message_id] = call
        events_by_call.setdefault(call, []).append(event)
    return events_by_call


def _is_logged_by_tool(event: ev.Event) -> bool:
    """Whether an event is of a kind that tools log while they run."""
    if isinstance(event, ev.TranscriptEntry):
        return event.agent_id == USER or (event.role == "user" and event.substance is not None)
    if isinstance(event, ev.PieceOfText):
        return event.trigger is None  # Events of triggers are external.
    return isinstance(event, ev.TriggerArmed | ev.TriggerDisarmed | ev.MemoryOperation)
