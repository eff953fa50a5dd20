"""`StreamCommits`: commit the output of a running client while it runs.

Each commit holds the new messages of one agent since its last commit, in deltas like those of other
runtimes. Events that are not messages (start, cost, errors, unknown lines) are in the last commit
of the run, as `events-v1`.

It is used for clients without session files: see `harken.capture.live.recorder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from harken.capture.live.boundary import BoundaryDetector, is_compaction
from harken.capture.live.stream_event import StreamEvent
from harken.context.checkpoint import CommitDraft, CommitIdentity, CommitOrigin, checkpoint
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339
from harken.core.commits import Checkpoint, CommitId
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
from harken.formats.events_v1 import encode_events
from harken.formats.hub import entries_from_events
from harken.formats.tool_calls import replace_surrogates
from harken.store.base import Store

MAX_NAME_CHARS = 500
_MAX_REMEMBERED_LINES = 2000
"""The number of recent lines to remember. A compaction may list lines that the model still sees."""
_MESSAGES = PromptEvent | ResponseEvent | ThinkingEvent | ToolCallEvent | ToolResultEvent


@dataclass(slots=True)
class _StreamAgent:
    """The uncommitted lines of one agent."""

    name: str
    tip: CommitId | None
    boundaries: BoundaryDetector = field(default_factory=BoundaryDetector)
    pending: list[StreamEvent] = field(default_factory=list)
    open: tuple[CommitId | None, list[StreamEvent]] | None = None
    """For an answer that was committed when its tool started: the commit before it, and its lines.

    If more of the answer follows, it is committed again in full.
    """
    boundary: StreamEvent | None = None
    """A compaction without a summary so far."""
    is_new: bool = True


class StreamCommits:
    """The commits of a run."""

    def __init__(
        self, store: Store, runtime: str, clock: Clock, identity: CommitIdentity | None = None
    ) -> None:
        """Write to this store. `clock` gives the time of lines without a time."""
        self._store, self._runtime, self._clock = store, runtime, clock
        self._identity = identity or CommitIdentity()
        self._started = format_rfc3339(clock())
        """The start of the run. Later commits of the session are those of a proxy."""
        self._session = ""
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
        self._session = self._session or replace_surrogates(line_event.session[:MAX_NAME_CHARS])
        if not line_event.events:
            return
        self._remember(line_event)
        agent = self._agents.get(line_event.agent) or self._begin(line_event)
        if agent.boundaries.is_boundary_before(line_event):
            self._commit(agent, "turn_boundary")
            agent.open = None
        elif agent.open is not None and line_event.is_answer:
            agent.tip, agent.pending = agent.open
            agent.open = None
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
                previous = agent.tip, [*agent.pending]
                self._commit(agent, "turn_boundary")
                agent.open = previous
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
            self._session = self._session or replace_surrogates(line_event.session[:MAX_NAME_CHARS])
            self._facts += line_event.events
        if any(line_event.is_outcome for line_event in line_events):
            self._agents[""] = _StreamAgent("", ctx)
            self._commit_facts()

    def _with_times(self, line_event: StreamEvent) -> StreamEvent:
        if all(event.timestamp for event in line_event.events):
            return line_event
        now = format_rfc3339(self._clock())
        events = [replace(event, timestamp=event.timestamp or now) for event in line_event.events]
        return replace(line_event, events=tuple(events))

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
        tip = None
        if self._session:  # Runs without a session id must not continue each other.
            tip = self._find_last_commit()
        if line_event.agent and main is not None:
            self._commit(main, "turn_boundary")
            tip = main.tip
        agent = self._agents[line_event.agent] = _StreamAgent(line_event.agent, tip)
        prompt = self._prompts.get(line_event.call)
        if line_event.agent and prompt is not None and line_event.is_answer:
            prompt_event = Event(PromptEvent(prompt, "agent"), line_event.events[0].timestamp)
            agent.pending.append(StreamEvent(events=(prompt_event,), agent=line_event.agent))
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
        entries = self._entries(pending)
        if not entries:
            return
        is_spawn = bool(agent.name) and agent.is_new
        agent.is_new = False
        draft = CommitDraft(
            entries=entries,
            parent=agent.tip,
            type="snapshot" if is_spawn else "delta",
            trigger="spawn" if is_spawn else trigger,
            origin=self._origin(agent),
            created_at=_latest_time(pending),
        )
        self._set_tip(agent, checkpoint(self._store, draft))

    def _compact(self, agent: _StreamAgent, boundary: StreamEvent, summary: StreamEvent) -> None:
        """Commit a compaction: its summary, and the earlier lines that the model still sees."""
        preserved = [self._lines[uuid] for uuid in boundary.preserved if uuid in self._lines]
        pending, agent.pending, agent.boundary = agent.pending, [], None
        summary_line = replace(summary, source={"kind": "system", "summary": True})
        draft = CommitDraft(
            entries=self._entries([*pending[:-1], summary_line, *preserved]),
            parent=agent.tip,
            type="compaction",
            trigger="compaction",
            origin=self._origin(agent),
            created_at=_latest_time([summary]),
        )
        self._set_tip(agent, checkpoint(self._store, draft))

    def _commit_facts(self) -> None:
        """Commit events that are not messages, after the last commit of the main conversation."""
        agent = self._agents.get("") or _StreamAgent("", None)
        facts, self._facts = self._facts, []
        draft = CommitDraft(
            data=encode_events(facts),
            parent=agent.tip,
            trigger="session_end",
            origin=self._origin(agent),
            summary=_format_summary(facts),
            message_count=0,
            token_count=0,
            created_at=_latest(event.timestamp for event in facts),
        )
        self._set_tip(agent, checkpoint(self._store, draft))

    def _origin(self, agent: _StreamAgent) -> CommitOrigin:
        return self._origin_of(replace_surrogates(agent.name[:MAX_NAME_CHARS]))

    def _origin_of(self, agent: str) -> CommitOrigin:
        if self._session:
            return self._identity.origin(f"{self._runtime}:{self._session}", agent)
        return replace(self._identity.origin(self._runtime, agent), session_id="")

    def _set_tip(self, agent: _StreamAgent, ctx: CommitId) -> None:
        agent.tip = self.newest = ctx

    def _entries(self, pending: Sequence[StreamEvent]) -> list[ConversationEntry]:
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
            return [_with_source(entry, source) for entry in entries_from_events(messages)]
        except (FormatError, ValueError) as error:
            note = OutputEvent(f'"{type(error).__name__}"')
            self._facts.append(Event(note, events[0].timestamp))
            return []


def _with_source(entry: ConversationEntry, source: dict[str, object]) -> ConversationEntry:
    if entry.message.role == "tool":
        source = {**source, "kind": "tool_result"}
    return replace(entry, source=source)


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
    return _latest(event.timestamp for line in lines for event in line.events)


def _latest(times: Iterable[str | None]) -> str | None:
    known_times = [time for time in times if time]
    return max(known_times, key=parse_rfc3339, default=None)


def _format_summary(facts: Sequence[Event]) -> str:
    """Return a one-line summary of a run that has ended."""
    metrics = [event.payload for event in facts if isinstance(event.payload, MetricEvent)]
    return metrics[-1].summary if metrics else "ended without a result"
