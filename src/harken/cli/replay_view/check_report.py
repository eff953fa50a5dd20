"""Checked: what came of playing a session again, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harken.core.events import event_type
from harken.experiments.replay.agent_events import EventDivergence
from harken.experiments.replay.check import RebuildCheck, ReplayCheck
from harken.terminal.text import one_line
from harken.views.message_diff import spans
from harken.views.message_text import count

_NAMED = 10
"""So many requests that could not be rebuilt are named."""
_MARKS = {"dropped": "[-{}-]", "added": "{{+{}+}}", "same": "{}"}


def checked_lines(name: str, done: ReplayCheck) -> Iterator[str]:
    """Yield whether it went the same again, else where it parted and how."""
    size = f"{count(done.requests, 'request')}, {count(done.events, 'event')}"
    size += f" of {count(done.agents, 'agent')}"
    found = done.difference
    if found is None:
        yield f"{name}: the same again ({size})"
        return
    yield f"{name}: not the same again ({size}); it parts at {place(found)}"
    for member, before, after in differing(found):
        if before is None or after is None:
            what = ("now", after) if before is None else ("recorded", before)
            yield f"  {member}, only {what[0]}: {one_line(what[1] or '', 400)}"
        else:
            yield f"  {member}: {one_line(marked(before, after), 800)}"
    if done.missed:
        yield f"  {one_line(done.missed, 800)}"
    for note in done.notes:
        if note != done.missed:
            yield f"  {one_line(note, 400)}"


def rebuilt_lines(name: str, done: RebuildCheck) -> Iterator[str]:
    """Yield how many requests are rebuilt, and which are not."""
    whole = done.requests - len(done.failures)
    yield (
        f"{name}: another program ran it, so it is not run again; "
        f"{whole} of {count(done.requests, 'request')} rebuilt with the hash that was logged, "
        f"{done.bodies} as they were on the wire"
    )
    for request, why in done.failures[:_NAMED]:
        yield f"  {request}: {one_line(why, 200)}"
    if len(done.failures) > _NAMED:
        yield f"  and {len(done.failures) - _NAMED} more"


def checked_row(name: str, done: ReplayCheck) -> dict[str, Any]:
    """Return the same as JSON."""
    found = done.difference
    row: dict[str, Any] = {"session": name, "same": found is None, "requests": done.requests}
    row |= {"events": done.events, "agents": done.agents}
    if found is not None:
        row["difference"] = {
            "agent": found.lane,
            "place": found.place,
            "message_id": None if found.recorded is None else found.recorded.message_id,
            "recorded": dict(found.before),
            "now": dict(found.after),
        }
        row["missed"], row["notes"] = done.missed, list(done.notes)
    return row


def rebuilt_row(name: str, done: RebuildCheck) -> dict[str, Any]:
    """Return the same as JSON."""
    failures = [{"request": request, "why": why} for request, why in done.failures]
    row = {"session": name, "same": not failures, "requests": done.requests}
    return {**row, "bodies": done.bodies, "failures": failures}


def place(found: EventDivergence) -> str:
    """Say whose event it is, and which."""
    if found.recorded is None:
        kind = "" if found.again is None else event_type(found.again)
        return f"event {found.place} of {found.lane}: a {kind} more than recorded"
    kind = event_type(found.recorded)
    where = f"{found.recorded.message_id}, event {found.place} of {found.lane} ({kind})"
    return where if found.again is not None else f"{where}, which did not happen again"


def differing(found: EventDivergence) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the members that are not the same, as texts; None where there is none."""
    if found.recorded is None or found.again is None:
        one = found.after if found.recorded is None else found.before
        text = _text({name: value for name, value in one.items() if name != "event_type"})
        yield "it", *((None, text) if found.recorded is None else (text, None))
        return
    for name in {**found.before, **found.after}:
        before, after = _member(found.before, name), _member(found.after, name)
        if before != after:
            yield name, before, after


def marked(before: str, after: str) -> str:
    """Return how one text becomes the other.

    >>> marked("a cup of tea", "a cup of coffee")
    'a cup of [-tea-]{+coffee+}'
    """
    return "".join(_MARKS[span.kind].format(span.text) for span in spans(before, after))


def _member(of: Mapping[str, Any], name: str) -> str | None:
    return _text(of[name]) if name in of else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
