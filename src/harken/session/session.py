"""`Session`: the single writer of a log, and the state that its events define.

An event is checked, written as one line, and folded as a reader decodes it, in that
order; so the state never gets ahead of the file, and equals the state after a resume. The events
of a group are folded first and written with one write: a reader sees all of them or none.
After a failed write the session accepts no more events. `Session` allocates the ids of messages
and agents, and never reuses one, in this process or after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.event_types.message_parser import parse_message
from harken.core.event_types.spec import AgentSpec, TemplateOrigin
from harken.core.ids import AgentId, MessageId, agent_id, message_id
from harken.core.messages import ChatMessage, Message
from harken.core.secrets.redaction import Credentials
from harken.errors import (
    HarkenError,
    InvalidEvent,
    InvalidLog,
    LogCorrupted,
    LogError,
    LogReadOnly,
    NameNotFound,
)
from harken.session.agent_memory import AgentMemory
from harken.session.fold import Resolver, current_messages, fold, iter_loaded_entries
from harken.session.invariants import check_event, encode_stored_event, load_commit_messages
from harken.session.line_offsets import LineOffsets
from harken.session.log.checksum import seal, seal_group
from harken.session.log.compressed import stat_log
from harken.session.log.file import Disk, LogFile
from harken.session.log.reader import LogReadReport, iter_events, iter_records, paused_gc
from harken.session.state import AgentState, SessionState

Durability: TypeAlias = Literal["turn", "always", "none"]
"""When appended events are synced to disk: at every `sync` (before a tool acts, before an answer is
shown), after every event, or never (even then a crash of the process alone loses nothing)."""

Listener: TypeAlias = Callable[[ev.Event], None]


@check_arguments
@dataclass(slots=True, frozen=True, kw_only=True)
class SessionOptions:
    """Options of a session; all have defaults."""

    durability: Durability = "turn"
    clock: Clock = system_clock
    disk: Disk | None = None
    resolver: Resolver | None = None
    """Returns the messages of commits that agents started from."""
    in_memory: int | None = 256
    """Maximum number of agents with transcripts in memory. Beyond it the least recently used idle
    agents are evicted, and read again when they are needed. None: no limit."""
    folder: Path | None = None
    """The folder in which a new session works; the birth of its first agent records it."""
    template: TemplateOrigin | None = None
    """The template of the first agent of a new session, for its birth."""
    redact: Credentials | None = None
    """Removes credentials from events before they are stored, and counts them."""


class _Appended(NamedTuple):
    """An event of an open group."""

    body: bytes
    event: ev.Event
    resolver: Resolver | None


@check_arguments
class Session:
    """The state of one run, backed by its log. Use as a context manager, or call `close`."""

    def __init__(self, session_file: str | Path, *, options: SessionOptions | None = None) -> None:
        """Open a log for writing: continue it, or begin a new one in a missing or empty file.

        Raises LogLocked, LogCorrupted, LogReadOnly, LogVersionUnsupported, InvalidLog,
        LogWriteError.
        """
        self.path = Path(session_file).absolute()
        self.options = options or SessionOptions()
        self.state = SessionState()
        self.opened_at = 0
        """The number of the first event that this object logged."""
        self.torn: Path | None = None
        """The file to which a torn last line was moved at opening; None if there was none."""
        self._memory = AgentMemory(self.state, self.options.in_memory)
        self._offsets: LineOffsets | None = None
        self._lock = RLock()
        self._checksum = b""
        self._allocated = 0
        self._unsynced = False
        self._group: list[_Appended] | None = None
        """The events of the open group, oldest first."""
        self._deferred: dict[AgentId, list[Message]] = {}
        self._listeners: list[Listener] = []
        self._file = LogFile(self.path, disk=self.options.disk, create=True)
        try:
            if self.path.stat().st_size == 0:
                self._begin()
            else:
                self._recover()
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def load(session_file: str | Path, *, options: SessionOptions | None = None) -> Session:
        """Continue an existing log: both counters and all agents, also removed ones, are restored.

        Raises LogNotFound if there is none, and as `Session`.
        """
        path = Path(session_file)
        LogFile(path).close()
        if stat_log(path).size_bytes == 0:
            raise InvalidLog(path, "is empty: it has no event; start a new session")
        return Session(path, options=options)

    def _begin(self) -> None:
        self.append(ev.SessionStarted(session_id=self.path.stem, schema_version=ev.SCHEMA_VERSION))
        if self.options.durability != "none":
            self._file.sync_name()
            self.sync()

    def _recover(self) -> None:
        reading = LogReadReport()
        event: ev.Event | None = None
        try:
            with paused_gc():
                for event, _ in iter_records(self.path, reading):
                    fold(self.state, event, self.options.resolver)
        except ValueError as error:
            raise self._fold_error(event, error, reading.end) from None
        if not reading.sealed:
            raise LogReadOnly(self.path, dialect=reading.dialect or "without checksums")
        self._checksum, self.opened_at = reading.last_sum, self.state.next_message
        if reading.torn:
            self.torn = self._file.set_aside(reading.end, reading.torn)
        if reading.missing_newline:
            self._file.append(b"\n")
        # A killed process may have written these events without syncing them.
        self._unsynced = True
        if self.options.durability != "none":
            self._file.sync_name()
        self._memory.note_all()

    def _fold_error(self, event: ev.Event | None, error: ValueError, end: int) -> LogError:
        """Return an error for the last line of the first `end` bytes, which cannot be folded."""
        if isinstance(event, ev.ContextLoaded):
            return LogError(self.path, f"{error}; the log itself is intact")
        data = self.path.read_bytes()[:end]
        line, byte = data.count(b"\n"), data.rfind(b"\n", 0, -1) + 1
        return LogCorrupted(self.path, line=line, byte=byte, reason=str(error))

    def next_id(self) -> MessageId:
        """Return the id that the next event will get."""
        return message_id(self.state.next_message)

    def append(self, event: ev.Event) -> MessageId:
        """Append an event to the log, with a new id and time. Return the id.

        With durability `always` the event is on disk on return, with `turn` after the next
        `sync`. Raises InvalidEvent (nothing was written), or LogWriteError: the event may or
        may not be in the log, and every later append is refused.
        """
        with self._lock:  # A tool may log from a thread.
            body, event, resolver = self._admit(event)
            if self._group is not None:
                self._group.append(_Appended(body, event, resolver))
                fold(self.state, event, resolver)
                return event.message_id
            line, checksum = seal(self._checksum, body)
            try:
                self._file.append(line)
                self._checksum, self._unsynced = checksum, True
                fold(self.state, event, resolver)
                if self._offsets is not None:
                    self._offsets.add(event, len(line))
            except BaseException:  # Also a Ctrl-C: file and state may differ, so appends must end.
                self._file.refuse("the append before was broken off")
                raise
            if self.options.durability == "always":
                self.sync()
            self._announce(event)
            return event.message_id

    def _announce(self, *events: ev.Event) -> None:
        """Note the use of agents, and tell the listeners of events that are in the log."""
        for event in events:
            self._memory.note_use(event.agent_id)
        for event in events:
            for listener in self._listeners:
                listener(event)

    def _write_group(self, group: Sequence[_Appended]) -> None:
        """Write the events of a group, which are folded already, with one write."""
        lines, checksum = seal_group(self._checksum, [appended.body for appended in group])
        try:
            self._file.append(b"".join(lines))
            self._checksum, self._unsynced = checksum, True
            if self._offsets is not None:
                for appended, line in zip(group, lines, strict=True):
                    self._offsets.add(appended.event, len(line))
        except BaseException:
            self._file.refuse("the append before was broken off")
            raise
        if self.options.durability == "always":
            self._sync()

    def _discard(self, group: list[_Appended], start: int) -> None:
        """Discard the events of a group from `start`: restore the state from the log."""
        if len(group) == start:
            return
        born = [appended.event for appended in group[start:]]
        del group[start:]
        state = SessionState()
        try:
            for event in iter_events(self.path) if stat_log(self.path).size_bytes else ():
                fold(state, event, self.options.resolver)
        except (HarkenError, OSError, ValueError):
            self._file.refuse("the append before was broken off, and the log cannot be read")
            return
        except BaseException:  # A Ctrl-C: the state may have events that are not in the file.
            self._file.refuse("the append before was broken off")
            raise
        for appended in group:
            fold(state, appended.event, appended.resolver)
        self.state.replace(state)
        for event in born:
            if isinstance(event, ev.AgentCreated) and event.agent_id is not None:
                self.live.pop(event.agent_id, None)
        self._memory.note_all()

    def append_all(self, batch: Sequence[ev.Event]) -> list[MessageId]:
        """Append several events as one group. Return their ids. Raises as `append`."""
        with self.group():
            return [self.append(event) for event in batch]

    @contextmanager
    def group(self) -> Iterator[None]:
        """Write the events that the block appends at its end, as one: all are in the log or none.

        In the block each event is checked, numbered and folded as usual, so that later code in it
        sees the new state; listeners are called after the block. If the block raises, its events
        are discarded, and agent objects that were born in it are forgotten. Groups nest: the
        events of an inner group belong to the outer one. The block must not wait or sync:
        other threads cannot append meanwhile. Raises LogWriteError at its end.
        """
        with self._lock:
            is_outer = self._group is None
            if self._group is None:
                self._group = []
            group, start = self._group, len(self._group)
            try:
                yield
                if is_outer and group:
                    self._write_group(group)
            except BaseException:
                self._discard(group, start)
                raise
            finally:
                if is_outer:
                    self._group = None
            if is_outer:
                self._announce(*(appended.event for appended in group))

    def _admit(self, event: ev.Event) -> tuple[bytes, ev.Event, Resolver | None]:
        """Check an event and set its id and time. Return its JSON and the event decoded from it."""
        resolver = self.options.resolver
        self._reload_for(event)
        if self._group is not None and event.agent_id in self.state.agents:
            self.agent(event.agent_id)  # The file does not have the events of the group.
        check_event(self.state, event)
        if isinstance(event, ev.UnknownEvent):
            raise InvalidEvent(f"events of type {event.event_type} are read, not written")
        if isinstance(event, ev.ContextLoaded):
            messages = load_commit_messages(event, resolver)
            resolver = lambda _: messages  # noqa: E731 - called once: a second call may fail
        event.message_id = self.next_id()
        event.time = format_rfc3339(self.options.clock())
        return (*encode_stored_event(self.state, event, self.options.redact), resolver)

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with every event from now on, after it is written and folded."""
        self._listeners.append(listener)

    def sync(self) -> None:
        """Return when all appended events would survive a power cut (durability `none`: at once).

        Called before a tool acts and before an answer is shown, not in a group. Raises
        LogWriteError.
        """
        with self._lock:
            if self._group is not None:
                raise RuntimeError("sync was called in a group, whose events are not written yet")
            self._sync()

    def _sync(self) -> None:
        if self._unsynced and self.options.durability != "none":
            self._file.sync()
        self._unsynced = False

    def end(self, reason: str | None = None) -> None:
        """Log a deliberate end of the session, and close it."""
        self.append(ev.SessionEnded(reason=reason))
        self.close()

    def close(self) -> None:
        """Sync all events and release the log. A second call does nothing."""
        try:
            self.sync()
        finally:
            self._unsynced = False
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def allocate_agent_id(self) -> AgentId:
        """Return a new agent id, never used before in this session: `agent_003`."""
        self._allocated = max(self._allocated, self.state.next_agent - 1) + 1
        return agent_id(self._allocated)

    def defer_messages(self, agent_id: AgentId, messages: Sequence[Message]) -> None:
        """Store messages to log as the agent's first entries, directly after its birth."""
        self._deferred[agent_id] = list(messages)

    def log_agent_created(
        self,
        agent_id: str,
        cause: ev.Cause = None,
        name: str | None = None,
        language_model: str | None = None,
        *,
        relation: ev.Relation | None = None,
        spec: AgentSpec | None = None,
    ) -> MessageId:
        """Log a birth. The creator of the agent calls this, not the agent itself.

        The agent's deferred messages, such as its system prompt, follow as its first entries with
        the same cause. Returns the id of the birth. Raises InvalidEvent for an unknown cause, a
        second birth of the same id, or a second root.
        """
        identity = AgentId(agent_id)
        birth = ev.AgentCreated(
            agent_id=identity,
            cause=cause,
            name=name,
            language_model=language_model,
            relation=relation or ("primary" if cause is None else "subagent"),
            spec=spec,
        )
        with self.group():
            id_ = self.append(birth)
            for message in self._deferred.get(identity, ()):
                self.append(build_entry(identity, message, cause=cause))
        self._deferred.pop(identity, None)
        return id_

    def log_transcript_entry(
        self,
        agent_id: str,
        message: Mapping[str, Any],
        substance: str | None = None,
        *,
        cause: ev.Cause = None,
    ) -> MessageId:
        """Log a message (role, content, tool_calls, tool_call_id, name) that entered a transcript.

        `substance` is the original that it represents, absent if it is itself one. Returns
        its id. Raises InvalidEvent if it violates an invariant or is not a message.
        """
        try:
            parsed = parse_message(message)
        except ValueError as error:
            raise InvalidEvent(f"not a message: {error}") from None
        return self.append(build_entry(AgentId(agent_id), parsed, substance=substance, cause=cause))

    def log_piece_of_text(self, agent_id: str, content: str, cause: ev.Cause) -> MessageId:
        """Log a text that an agent wrote for other agents. `cause` is one message or several."""
        event = ev.PieceOfText(agent_id=AgentId(agent_id), content=str(content), cause=cause)
        return self.append(event)

    @property
    def live(self) -> dict[AgentId, object]:
        """The agent objects in memory, by id; any of them may be evicted and loaded again."""
        return self._memory.live

    @property
    def agents(self) -> Mapping[AgentId, AgentState]:
        """All agents of the session, also removed ones, by id. Their transcripts may be evicted."""
        return self.state.agents

    def agent(self, agent_id: str) -> AgentState:
        """Return an agent with its transcript in memory. An evicted transcript is read again.

        Raises NameNotFound.
        """
        state = self.state.agents.get(AgentId(agent_id))
        if state is None:
            raise NameNotFound("agent", agent_id, self.state.agents)
        if state.transcript is None:
            self._reload(state)
        else:
            self._memory.note_read(state.id)
        return state

    def context(self, agent_id: str) -> Sequence[ChatMessage]:
        """Return the agent's current context, oldest message first."""
        return current_messages(self.agent(agent_id))

    def evict(self, agent_id: str) -> None:
        """Drop an agent's transcript from memory. `agent` reads it from the log again.

        Raises NameNotFound.
        """
        state = self.state.agents.get(AgentId(agent_id))
        if state is None:
            raise NameNotFound("agent", agent_id, self.state.agents)
        state.transcript = state.context = None
        self._memory.forget(state.id)

    def live_agent(self, agent_id: AgentId) -> object | None:
        """Return the live or still referenced object of an agent. Return None if it has none."""
        return self._memory.live_agent(agent_id)

    def _reload_for(self, event: ev.Event) -> None:
        """Read the evicted transcripts that an event depends on."""
        if not isinstance(event, (ev.TranscriptEdited, ev.ContextLoaded)):
            return
        if event.agent_id is None or event.agent_id not in self.agents:
            return
        self.agent(event.agent_id)
        if isinstance(event, ev.TranscriptEdited):
            missing = {id_ for segment in event.segments for id_ in segment.entries or ()}
            for state in self.agents.values() if missing else ():
                missing -= {entry.message_id for entry in iter_loaded_entries(state)}
            for id_ in missing:
                owner = self._line_offsets().find_owner(self.path, id_)
                if owner in self.agents:
                    self.agent(str(owner))

    def _reload(self, agent: AgentState) -> None:
        """Read an agent's transcript from the log. Raises LogCorrupted if the log was changed."""
        with self._lock:
            try:
                loaded_agent = self._line_offsets().read_agent(
                    self.path, agent.id, self.options.resolver
                )
            except ValueError:  # A line fails its checksum, or is not in the index.
                state = SessionState()
                for event in iter_events(self.path):
                    fold(state, event, self.options.resolver)
                loaded_agent = state.agents[agent.id]
            agent.transcript, agent.context = loaded_agent.transcript, loaded_agent.context
            self._memory.note_loaded(agent.id)

    def _line_offsets(self) -> LineOffsets:
        if self._offsets is None:
            self._offsets = LineOffsets.from_log(self.path)
        return self._offsets


def build_entry(
    agent: AgentId,
    message: ChatMessage,
    *,
    substance: str | None = None,
    cause: ev.Cause = None,
    purpose: ev.Purpose | None = None,
) -> ev.TranscriptEntry:
    """Create the transcript entry of a message."""
    content = message.content
    return ev.TranscriptEntry(
        agent_id=agent,
        role=message.role,
        content=str(content) if isinstance(content, str) else content,
        substance=None if substance is None else MessageId(substance),
        cause=cause,
        tool_calls=message.tool_calls or None,
        tool_call_id=message.tool_call_id,
        name=message.name,
        is_error=message.is_error,
        purpose=purpose,
    )
