"""When calls ended in a recorded session, as far as its log tells.

The calls of one message run beside each other, and their results are logged in order. So a call may
have ended long before its result: where a later call had to wait for it, before that one began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harken.core import events as ev
from harken.session.fold import reference_to
from harken.views.links import Links


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
