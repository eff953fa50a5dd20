"""`branch_scene`: a session that was branched just before a recorded model call, with a change.

The branch has all agents, hooks, notes and discussions as they were before the call. The change is
ordinary events of its log: edited messages are new entries that an edit of the context puts in the
place of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from harken.core.events import AgentConfigured, Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import AgentId, reference_message_id
from harken.core.messages import ChatMessage, Message
from harken.errors import ConfigError
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.session.branch import branch, change_model, disarm_triggers, remove_hooks
from harken.session.session import Session, SessionOptions, build_entry

Layout: TypeAlias = Sequence[tuple[int | None, Message]]
"""A context: each message with its position in the recorded one, or None."""


def branch_scene(
    point: ForkPoint,
    log: Path,
    change: Change,
    *,
    options: SessionOptions | None = None,
) -> None:
    """Create a session before the call of a fork point, and change it.

    Raises ConfigError if the log of the session is not at hand, and as `branch`.
    """
    if point.log is None:
        raise ConfigError(f"{point.session}: a rerun of this session needs its log")
    options = options or SessionOptions()
    options = replace(options, resolver=options.resolver or point.resolver)
    changes = change.describe()
    reason = f"rerun: {', '.join(changes)}"

    def apply(session: Session) -> None:
        layout = change.layout(point.context)
        replace_messages(session, point.agent_id, point.messages, layout, reason=reason)
        if change.parameters:
            parameters = change.merge_parameters(point.parameters)
            event = AgentConfigured(agent_id=point.agent_id, parameters=parameters)
            session.append(event)
        if change.model is not None:
            change_model(session, change.model, previous=point.agent.language_model)
        if change.without_hooks:
            remove_hooks(session, change.without_hooks)
        disarm_triggers(session)

    request = point.request.message_id
    branch(point.log, log, request, before=True, change=apply, changes=changes, options=options)


class _Unit(msgspec.Struct):
    """A message with the results of its calls. All of them are logged again if one changed."""

    items: list[tuple[int | None, Message]] = msgspec.field(default_factory=list)
    """Each message with its position in the old context; None for a new message."""

    def is_kept(self, old: Sequence[Message]) -> bool:
        """Whether no message of the unit changed."""
        return all(
            position is not None and message is old[position] for position, message in self.items
        )


def replace_messages(
    session: Session, agent_id: AgentId, old: Sequence[Message], layout: Layout, *, reason: str
) -> None:
    """Replace the context of an agent, which equals `old`, as one group.

    Messages of `layout` that are objects of `old` are kept. The others are logged; a changed answer
    with calls is logged with its results, as each result follows its call.
    """
    units = list(_iter_units(layout))
    if len(layout) == len(old) and all(unit.is_kept(old) for unit in units):
        return
    context = list(session.context(agent_id))
    segments: list[Segment] = []
    with session.group():
        for unit in units:
            if unit.is_kept(old):
                positions = [position for position, _ in unit.items if position is not None]
                segments += [Segment(start=n, stop=n + 1) for n in positions]
                continue
            entries = [_build_entry(agent_id, context, *item) for item in unit.items]
            segments.append(Segment(entries=[session.append(entry) for entry in entries]))
        segments = list(_join_ranges(segments))
        session.append(TranscriptEdited(agent_id=agent_id, segments=segments, reason=reason))


def _iter_units(layout: Layout) -> Iterator[_Unit]:
    unit = _Unit()
    for position, message in layout:
        if message.role != "tool" and unit.items:
            yield unit
            unit = _Unit()
        unit.items.append((position, message))
    if unit.items:
        yield unit


def _build_entry(
    agent_id: AgentId, context: Sequence[ChatMessage], position: int | None, message: Message
) -> TranscriptEntry:
    """Return the entry of a message, with the links of the entry that it replaces."""
    entry = build_entry(agent_id, message)
    original = None if position is None else context[position]
    if isinstance(original, TranscriptEntry):
        entry.purpose, entry.closed = original.purpose, original.closed
        entry.substance, cause = original.substance, original.cause
        references = [cause] if isinstance(cause, str) else cause or []
        messages = [*dict.fromkeys(map(reference_message_id, references))]
        entry.cause = messages[0] if isinstance(cause, str) else [*messages] or None
    return entry


def _join_ranges(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Join ranges that follow each other."""
    pending: Segment | None = None
    for segment in segments:
        if pending is not None and pending.stop is not None and pending.stop == segment.start:
            pending = Segment(start=pending.start, stop=segment.stop)
            continue
        if pending is not None:
            yield pending
        pending = segment
    if pending is not None:
        yield pending
