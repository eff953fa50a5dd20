"""`SessionViewer`: the views of one session, with the method names of the specification.

`SessionFollower` reads the events of a running session as they are logged.

The log is read once, when the first view is requested, without a lock: a log that is being written
is read up to its last complete line. A session without a log is viewed from its events. Events are
returned as the dicts of the log, including unknown members and without `sum`; the results of views
are their row types.

Source: spec [S0] "SessionViewer Class".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias

from harken.core.arguments import check_arguments
from harken.core.canonical import from_json
from harken.core.events import ContentPurged, Event, SessionEnded, event_dict
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.errors import AmbiguousName, HarkenError, LogError, NameNotFound
from harken.session.fold import Resolver
from harken.session.log.reader import LogReadReport, iter_records, open_log, paused_gc
from harken.session.log.tail import LogTail
from harken.views import flow
from harken.views.agent_names import AgentPaths
from harken.views.context import ContextView, context
from harken.views.dialogs.dialog import dialog
from harken.views.dialogs.perspective import format_items, perspective
from harken.views.filter import transcript
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links
from harken.views.model_calls import placeholders
from harken.views.timeline import Timeline, timeline
from harken.views.tree import TreeRow, tree
from harken.views.verdicts import VerdictRow, Watch, verdicts, watches

EventDict: TypeAlias = dict[str, Any]


@check_arguments
class SessionViewer:
    """Views of one session, derived from links between events only.

    Agents are given by id or name. An unknown name raises NameNotFound with the known names, unless
    the method documents an empty result.
    """

    path: Path
    """The log, or the name of a session without a log."""
    reading: LogReadReport
    """How the log was read: truncated, verified, in which format. Set by the first view."""
    resolver: Resolver = staticmethod(placeholders)
    """Returns the messages of commits that agents started from; by default placeholders."""
    _lines: list[bytes] | None = None

    def __init__(self, session_file: str | Path) -> None:
        """View a log.

        Raises LogNotFound or InvalidLog here, LogCorrupted and LogVersionUnsupported at first use.
        """
        self.path, self.reading = Path(session_file), LogReadReport()
        open_log(self.path).close()

    @classmethod
    def of(cls, events: Iterable[Event], name: str) -> Self:
        """View events without a log, such as those of an imported session."""
        viewer = cls.__new__(cls)
        viewer.path, viewer.reading = Path(name), LogReadReport()
        viewer.events = Links.of(events)
        return viewer

    @cached_property
    def events(self) -> Links:
        """All events, for the functions of `harken.views`: `utterances(viewer.events)`."""
        events: list[Event] = []
        lines: list[bytes] = []
        self.reading = LogReadReport()
        with paused_gc():
            for event, line in iter_records(self.path, self.reading):
                events.append(event)
                lines.append(line)
        self._lines = lines
        return Links(events)

    def raw(self, event: Event) -> EventDict:
        """Return an event as the dict of its log line.

        An event in an older log format is returned with current members.
        """
        position = self.events.positions.get(event.message_id)
        is_of_log = position is not None and self.events.events[position] is event
        lines = self._lines if self.reading.dialect is None else None
        if position is None or not is_of_log or lines is None:
            return event_dict(event)
        data: EventDict = from_json(lines[position])
        for name in ("more", "sum"):  # They belong to the line.
            data.pop(name, None)
        return data

    def resolve_agent(self, name_or_id: str) -> AgentId:
        """Return the agent with this id, current or former name, or path such as `main/guard`.

        Raises NameNotFound, which lists the agents, or the paths and ids of those that share it.
        """
        names = self.events.names
        named_agents = names.find_by_name(name_or_id)
        if name_or_id in names.latest_names or (len(named_agents) < 2 and "/" not in name_or_id):
            return names.resolve(name_or_id)
        try:
            paths = AgentPaths(self.tree(), names)
        except HarkenError:  # The log is inconsistent; only names and ids can be resolved.
            return names.resolve(name_or_id)
        matches = named_agents or paths.find_agents(name_or_id)
        if len(matches) > 1:
            raise AmbiguousName("agent", name_or_id, paths.choices(matches))
        return matches[0] if matches else names.resolve(name_or_id)

    def resolve_message(self, message_id: str) -> MessageId:
        """Resolve a message id: `msg_003`, a call of it (`msg_003.call_abc`), or `3`.

        Raises NameNotFound, which tells the range of ids.
        """
        padded = f"msg_{message_id:0>3}"
        for id_ in (MessageId(message_id), reference_message_id(message_id), MessageId(padded)):
            if id_ in self.events.positions:
                return id_
        ids = [event.message_id for event in self.events]
        raise NameNotFound("message", message_id, [f"{ids[0]} to {ids[-1]}"] if ids else [])

    def list_agents(self) -> dict[AgentId, str]:
        """Return all agents, including removed ones: id to name, or to the id if it has no name."""
        return dict(self.events.names.latest_names)

    def get_transcript(self, agent_id: str) -> list[EventDict]:
        """Return an agent's entries, oldest first. Empty for an unknown agent.

        Raises AmbiguousName for a name of several agents.
        """
        try:
            agent = self.resolve_agent(agent_id)
        except AmbiguousName:
            raise
        except NameNotFound as error:
            if error.kind == "agent":
                return []
            raise
        return self._raw(transcript(self.events, agent))

    def extract_dialog(
        self, agent_ids: Iterable[str], *, drafts: bool = False
    ) -> list[dict[str, Any]]:
        """Return the dialog of these agents, each content once, as JSON of `dialog.DialogItem`.

        The version of the first of these agents is shown; `differs` is true if another one received
        a different version. `drafts` includes answers that no other agent received.
        """
        resolved = [self.resolve_agent(agent) for agent in agent_ids]
        return [item.as_json() for item in dialog(self.events, resolved, drafts=drafts)]

    def extract_agent_perspective(self, agent_id: str) -> str:
        """Format an agent's input, thoughts, actions and answers as labeled text.

        Labels: [System] [Heard] [Thought] [Action] [Received] [Said] [Draft] [Verdict] [Stopped].
        """
        return format_items(perspective(self.events, self.resolve_agent(agent_id)))

    def build_causality_index(self) -> dict[MessageId, MessageId]:
        """Return each message's parent: its substance, else its first cause, else its call."""
        return flow.parents(self.events)

    def trace_message_flow(self, message_id: str) -> list[EventDict]:
        """Return the events that led to a message over all links, oldest first. [] if unknown."""
        return self._raw(flow.trace(self.events, message_id))

    def trace_content_references(self, content_msg_id: str) -> list[EventDict]:
        """Return the entries whose substance is this message. [] if unknown."""
        return self._raw(flow.references(self.events, content_msg_id))

    def tree(self) -> list[TreeRow]:
        """Return all agents, parents before children."""
        return tree(self.events)

    def timeline(self) -> Timeline:
        """Return all events in order, with one lane per agent."""
        return timeline(self.events)

    def context(self, message_id: str) -> ContextView:
        """Return the context of a model call, given by its request, response or answer.

        Raises NameNotFound, which lists the calls.
        """
        id_ = self.resolve_message(message_id)
        return context(self.events, id_, resolver=self.resolver)

    def interventions(self) -> list[Intervention]:
        """Return the messages and calls that hooks changed."""
        return interventions(self.events)

    def watches(self) -> list[Watch]:
        """Return the installations and removals of hooks."""
        return watches(self.events)

    def verdicts(self) -> list[VerdictRow]:
        """Return the verdicts of hooks with their effects, oldest first."""
        return verdicts(self.events)

    def _raw(self, events: Iterable[Event]) -> list[EventDict]:
        return [self.raw(event) for event in events]


