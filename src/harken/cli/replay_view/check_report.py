"""The report of a replay check, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harken.core.events import event_type
from harken.experiments.replay.agent_events import EventDivergence
from harken.experiments.replay.check import RebuildCheck, ReplayCheck
from harken.terminal.text import one_line
from harken.views.message_diff import spans
from harken.views.message_text import format_count

_MAX_LISTED = 10
"""The maximum number of listed requests that could not be rebuilt."""
_MARKS = {"dropped": "[-{}-]", "added": "{{+{}+}}", "same": "{}"}


def checked_lines(name: str, result: ReplayCheck) -> Iterator[str]:
    """Yield lines on whether the replay was equal, or on its first difference."""
    size = f"{format_count(result.requests, 'request')}, {format_count(result.events, 'event')}"
    size += f" of {format_count(result.agents, 'agent')}"
    divergence = result.difference
    if divergence is None:
        yield f"{name}: the same ({size})"
        return
    yield (f"{name}: different ({size}); first divergence at {format_place(divergence)}")
    for member, before, after in iter_differences(divergence):
        if before is None or after is None:
            side = ("now", after) if before is None else ("recorded", before)
            yield f"  {member}, only {side[0]}: {one_line(side[1] or '', 400)}"
        else:
            yield f"  {member}: {one_line(format_change(before, after), 800)}"
    if result.miss_text:
        yield f"  {one_line(result.miss_text, 800)}"
    for note in result.notes:
        if note != result.miss_text:
            yield f"  {one_line(note, 400)}"


def rebuilt_lines(name: str, result: RebuildCheck) -> Iterator[str]:
    """Yield lines on the number of rebuilt requests, and on those that differ."""
    rebuilt = result.requests - len(result.failures)
    yield (
        f"{name}: recorded from another runtime, so it is not run again; "
        f"{rebuilt} of {format_count(result.requests, 'request')} rebuilt with "
        f"the logged hash, {result.bodies} with the bytes of the wire"
    )
    for request, why in result.failures[:_MAX_LISTED]:
        yield f"  {request}: {one_line(why, 200)}"
    if len(result.failures) > _MAX_LISTED:
        yield f"  and {len(result.failures) - _MAX_LISTED} more"


def checked_row(name: str, result: ReplayCheck) -> dict[str, Any]:
    """Return the result as JSON values."""
    divergence = result.difference
    row: dict[str, Any] = {"session": name, "same": divergence is None, "requests": result.requests}
    row |= {"events": result.events, "agents": result.agents}
    if divergence is not None:
        row["difference"] = {
            "agent": divergence.agent_key,
            "place": divergence.place,
            "message_id": None if divergence.recorded is None else divergence.recorded.message_id,
            "recorded": dict(divergence.before),
            "now": dict(divergence.after),
        }
        row["missed"], row["notes"] = result.miss_text, list(result.notes)
    return row


def rebuilt_row(name: str, result: RebuildCheck) -> dict[str, Any]:
    """Return the result as JSON values."""
    failures = [{"request": request, "why": why} for request, why in result.failures]
    row = {"session": name, "same": not failures, "requests": result.requests}
    return {**row, "bodies": result.bodies, "failures": failures}


def format_place(divergence: EventDivergence) -> str:
    """Return the agent and the type of an event."""
    if divergence.recorded is None:
        kind = "" if divergence.replayed is None else event_type(divergence.replayed)
        return f"event {divergence.place} of {divergence.agent_key}: an additional {kind}"
    kind = event_type(divergence.recorded)
    event_text = f"event {divergence.place} of {divergence.agent_key} ({kind})"
    where = f"{divergence.recorded.message_id}, {event_text}"
    return where if divergence.replayed is not None else f"{where}: missing in the second run"


def iter_differences(divergence: EventDivergence) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the members that differ, as texts. A missing member is None."""
    if divergence.recorded is None or divergence.replayed is None:
        event = divergence.after if divergence.recorded is None else divergence.before
        text = _text({name: value for name, value in event.items() if name != "event_type"})
        yield "it", *((None, text) if divergence.recorded is None else (text, None))
        return
    for name in {**divergence.before, **divergence.after}:
        before, after = _member(divergence.before, name), _member(divergence.after, name)
        if before != after:
            yield name, before, after


def format_change(before: str, after: str) -> str:
    """Format the change from one text to the other.

    >>> format_change("a cup of tea", "a cup of coffee")
    'a cup of [-tea-]{+coffee+}'
    """
    return "".join(_MARKS[span.kind].format(span.text) for span in spans(before, after))


def _member(of: Mapping[str, Any], name: str) -> str | None:
    return _text(of[name]) if name in of else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
