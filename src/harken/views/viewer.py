"""`SessionViewer`: the views of one session, under the names of the specification.

A log is read once, when the first view asks, and without a lock: one that is being written
shows as far as its last whole line. A session without a log is its events. Events come back as
the dicts that a log holds, with all that this version does not know, and without `sum`; what a
view makes of them as its rows.

Source: spec [S0] "SessionViewer Class".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias

from harken.core.arguments import check_arguments
from harken.core.canonical import from_json
from harken.core.events import Event, event_dict
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.errors import HarkenError, NameNotFound
from harken.session.fold import Resolver
from harken.session.log.reader import LogReadReport, open_log, paused_gc, records
from harken.views import flow
from harken.views.agent_names import Paths
from harken.views.context import ContextView, context
from harken.views.dialog import dialog, narrate, perspective
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
    """Different views of one session, by links alone: no tool is known to it.

    Agents are named by id or by name. What is not there is an NameNotFound that lists what is,
    except where a method says that it returns nothing then.
    """

    path: Path
    """The log; of a session that has none, what it is called."""
    reading: LogReadReport
    """How the log was read: torn, verified, in which dialect; filled in at first use."""
    resolver: Resolver = staticmethod(placeholders)
    """Gives the messages of commits that agents started from; a store is no matter of a view."""
    _lines: list[bytes] | None = None

    def __init__(self, session_file: str | Path) -> None:
        """View a log.

        Raises LogNotFound or InvalidLog here, LogCorrupted and LogVersionUnsupported at first use.
        """
        self.path, self.reading = Path(session_file), LogReadReport()
        open_log(self.path).close()

    @classmethod
    def of(cls, events: Iterable[Event], name: str) -> Self:
        """View events that stand in no log, such as those of an imported session."""
        viewer = cls.__new__(cls)
        viewer.path, viewer.reading = Path(name), LogReadReport()
        viewer.events = Links(events)
        return viewer

    @cached_property
    def events(self) -> Links:
        """All events, for every other view: `utterances(viewer.events)`."""
        events: list[Event] = []
        lines: list[bytes] = []
        self.reading = LogReadReport()
        with paused_gc():
            for event, line in records(self.path, self.reading):
                events.append(event)
                lines.append(line)
        self._lines = lines
        return Links(events)

    def raw(self, event: Event) -> EventDict:
        """Return an event of this log as the dict that its line holds.

        An event of an older dialect comes in current members.
        """
        position = self.events.at.get(event.message_id)
        is_here = position is not None and self.events.events[position] is event
        lines = self._lines if self.reading.dialect is None else None
        if position is None or not is_here or lines is None:
            return event_dict(event)
        data: EventDict = from_json(lines[position])
        data.pop("sum", None)
        return data

    def resolve_agent(self, name_or_id: str) -> AgentId:
        """Return the id of the agent with this id, name (also a former one) or path: `main/guard`.

        Raises NameNotFound, which lists the agents, or the paths and ids of those that share it.
        """
        names = self.events.names
        several = names.called_so(name_or_id)
        if name_or_id in names.called or (len(several) < 2 and "/" not in name_or_id):
            return names.resolve(name_or_id)
        try:
            paths = Paths(self.tree(), names)
        except HarkenError:  # the log contradicts itself: names and ids are all there is
            return names.resolve(name_or_id)
        found = several or paths.found(name_or_id)
        if len(found) > 1:
            raise NameNotFound("single agent named", name_or_id, paths.choices(found))
        return found[0] if found else names.resolve(name_or_id)

    def resolve_message(self, message_id: str) -> MessageId:
        """Return the id of this message: `msg_003`, a call of it (`msg_003.call_abc`), or `3`.

        Raises NameNotFound, which says which ids there are.
        """
        padded = f"msg_{message_id:0>3}"
        for id_ in (MessageId(message_id), reference_message_id(message_id), MessageId(padded)):
            if id_ in self.events.at:
                return id_
        ids = [event.message_id for event in self.events]
        raise NameNotFound("message", message_id, [f"{ids[0]} to {ids[-1]}"] if ids else [])

    def list_agents(self) -> dict[AgentId, str]:
        """Return all agents that ever were: id to name, to the id where it has no name."""
        return dict(self.events.names.called)

    def get_transcript(self, agent_id: str) -> list[EventDict]:
        """Return an agent's entries, oldest first; none for an unknown agent.

        Raises NameNotFound for a name that several agents had.
        """
        try:
            agent = self.resolve_agent(agent_id)
        except NameNotFound as error:
            if error.kind == "agent":
                return []
            raise
        return self._raw(transcript(self.events, agent))

    def extract_dialog(self, agent_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return what these agents said and heard, each content once, as `dialog.DialogItem`s.

        The first of them that said or heard a content gives its words; `differs` is true where
        another heard it differently.
        """
        chosen = [self.resolve_agent(agent) for agent in agent_ids]
        return [item.as_json() for item in dialog(self.events, chosen)]

    def extract_agent_perspective(self, agent_id: str) -> str:
        """Return what an agent heard, thought, did and said, a labelled text each.

        Labels: [System] [Heard] [Thought] [Action] [Received] [Said].
        """
        return narrate(perspective(self.events, self.resolve_agent(agent_id)))

    def build_causality_index(self) -> dict[MessageId, MessageId]:
        """Return each message's parent: its substance, else its first cause, else its call."""
        return flow.parents(self.events)

    def trace_message_flow(self, message_id: str) -> list[EventDict]:
        """Return what led to a message over all links, oldest first, it last; [] if unknown."""
        return self._raw(flow.trace(self.events, message_id))

    def trace_content_references(self, content_msg_id: str) -> list[EventDict]:
        """Return the entries whose substance is this message: who heard it; [] if unknown."""
        return self._raw(flow.references(self.events, content_msg_id))

    def tree(self) -> list[TreeRow]:
        """Return all agents that ever were, parents before their children."""
        return tree(self.events)

    def timeline(self) -> Timeline:
        """Return everything that happened, in order, agents as lanes."""
        return timeline(self.events)

    def context(self, message_id: str) -> ContextView:
        """Return what a model call saw: named by itself, its response or its answer.

        Raises NameNotFound, which lists the calls.
        """
        id_ = self.resolve_message(message_id)
        return context(self.events, id_, resolver=self.resolver)

    def interventions(self) -> list[Intervention]:
        """Return where something else was heard or run than an agent said or asked for."""
        return interventions(self.events)

    def watches(self) -> list[Watch]:
        """Return who came to watch whom, and who left."""
        return watches(self.events)

    def verdicts(self) -> list[VerdictRow]:
        """Return all that hooks said, on what, and what became of it, oldest first."""
        return verdicts(self.events)

    def _raw(self, events: Iterable[Event]) -> list[EventDict]:
        return [self.raw(event) for event in events]
