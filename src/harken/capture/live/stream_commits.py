"""`StreamCommits`: what a running client says becomes commits, as it says it.

One idea: each commit is what is new since the one before it, of one agent. Messages are in deltas
like those of any other runtime; what is none (the beginning, the cost, errors, what nobody knows)
is in the last commit of the run, as `events-v1`.

It is for clients whose own files are not there: see `harken.capture.live.recorder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from harken.capture.live.boundary import BoundaryDetector, is_compaction
from harken.capture.live.stream_event import StreamEvent
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339
from harken.core.commits import Checkpoint, CommitId, hash_raw
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
from harken.formats.events_v1 import encode
from harken.formats.hub import entries_of
from harken.formats.tool_calls import clean
from harken.store.base import Store, WriteBatch

LONGEST_NAME = 500
_REMEMBERED = 2000
"""So many lines are remembered: a compaction may say that the model still sees them."""
_MESSAGES = PromptEvent | ResponseEvent | ThinkingEvent | ToolCallEvent | ToolResultEvent


@dataclass(slots=True)
class _Voice:
    """One agent: what it said since its last commit."""

    name: str
    tip: CommitId | None
    boundaries: BoundaryDetector = field(default_factory=BoundaryDetector)
    pending: list[StreamEvent] = field(default_factory=list)
    open: tuple[CommitId | None, list[StreamEvent]] | None = None
    """Of an answer that was committed when its tool began to run: the commit before it, and what
    is in it. Where more of the answer follows, it is committed again, whole."""
    boundary: StreamEvent | None = None
    """A compaction whose summary was not heard yet."""
    is_new: bool = True


class StreamCommits:
    """The commits of a run."""

    def __init__(self, store: Store, runtime: str, clock: Clock) -> None:
        """Write to this store. `clock`: for lines that do not say when they were written."""
        self._store, self._runtime, self._clock = store, runtime, clock
        self._session = ""
        self._voices: dict[str, _Voice] = {}
        self._lines: dict[str, StreamEvent] = {}
        self._prompts: dict[str, str] = {}
        """Calls, and what they ask of whom they begin."""
        self._facts: list[Event] = []
        """What is no message."""
        self.newest: CommitId | None = None
        """The last commit that was made, of any agent."""

    def take(self, heard: StreamEvent) -> None:
        """Take the next line. Raises StoreError."""
        heard = self._timed(heard)
        self._session = self._session or clean(heard.session[:LONGEST_NAME])
        if not heard.events:
            return
        self._remember(heard)
        voice = self._voices.get(heard.agent) or self._begin(heard)
        if voice.boundaries.before(heard):
            self._commit(voice, "turn_boundary")
            voice.open = None
        elif voice.open is not None and heard.is_answer:
            voice.tip, voice.pending = voice.open
            voice.open = None
        if any(map(is_compaction, heard.events)):
            self._commit(voice, "compaction")
            voice.boundary = heard
        voice.pending.append(heard)
        payloads = [event.payload for event in heard.events]
        if voice.boundary is not None and any(isinstance(one, PromptEvent) for one in payloads):
            self._compact(voice, voice.boundary, heard)
        if any(isinstance(one, MetricEvent) for one in payloads):
            self._commit(voice, "session_end")
            self._commit_facts()

    def rest(self) -> None:
        """Nothing was heard for a moment: an answer with a call is whole. Raises StoreError."""
        for voice in self._voices.values():
            if voice.boundaries.is_acting and voice.pending:
                before = voice.tip, [*voice.pending]
                self._commit(voice, "turn_boundary")
                voice.open = before
                voice.boundaries.rest()

    def end(self) -> None:
        """Commit what is left. Raises StoreError."""
        for voice in self._voices.values():
            self._commit(voice, "session_end")
        if self._voices and any(isinstance(event.payload, ErrorEvent) for event in self._facts):
            self._commit_facts()

    def _timed(self, heard: StreamEvent) -> StreamEvent:
        if all(event.timestamp for event in heard.events):
            return heard
        now = format_rfc3339(self._clock())
        events = [replace(e, timestamp=e.timestamp or now) for e in heard.events]
        return replace(heard, events=tuple(events))

    def _remember(self, heard: StreamEvent) -> None:
        if heard.uuid:
            self._lines[heard.uuid] = heard
            if len(self._lines) > _REMEMBERED:
                del self._lines[next(iter(self._lines))]
        for event in heard.events:
            call = event.payload
            if isinstance(call, ToolCallEvent) and isinstance(call.input, dict):
                prompt = call.input.get("prompt")
                if isinstance(prompt, str):
                    self._prompts[call.id] = prompt

    def _begin(self, heard: StreamEvent) -> _Voice:
        """Begin with an agent; one that was spawned goes on where its parent is."""
        main = self._voices.get("")
        tip = None
        if self._session:  # else it would go on with whatever run had no name, either
            tip = self._store.latest_commit(self._principal(""), format_rfc3339(self._clock()))
        if heard.agent and main is not None:
            self._commit(main, "turn_boundary")
            tip = main.tip
        voice = self._voices[heard.agent] = _Voice(heard.agent, tip)
        asked = self._prompts.get(heard.call)
        if heard.agent and asked is not None and heard.is_answer:
            told = Event(PromptEvent(asked, "agent"), heard.events[0].timestamp)
            voice.pending.append(StreamEvent(events=(told,), agent=heard.agent))
        return voice

    def _principal(self, agent: str) -> str:
        name = f"{self._runtime}:{self._session}" if self._session else self._runtime
        return "/".join(filter(None, (name, clean(agent[:LONGEST_NAME]))))

    def _commit(self, voice: _Voice, trigger: Checkpoint) -> None:
        """Commit what an agent said since its last commit, where that are messages."""
        pending, voice.pending = voice.pending, []
        entries = self._entries(pending)
        if not entries:
            return
        is_spawn = bool(voice.name) and voice.is_new
        voice.is_new = False
        draft = CommitDraft(
            entries=entries,
            parent=voice.tip,
            type="snapshot" if is_spawn else "delta",
            trigger="spawn" if is_spawn else trigger,
            origin=self._origin(voice),
            created_at=_time(pending),
        )
        self._made(voice, checkpoint(self._store, draft))

    def _compact(self, voice: _Voice, boundary: StreamEvent, summary: StreamEvent) -> None:
        """Commit a compaction: its summary, and what the model still sees of what was before."""
        kept = [self._lines[uuid] for uuid in boundary.preserved if uuid in self._lines]
        pending, voice.pending, voice.boundary = voice.pending, [], None
        told = replace(summary, source={"kind": "system", "summary": True})
        draft = CommitDraft(
            entries=self._entries([*pending[:-1], told, *kept]),
            parent=voice.tip,
            type="compaction",
            trigger="compaction",
            origin=self._origin(voice),
            created_at=_time([summary]),
        )
        self._made(voice, checkpoint(self._store, draft))

    def _commit_facts(self) -> None:
        """Commit what is no message, after the last commit of the main conversation."""
        voice = self._voices.get("") or _Voice("", None)
        facts, self._facts = self._facts, []
        data = encode(facts)
        self._store.write(WriteBatch(raw={hash_raw(data): data}))
        draft = CommitDraft(
            artifact=hash_raw(data),
            parent=voice.tip,
            trigger="session_end",
            origin=self._origin(voice),
            summary=_told(facts),
            message_count=0,
            token_count=0,
            created_at=_latest(event.timestamp for event in facts),
        )
        self._made(voice, checkpoint(self._store, draft))

    def _origin(self, voice: _Voice) -> CommitOrigin:
        return CommitOrigin(principal=self._principal(voice.name), session_id=self._session)

    def _made(self, voice: _Voice, ctx: CommitId) -> None:
        voice.tip = self.newest = ctx

    def _entries(self, pending: Sequence[StreamEvent]) -> list[ConversationEntry]:
        """Return the messages of lines; what is none is put aside."""
        found: list[ConversationEntry] = []
        for (is_answer, _), group in groupby(pending, lambda one: (one.is_answer, one.message)):
            lines = [*group]
            if is_answer:
                found += self._said(lines, _answer_source(lines))
            else:
                for line in lines:
                    found += self._said([line], _heard_source(line))
        return found

    def _said(
        self, lines: Sequence[StreamEvent], source: dict[str, object]
    ) -> list[ConversationEntry]:
        events = [event for line in lines for event in line.events]
        messages = [event for event in events if isinstance(event.payload, _MESSAGES)]
        self._facts += [event for event in events if not isinstance(event.payload, _MESSAGES)]
        try:
            return [_entry(one, source) for one in entries_of(messages)]
        except (FormatError, ValueError) as error:
            note = OutputEvent(f'"{type(error).__name__}"')
            self._facts.append(Event(note, events[0].timestamp))
            return []


def _entry(entry: ConversationEntry, source: dict[str, object]) -> ConversationEntry:
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


def _heard_source(line: StreamEvent) -> dict[str, object]:
    named = {"uuid": line.uuid} if line.uuid else {}
    return {"kind": "prompt", **named, **(line.source or {})}


def _time(lines: Sequence[StreamEvent]) -> str | None:
    return _latest(event.timestamp for line in lines for event in line.events)


def _latest(times: Iterable[str | None]) -> str | None:
    known = [time for time in times if time]
    return max(known, key=parse_rfc3339, default=None)


def _told(facts: Sequence[Event]) -> str:
    """Return one line about a run that has ended."""
    metrics = [event.payload for event in facts if isinstance(event.payload, MetricEvent)]
    metric = metrics[-1] if metrics else MetricEvent()
    parts = [metric.status or ("ended" if metrics else "ended without a result")]
    if metric.turn_count is not None:
        parts.append(f"{metric.turn_count} turn{'' if metric.turn_count == 1 else 's'}")
    if metric.cost_usd is not None:
        parts.append(f"${metric.cost_usd:.4f}")
    return ", ".join(parts)
