"""Sessions converted to log events, created from import_transcripts transcripts, and their invariants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.capture.files.imported_sessions import find_branch_tips, list_imported_sessions
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.ids import AgentId
from harken.index.catalogue import Catalogue
from harken.recording.from_commits.branches import BranchTip
from harken.recording.from_commits.session import retell
from harken.session.fold import current_messages, fold
from harken.session.session import Session, SessionOptions
from harken.session.state import SessionState
from harken.store.base import Store
from harken.store.memory import MemoryStore
from tests.unit.formats.transcript_kit import Transcript
from tests.unit.recording.from_commits.retelling_oracle import (
    check_requests,
    hash_messages,
    model_input,
)


def import_transcripts(folder: Path, **files: Transcript) -> tuple[MemoryStore, list[BranchTip]]:
    """Import transcripts of one session. Return the store and the tip of the session."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, transcript in files.items():
        (folder / f"{name.replace('_', '-')}.jsonl").write_bytes(transcript.data)
    store, catalogue = MemoryStore(), Catalogue(None)
    list(Importer(store, catalogue).run(list(iter_files(folder))))
    sessions = list_imported_sessions(catalogue)
    return store, find_branch_tips(sessions[0], sessions, catalogue)


def convert_session(store: Store, ends: Sequence[BranchTip], folder: Path) -> list[ev.Event]:
    """Convert a session to events and check the invariants of a log and of its contexts."""
    events = retell(store, "cafe", ends)
    assert events == retell(store, "cafe", ends)
    check_lawful(events, folder)
    check_contexts(store, events)
    check_requests(store, ends, events)
    return events


def check_lawful(events: Sequence[ev.Event], folder: Path) -> None:
    """Check that a session accepts all events and folds to the same state."""
    state = SessionState()
    for event in events:
        fold(state, event)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "cafe.jsonl"
    log.unlink(missing_ok=True)
    with Session(log, options=SessionOptions(durability="none")) as session:
        for event in events[1:]:
            id_, time = event.message_id, event.time
            assert session.append(event) == id_
            event.time = time  # type: ignore[misc]
        mine, resumed_state = state.describe(), session.state.describe()
        assert mine == {**resumed_state, "session_id": mine["session_id"]}


def check_contexts(store: Store, events: Sequence[ev.Event]) -> None:
    """Check that each commit and each request has the materialized context."""
    state = SessionState()
    for event in events:
        if isinstance(event, ev.LlmRequest):
            before = current_messages(state.agents[event.agent_id or AgentId("")])
            assert (event.count, event.context_hash) == (len(before), hash_messages(before))
        fold(state, event)
        if isinstance(event, ev.ContextCommitted):
            reads = current_messages(state.agents[event.agent_id or AgentId("")])
            expected = materialize(store, CommitId(event.ctx)).messages
            assert [*map(model_input, reads)] == [*map(model_input, expected)]


def outline(events: Sequence[ev.Event]) -> list[str]:
    """Return events as short lines of author and content."""
    return [
        f"{event.agent_id or '-'} {_event_text(event)}".replace("agent_00", "") for event in events
    ]


def _event_text(event: ev.Event) -> str:
    if isinstance(event, ev.TranscriptEntry):
        calls_text = "".join(f" [{call.id}]" for call in event.tool_calls or ())
        of = f" of {event.tool_call_id}" if event.tool_call_id else ""
        content = event.content if isinstance(event.content, str) else ""
        if isinstance(event.content, list):
            content = "+".join(
                getattr(part, "text", part.__class__.__name__) for part in event.content
            )
        return f"{event.role}{of}: {content}{calls_text}"
    return ev.event_type(event)
