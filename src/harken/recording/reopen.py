"""Reopen a recorded session. All state of a `RecordedSession` is restored from its log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from harken.context.checkpoint import CommitIdentity
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.errors import LogError
from harken.formats.runtimes.client_sessions import identify_session
from harken.formats.wire import messages_v1
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Form, Protocol
from harken.recording.rebuild import request_forms
from harken.recording.recorded_session import CallClock, PendingCall, RecordedSession
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.commits import RunTotals, SessionCommits
from harken.recording.writer.item import SharedItems, compute_logged_key
from harken.session.log.reader import iter_events
from harken.session.session import Session, SessionOptions
from harken.store.base import Store

_FIRST_EVENTS = 3
"""The creation of the first agent is within this number of events."""


class _WireData(msgspec.Struct):
    """The wire data in a log."""

    forms: dict[MessageId, Form] = msgspec.field(default_factory=dict)
    calls: dict[str, MessageId] = msgspec.field(default_factory=dict)
    protocols: dict[AgentId, Protocol] = msgspec.field(default_factory=dict)
    """The protocol of the last request of each agent."""
    open: dict[MessageId, str] = msgspec.field(default_factory=dict)
    """Requests without a response -> their calls."""
    user_message_causes: dict[AgentId, MessageId] = msgspec.field(default_factory=dict)
    """The cause of the user messages of each agent."""

    def add(self, event: ev.Event) -> None:
        """Process the next event."""
        if isinstance(event, ev.LlmRequest) and event.wire is not None:
            self.forms |= request_forms(event)
            call, name = event.wire.get("call"), event.wire.get("protocol")
            if isinstance(call, str):
                self.calls[call] = event.message_id
                self.open[event.message_id] = call
            protocol = wires.WIRE_PROTOCOLS.get(name) if isinstance(name, str) else None
            self.protocols[event.agent_id or AgentId("")] = protocol or messages_v1.PROTOCOL
        elif isinstance(event, ev.TranscriptEntry):
            if event.role == "user" and isinstance(event.cause, str):
                self.user_message_causes[event.agent_id or AgentId("")] = reference_message_id(
                    event.cause
                )
        elif isinstance(event, ev.LlmResponse):
            self.open.pop(event.request, None)


def open_recorded_session(
    path: Path,
    moment: CallClock,
    *,
    options: SessionOptions,
    client: str = "",
    client_session: str = "",
    store: Store | None = None,
    identity: CommitIdentity | None = None,
) -> RecordedSession:
    """Open a recorded session, or create it. Raises LogError."""
    wire_data, totals = _WireData(), RunTotals()
    if path.exists() and path.stat().st_size:
        for event in iter_events(path):
            wire_data.add(event)
            totals.add(event)
    session = Session(path, options=replace(options, clock=moment))
    session.add_listener(totals.add)
    recorded = RecordedSession(session, moment, client, client_session, totals=totals)
    if store is not None:
        native_session = identify_session(client, client_session)
        id_ = (
            native_session.name
            if native_session is not None
            else session.state.session_id or path.stem
        )
        identity = identity or CommitIdentity()
        origin_of = partial(identity.origin, id_, template=identity.template or client)
        recorded.commits = SessionCommits(store, origin_of, is_named=native_session is not None)
    try:
        shared_items = SharedItems()
        for agent_id, state in session.agents.items():
            if state.is_recorded:
                _restore_agent(recorded, agent_id, wire_data, shared_items)
    except BaseException:
        session.close()
        raise
    recorded.requests_by_call = wire_data.calls
    return recorded


def _restore_agent(
    recorded: RecordedSession,
    agent_id: AgentId,
    wire_data: _WireData,
    shared_items: SharedItems,
) -> None:
    """Restore the recorder of an agent."""
    protocol = wire_data.protocols.get(agent_id, messages_v1.PROTOCOL)
    make_key = partial(compute_logged_key, protocol)
    recorder = AgentRecorder.from_log(
        recorded.session, agent_id, forms=wire_data.forms, known=make_key, shared_by=shared_items
    )
    recorded.recorders[agent_id], recorder.user_message_cause = (
        recorder,
        wire_data.user_message_causes.get(agent_id),
    )
    state = recorded.session.agent(agent_id)
    if (
        recorded.commits is not None
        and state.commit_id
        and state.committed_upto
        and state.uncommitted_edit is None
    ):
        recorded.commits.register(recorder, state.committed_upto, state.commit_id)
    answers = [entry for entry in state.transcript or () if entry.role == "assistant"]
    for entry in answers[-4:]:
        recorded.note_answers(recorder, [entry])
    if recorder.open_request is not None and recorder.open_request in wire_data.open:
        recorded.pending_calls[wire_data.open[recorder.open_request]] = PendingCall(
            recorder, recorder.open_request, protocol
        )


def read_client(path: Path) -> tuple[str, str]:
    """Return the client of a recorded session, and the client's name for the session.

    Only the first events are read. Raises LogError if the log cannot be read, or is not a recorded
    session.
    """
    for _, event in zip(range(_FIRST_EVENTS), iter_events(path), strict=False):
        foreign = event.spec.foreign if isinstance(event, ev.AgentCreated) and event.spec else None
        if foreign is not None:
            return foreign.program, foreign.session or ""
    raise LogError(path, "is not a recorded session")
