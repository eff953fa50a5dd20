"""A recorded session is opened again: everything a `Run` knows is in its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harken.context.checkpoint import CommitOrigin
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.errors import LogError
from harken.formats.wire import messages_v1
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Form, Protocol
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.commits import SessionCommits
from harken.recording.item import LoggedItem, known_by
from harken.recording.rebuild import forms_in
from harken.recording.recorded_session import CallClock, PendingCall, RecordedSession
from harken.session.log.reader import events
from harken.session.session import Durability, Session, SessionOptions
from harken.store.base import Store

_FIRST_EVENTS = 3
"""The birth of the first agent is among so many."""


@dataclass(slots=True)
class _Told:
    """What a log says of the wire."""

    forms: dict[MessageId, Form] = field(default_factory=dict)
    calls: dict[str, MessageId] = field(default_factory=dict)
    protocols: dict[AgentId, Protocol] = field(default_factory=dict)
    """Of the last request of each agent."""
    open: dict[MessageId, str] = field(default_factory=dict)
    """Requests without an answer -> their calls."""
    told_by: dict[AgentId, MessageId] = field(default_factory=dict)
    """What caused that each agent is told what it is."""

    def take(self, event: ev.Event) -> None:
        """Take the next event."""
        if isinstance(event, ev.LlmRequest) and event.wire is not None:
            self.forms |= forms_in(event)
            call, name = event.wire.get("call"), event.wire.get("protocol")
            if isinstance(call, str):
                self.calls[call] = event.message_id
                self.open[event.message_id] = call
            protocol = wires.WIRES.get(name) if isinstance(name, str) else None
            self.protocols[event.agent_id or AgentId("")] = protocol or messages_v1.PROTOCOL
        elif isinstance(event, ev.TranscriptEntry):
            if event.role == "user" and isinstance(event.cause, str):
                self.told_by[event.agent_id or AgentId("")] = reference_message_id(event.cause)
        elif isinstance(event, ev.LlmResponse):
            self.open.pop(event.request, None)


def open_recorded_session(
    path: Path,
    moment: CallClock,
    *,
    durability: Durability = "turn",
    client: str = "",
    client_session: str = "",
    store: Store | None = None,
    machine: str = "",
) -> RecordedSession:
    """Open a recorded session, or begin one. Raises LogError."""
    told = _Told()
    if path.exists() and path.stat().st_size:
        for event in events(path):
            told.take(event)
    session = Session(path, options=SessionOptions(clock=moment, durability=durability))
    run = RecordedSession(session, moment, client, client_session)
    if store is not None:
        id_ = session.state.session_id or path.stem
        origin = CommitOrigin(template=client, principal=id_, machine=machine, session_id=id_)
        run.commits = SessionCommits(store, origin)
    try:
        shared: dict[tuple[MessageId, ...], LoggedItem] = {}
        for agent_id, state in session.agents.items():
            if state.is_recorded:
                _restore(run, agent_id, told, shared)
    except BaseException:
        session.close()
        raise
    run.calls = told.calls
    return run


def _restore(
    run: RecordedSession,
    agent_id: AgentId,
    told: _Told,
    shared: dict[tuple[MessageId, ...], LoggedItem],
) -> None:
    """Go on with an agent."""
    protocol = told.protocols.get(agent_id, messages_v1.PROTOCOL)
    known = partial(known_by, protocol)
    voice = AgentRecorder.resumed(
        run.session, agent_id, forms=told.forms, known=known, shared_by=shared
    )
    run.voices[agent_id], voice.told_by = voice, told.told_by.get(agent_id)
    state = run.session.agent(agent_id)
    if (
        run.commits is not None
        and state.commit_id
        and state.committed_upto
        and state.uncommitted_edit is None
    ):
        run.commits.know(voice, state.committed_upto, state.commit_id)
    said = [entry for entry in state.transcript or () if entry.role == "assistant"]
    for entry in said[-4:]:
        run.learn(voice, [entry])
    if voice.open is not None and voice.open in told.open:
        run.waiting[told.open[voice.open]] = PendingCall(voice, voice.open, protocol)


def client_of(path: Path) -> tuple[str, str]:
    """Return the client of a recorded session, and what it calls it. Raises LogError.

    Nothing but the first lines is read. LogError also where it is no recorded session.
    """
    for _, event in zip(range(_FIRST_EVENTS), events(path), strict=False):
        if isinstance(event, ev.AgentCreated) and "recorded" in (event.spec or {}):
            spec = event.spec or {}
            return str(spec["recorded"]), str(spec.get("recorded_session", ""))
    raise LogError(path, "is no recorded session")
