"""Recorded calls: what each tool call of a session gave, found again by what was asked.

A call is the same where the agent's name, the tool and the arguments, as JSON, are the same; where
it was made several times, the n-th time gets what the n-th gave. What a hook made of a call is
what was run. What never reached the world (a structural action, a call that a hook blocked or that
was cut off) is no call here: the record does not know what the world would have said.

When calls ended in a recorded session, as far as its log tells.

The calls of one message run beside each other, and their results are logged in order. So a call may
have ended long before its result: where a later call had to wait for it, before that one began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harken.agents.action_schemas import ACTIONS
from harken.agents.hooks.hook import BLOCKED
from harken.agents.initial_transcript import INTERRUPTED
from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall, text_of
from harken.session.fold import reference_to
from harken.views.links import Links, causes_of, substance_of


class RecordedEnds:
    """What must not have happened yet when a call ends."""

    def __init__(self, events: Links) -> None:
        """Take the calls of a session."""
        self._events, self._at = events.events, events.at
        self._first: dict[ev.Reference, ev.Event] = {}
        """The first that came of a call; of one that nobody was asked about, its result."""
        self._result: dict[ev.Reference, ev.Event] = {}
        self._later: dict[ev.Reference, Sequence[tuple[ev.Reference, str]]] = {}
        """The calls after it in the same message, and their tools."""
        for event in events:
            for link in events.up(event):
                self._first.setdefault(link.reference, event)
                if link.kind == "call":
                    self._result[link.reference] = event
            if isinstance(event, ev.TranscriptEntry) and event.tool_calls:
                calls = event.tool_calls
                named = [(reference_to(event, call.id), call.function.name) for call in calls]
                self._later |= {name: named[at + 1 :] for at, (name, _) in enumerate(named)}

    def of(self, call: ev.Reference, waits: Callable[[str], bool]) -> ev.Event | None:
        """Return the first event of the record that came after the end of a call; None: none did.

        waits: whether a later call of this tool had to wait for it.
        """
        waiting = [one for one, tool in self._later.get(call, ()) if waits(tool)]
        after = [self._results_with(call), *(self._first.get(one) for one in waiting)]
        known = [event for event in after if event is not None]
        return min(known, key=lambda event: self._at[event.message_id], default=None)

    def _results_with(self, call: ev.Reference) -> ev.Event | None:
        """Return the first of the results that were logged at once with that of a call.

        What ended earlier than a call before it got its result just after that one's.
        """
        result = self._result.get(call)
        if result is None:
            return None
        at = self._at[result.message_id]
        while _is_result(self._events[at - 1], result):
            at -= 1
        return self._events[at]


def _is_result(event: ev.Event, other: ev.Event) -> bool:
    is_result = isinstance(event, ev.TranscriptEntry) and event.role == "tool"
    return is_result and event.agent_id == other.agent_id


Key: TypeAlias = tuple[str, str, bytes]
"""The agent's name, the tool, the arguments."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that the world answered."""

    reference: ev.Reference
    result: ev.TranscriptEntry
    said: tuple[ev.Event, ...] = ()
    """What was logged while it ran and came of nothing but it, in order: questions to the user and
    the answers, texts that the tool made and who heard them, what it did with memory."""


@dataclass(slots=True)
class RecordedCalls:
    """All calls of a session, each to be given once, in the order of the log."""

    by_key: dict[Key, list[RecordedCall]]
    names: Mapping[AgentId, str]
    """What the recorded agents are called."""
    said: Mapping[ev.Reference, Sequence[ev.Event]] = field(default_factory=dict)
    """What was logged while a call ran, also one that was cut off."""
    _given: dict[Key, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        events: Iterable[ev.Event],
        after: MessageId | None = None,
        actions: Collection[str] = frozenset(ACTIONS),
    ) -> RecordedCalls:
        """Take the calls of a session; `after`: only those made after this event.

        `actions`: the names of calls that are structural actions. Other programs have none.
        """
        links = Links.of(events)
        first = -1 if after is None else links.at[after]
        found: dict[Key, list[RecordedCall]] = {}
        said = _said(links)
        for reference, result in _results(links):
            call = _as_run(links, reference)
            if links.at[links.target(reference)] <= first or call is None:
                continue
            if call.name in actions or _is_none(call, result):
                continue
            agent = links.names.of(result.agent_id) or ""
            recorded = RecordedCall(reference, result, tuple(said.get(reference, ())))
            found.setdefault(call_key(agent, call), []).append(recorded)
        return cls(found, links.names.called, said)

    def take(self, agent: str, call: FunctionCall) -> RecordedCall | None:
        """Return what this call gave, the next time in turn; None: it was not made so often."""
        key = call_key(agent, call)
        calls, given = self.by_key.get(key, ()), self._given.get(key, 0)
        if given >= len(calls):
            return None
        self._given[key] = given + 1
        return calls[given]

    def left(self) -> list[RecordedCall]:
        """Return the calls that nobody made again."""
        return [
            one for key, calls in self.by_key.items() for one in calls[self._given.get(key, 0) :]
        ]


def call_key(agent: str, call: FunctionCall) -> Key:
    """Return what makes a call the same; arguments that are no JSON are compared as text."""
    text = call.arguments.encode("utf-8", "surrogatepass")
    try:
        arguments = canonical.to_canonical_bytes(
            canonical.from_json(text if text.strip() else b"{}")
        )
    except (ValueError, RecursionError):
        arguments = text
    return agent, call.name, arguments


def _results(links: Links) -> Iterator[tuple[ev.Reference, ev.TranscriptEntry]]:
    """Yield each result with the call that it answers, in the order of the calls."""
    found = [
        (link.reference, event)
        for event in links
        if isinstance(event, ev.TranscriptEntry) and event.role == "tool"
        for link in links.up(event)
        if link.kind == "call"
    ]
    return iter(sorted(found, key=lambda pair: links.at[links.target(pair[0])]))


def _as_run(links: Links, reference: ev.Reference) -> FunctionCall | None:
    """Return a call as it was run: as hooks have rewritten it."""
    call = links.called(reference)
    function = None if call is None else call.function
    for event in links.down(links.target(reference)):
        if isinstance(event, ev.ActionRewritten) and event.call == reference:
            function = FunctionCall(event.tool, event.arguments)
    return function


def _is_none(call: FunctionCall, result: ev.TranscriptEntry) -> bool:
    """Whether the world has not answered this call."""
    text = text_of(result.content)
    never = (BLOCKED.partition("{")[0], INTERRUPTED.format(call.name))
    return result.is_error and text.startswith(never)


def _said(links: Links) -> dict[ev.Reference, list[ev.Event]]:
    """Return, by call, what was logged because of it beside its result."""
    said: dict[ev.Reference, list[ev.Event]] = {}
    because: dict[str, ev.Reference] = {}
    for event in links:
        named = [*causes_of(event), *filter(None, [substance_of(event)])]
        call = next((because[one] for one in named if one in because), None)
        if call is None:
            call = next((one for one in named if links.called(one) is not None), None)
        if call is None or not _is_beside(event):
            continue
        because[event.message_id] = call
        said.setdefault(call, []).append(event)
    return said


def _is_beside(event: ev.Event) -> bool:
    """Whether a tool logs such an event while it runs."""
    if isinstance(event, ev.TranscriptEntry):
        return event.agent_id == USER or (event.role == "user" and event.substance is not None)
    if isinstance(event, ev.PieceOfText):
        return event.trigger is None  # what happened outside came when it came
    if isinstance(event, ev.AgentConfigured):
        return "triggers" in (event.spec or {})
    return isinstance(event, ev.MemoryOperation)
