"""`StreamCommits`: commit the output of a running client while it runs.

The messages of an agent are logged to a session in memory by the common writer, and each commit
holds those since the last one, in deltas like those of other runtimes. Events that are not messages
(start, cost, errors, unknown lines) are in the last commit of the run, as `events-v1`.

It is used for clients without session files: see `harken.capture.live.recorder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import msgspec
from msgspec import convert

from harken.capture.live.boundary import BoundaryDetector, is_compaction
from harken.capture.live.stream_event import StreamEvent
from harken.context.checkpoint import CommitIdentity, CommitOrigin
from harken.core import canonical, structs
from harken.core.clock import Clock, find_latest, format_rfc3339
from harken.core.commits import Checkpoint, CommitId
from harken.core.event_types.message_parser import redact_message
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.events import AgentCreated
from harken.core.ids import agent_id
from harken.core.secrets.redaction import Credentials
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.events import (
    ErrorEvent,
    Event,
    MetricEvent,
    OutputEvent,
    PromptEvent,
    ResponseEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from harken.formats.hub import entries_from_events
from harken.formats.tool_calls import replace_surrogates
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.commits import SessionCommits
from harken.recording.writer.item import Item
from harken.recording.writer.memory_session import MemorySession
from harken.store.base import Store

MAX_NAME_CHARS = 500
_MAX_REMEMBERED_LINES = 2000
"""The number of recent lines to remember. A compaction may list lines that the model still sees."""
_MESSAGES = PromptEvent | ResponseEvent | ThinkingEvent | ToolCallEvent | ToolResultEvent


class _StreamAgent(msgspec.Struct):
    """One agent: its context, and the lines that are not in it yet."""

    recorder: AgentRecorder
    boundaries: BoundaryDetector = msgspec.field(default_factory=BoundaryDetector)
    pending: list[StreamEvent] = msgspec.field(default_factory=list)
    open: tuple[int, list[StreamEvent]] | None = None
    """For an answer that was committed when its tool started: the number of items in the context
    before the commit, and the lines of the commit.

    If more of the answer follows, it is committed again in full.
    """
    boundary: StreamEvent | None = None
    """A compaction without a summary so far."""

    def reopen_answer(self) -> None:
        """Take the messages of the last commit back, because its answer continues."""
        if self.open is not None:
            count, lines = self.open
            self.recorder.restore(self.recorder.items[:count], "rewound")
            # The pending lines have no messages. The parts of the answer are not separated by them.
            self.pending, self.open = [*self.pending, *lines], None


class StreamCommits:
    """The commits of a run."""

    def __init__(
        self,
        store: Store,
        runtime: str,
        clock: Clock,
        identity: CommitIdentity | None = None,
        redact: Credentials | None = None,
    ) -> None:
        """Write to this store. `clock` gives the time of lines without a time.

        redact: removes credentials before anything is stored, and counts them.
        """
        self._redact = redact
        self._store, self._runtime, self._clock = store, runtime, clock
        self._identity = identity or CommitIdentity()
        self._started = format_rfc3339(clock())
        """The start of the run. Later commits of the session are those of a proxy."""
        self._session_id = ""
        self._session = MemorySession()
        self._commits = SessionCommits(store, self._origin_of)
        self._agents: dict[str, _StreamAgent] = {}
        self._lines: dict[str, StreamEvent] = {}
        self._prompts: dict[str, str] = {}
        """Call id -> the prompt for the agent that the call starts."""
        self._facts: list[Event] = []
        """Events that are not messages."""
        self.newest: CommitId | None = None
        """The last commit of any agent."""

    def add(self, line_event: StreamEvent) -> None:
        """Process the next line. Raises StoreError."""
        line_event = self._with_times(line_event)
        self._learn_session(line_event)
        if not line_event.events:
            return
        self._remember(line_event)
        agent = self._agents.get(line_event.agent) or self._begin(line_event)
        if agent.boundaries.is_boundary_before(line_event):
            self._commit(agent, "turn_boundary")
            agent.open = None
        elif line_event.is_answer:
            agent.reopen_answer()
        if any(map(is_compaction, line_event.events)):
            self._commit(agent, "compaction")
            agent.boundary = line_event
        agent.pending.append(line_event)
        payloads = [event.payload for event in line_event.events]
        if agent.boundary is not None and any(
            isinstance(payload, PromptEvent) for payload in payloads
        ):
            self._compact(agent, agent.boundary, line_event)
        if any(isinstance(payload, MetricEvent) for payload in payloads):
            self._commit(agent, "session_end")
            self._commit_facts()

    def note_silence(self) -> None:
        """Handle a moment without lines: an answer with a call is complete. Raises StoreError."""
        for agent in self._agents.values():
            if agent.boundaries.is_acting and agent.pending:
                before = len(agent.recorder.items), [*map(_without_facts, agent.pending)]
                self._commit(agent, "turn_boundary")
                agent.open = before
                agent.boundaries.note_silence()

    def end(self) -> None:
        """Commit the remaining lines. Raises StoreError."""
        for agent in self._agents.values():
            self._commit(agent, "session_end")
        if self._agents and any(isinstance(event.payload, ErrorEvent) for event in self._facts):
            self._commit_facts()

    def end_after(self, ctx: CommitId, line_events: Sequence[StreamEvent]) -> None:
        """Commit the outcome of a run after its last commit, if its messages are read from a file.

        Raises StoreError.
        """
        for line_event in map(self._with_times, line_events):
            self._learn_session(line_event)
            self._facts += line_event.events
        if any(line_event.is_outcome for line_event in line_events):
            self._create_agent("", ctx)
            self._commit_facts()

    def _learn_session(self, line_event: StreamEvent) -> None:
        if not self._session_id:
            self._session_id = replace_surrogates(line_event.session[:MAX_NAME_CHARS])

    def _with_times(self, line_event: StreamEvent) -> StreamEvent:
        if all(event.timestamp for event in line_event.events):
            return line_event
        now = format_rfc3339(self._clock())
        events = [
            structs.replace(event, timestamp=event.timestamp or now) for event in line_event.events
        ]
        return structs.replace(line_event, events=tuple(events))

    def _remember(self, line_event: StreamEvent) -> None:
        if line_event.uuid:
            self._lines[line_event.uuid] = line_event
            if len(self._lines) > _MAX_REMEMBERED_LINES:
                del self._lines[next(iter(self._lines))]
        for event in line_event.events:
            call = event.payload
            if isinstance(call, ToolCallEvent) and isinstance(call.input, dict):
                prompt = call.input.get("prompt")
                if isinstance(prompt, str):
                    self._prompts[call.id] = prompt

    def _begin(self, line_event: StreamEvent) -> _StreamAgent:
        """Start a new agent. A spawned agent starts from the commit of its parent."""
        main = self._agents.get("")
        if main is None:  # Runs without a session id must not continue each other.
            main = self._create_agent("", self._find_last_commit() if self._session_id else None)
        if not line_event.agent:
            return main
        self._commit(main, "turn_boundary")
        agent = self._create_agent(line_event.agent, self._commits.last_commit(main.recorder))
        prompt = self._prompts.get(line_event.call)
        if prompt is not None and line_event.is_answer:
            prompt_event = Event(PromptEvent(prompt, "agent"), line_event.events[0].timestamp)
            agent.pending.append(StreamEvent(events=(prompt_event,), agent=line_event.agent))
        return agent

    def _create_agent(self, name: str, ctx: CommitId | None) -> _StreamAgent:
        """Create an agent. Its context starts after a commit, unless `ctx` is None."""
        session, root = self._session, self._session.state.root
        creation = AgentCreated(
            agent_id=agent_id(session.state.next_agent),
            cause=None if root is None else session.agents[root].birth,
            name=replace_surrogates(name[:MAX_NAME_CHARS]),
            spec=AgentSpec(foreign=ForeignAgent(self._runtime)),
        )
        session.append(creation)
        agent = self._agents[name] = _StreamAgent(AgentRecorder(session, creation.agent_id or ""))
        self._commits.start_after(agent.recorder, ctx)
        return agent

    def _find_last_commit(self) -> CommitId | None:
        """Return the last commit of the session before this run, which an earlier one wrote."""
        origin = self._origin_of("")
        ctx = self._store.latest_commit(origin.principal, self._started)
        if ctx is None:
            return None
        commit = self._store.commits([ctx])[ctx].commit
        return ctx if commit.session_id == origin.session_id else None

    def _commit(self, agent: _StreamAgent, trigger: Checkpoint) -> None:
        """Commit the messages of an agent since its last commit, if there are any."""
        pending, agent.pending = agent.pending, []
        for entry in self._read_entries(pending):
            logged = agent.recorder.append_item(Item.from_message(entry.message))
            self._commits.entries[logged.ids[0]] = entry
        self._commit_context(agent, trigger, _latest_time(pending))

    def _compact(self, agent: _StreamAgent, boundary: StreamEvent, summary: StreamEvent) -> None:
        """Commit a compaction: its summary, and the earlier lines that the model still sees."""
        preserved = [self._lines[uuid] for uuid in boundary.preserved if uuid in self._lines]
        pending, agent.pending, agent.boundary = agent.pending, [], None
        summary_line = structs.replace(summary, source={"kind": "system", "summary": True})
        entries = self._read_entries([*pending[:-1], summary_line, *preserved])
        items = [Item.from_message(entry.message) for entry in entries]
        agent.recorder.set_context(items, reason="compaction")
        for entry, logged in zip(entries, agent.recorder.items, strict=True):
            self._commits.entries[logged.ids[0]] = entry
        self._commit_context(agent, "compaction", _latest_time([summary]), is_compaction=True)

    def _commit_context(
        self,
        agent: _StreamAgent,
        trigger: Checkpoint,
        created_at: str | None,
        *,
        is_compaction: bool = False,
    ) -> None:
        """Commit the context of an agent. If the store fails, the next commit has its entries."""
        ctx = self._commits.commit_new(
            agent.recorder, trigger, is_compaction=is_compaction, created_at=created_at
        )
        self._commits.entries.clear()
        self.newest = ctx or self.newest

    def _commit_facts(self) -> None:
        """Commit events that are not messages, after the last commit of the main conversation."""
        main = self._agents.get("") or self._create_agent("", None)
        facts, self._facts = self._facts, []
        if self._redact is not None:
            facts = [_redact_event(event, self._redact) for event in facts]
        self.newest = self._commits.commit_events(main.recorder, facts, _format_summary(facts))

    def _origin_of(self, agent: str) -> CommitOrigin:
        if self._session_id:
            return self._identity.origin(f"{self._runtime}:{self._session_id}", agent)
        return replace(self._identity.origin(self._runtime, agent), session_id="")

    def _read_entries(self, pending: Sequence[StreamEvent]) -> list[ConversationEntry]:
        """Return the messages of lines. Other events are collected in `_facts`."""
        entries: list[ConversationEntry] = []
        for (is_answer, _), group in groupby(pending, lambda line: (line.is_answer, line.message)):
            lines = [*group]
            if is_answer:
                entries += self._to_entries(lines, _answer_source(lines))
            else:
                for line in lines:
                    entries += self._to_entries([line], _prompt_source(line))
        return entries

    def _to_entries(
        self, lines: Sequence[StreamEvent], source: dict[str, object]
    ) -> list[ConversationEntry]:
        events = [event for line in lines for event in line.events]
        messages = [event for event in events if isinstance(event.payload, _MESSAGES)]
        self._facts += [event for event in events if not isinstance(event.payload, _MESSAGES)]
        try:
            entries = [_with_source(entry, source) for entry in entries_from_events(messages)]
            return [
                structs.replace(entry, message=redact_message(entry.message, self._redact))
                for entry in entries
            ]
        except (FormatError, ValueError) as error:
            note = OutputEvent(f'"{type(error).__name__}"')
            self._facts.append(Event(note, events[0].timestamp))
            return []


def _without_facts(line: StreamEvent) -> StreamEvent:
    """Return a line without the events that are not messages, which are collected once."""
    messages = tuple(event for event in line.events if isinstance(event.payload, _MESSAGES))
    return structs.replace(line, events=messages)


def _with_source(entry: ConversationEntry, source: dict[str, object]) -> ConversationEntry:
    if entry.message.role == "tool":
        source = {**source, "kind": "tool_result"}
    return structs.replace(entry, source=source)


def _answer_source(lines: Sequence[StreamEvent]) -> dict[str, object]:
    source: dict[str, object] = {"kind": "response"}
    uuids = [line.uuid for line in lines if line.uuid]
    if uuids:
        source["uuids"] = uuids
    if lines[-1].message:
        source["id"] = lines[-1].message
    return {**source, **(lines[-1].source or {})}


def _prompt_source(line: StreamEvent) -> dict[str, object]:
    uuid_member = {"uuid": line.uuid} if line.uuid else {}
    return {"kind": "prompt", **uuid_member, **(line.source or {})}


def _latest_time(lines: Sequence[StreamEvent]) -> str | None:
    return find_latest(event.timestamp for line in lines for event in line.events)


def _redact_event(event: Event, credentials: Credentials) -> Event:
    """Return an event without credentials."""
    data = canonical.to_json_line(event.payload)
    redacted = credentials.replace_in_bytes(data)
    if redacted == data:
        return event
    return structs.replace(
        event, payload=convert(canonical.from_json(redacted), type(event.payload))
    )


def _format_summary(facts: Sequence[Event]) -> str:
    """Return a one-line summary of a run that has ended."""
    metrics = [event.payload for event in facts if isinstance(event.payload, MetricEvent)]
    return metrics[-1].summary if metrics else "ended without a result"