class SessionFollower:
    """Read a session that may be running, without a lock.

    Each read returns the events of the groups that were completed since the last one, so a reader
    sees all events of a decision or none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = Links(())
        """All events that were read."""
        self.has_ended = False
        """Whether the session was ended, and not resumed since."""
        self._tail = LogTail(path)
        self._groups: Iterator[list[Event]] | None = None
        """The groups that a read with a maximum left. The log stays open: to find a place in a
        compressed one takes time."""
        self._error: LogError | None = None

    def read(self, *, max_events: int | None = None) -> list[Event]:
        """Return the new events, oldest first. An unchanged log is not opened.

        With `max_events`, the read ends after the group that reaches this number; the next read
        continues there.

        Raises LogNotFound, InvalidLog, LogVersionUnsupported; LogCorrupted at the read after the
        events before the damage.
        """
        if self._error is not None:
            raise self._error
        if self._groups is None and not self._tail.has_changed():
            return []
        events: list[Event] = []
        groups, self._groups = self._groups or self._tail.iter_event_groups(), None
        try:
            for group in groups:
                events += group
                if max_events is not None and len(events) >= max_events:
                    self._groups = groups
                    break
        except LogError as error:
            if not events:
                raise
            self._error = error
        self.events.extend(events)
        for event in events:
            if not isinstance(event, ContentPurged):  # A purge does not resume a session.
                self.has_ended = isinstance(event, SessionEnded)
        return events
