"""Every session of the transcripts is looked at with every view, and could be written as a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harken.capture.files.imported_sessions import (
    ImportedSession,
    find_branch_tips,
    list_imported_sessions,
)
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.ids import AgentId
from harken.formats.runtimes.registry import find_runtime_format
from harken.formats.runtimes.sent_requests import SentRequests
from harken.index.catalogue import Catalogue
from harken.recording.from_commits.branches import BranchTip
from harken.recording.from_commits.session import retell
from harken.session.fold import current_messages, fold
from harken.session.invariants import check_event, encode_checked_event
from harken.session.state import SessionState
from harken.store.memory import MemoryStore
from harken.views.viewer import SessionViewer
from tests.acceptance.shared_data import DATA, needed
from tests.unit.recording.from_commits.retelling_oracle import (
    check_requests,
    describe,
    digest,
    model_input,
)

FOLDERS = sorted(path.name for path in (DATA / "transcripts").glob("*"))
EVERY = 32
"""So many commits are passed over between two whose conversations are compared."""

DIGESTS = Path(__file__).with_name("retold_sessions.json")
"""Session -> kind of event -> their number and hash, as `describe` shows them."""

pytestmark = needed


Retold = tuple[ImportedSession, Sequence[BranchTip], list[ev.Event]]


def retell_folder(store: MemoryStore, folder: str) -> Iterator[Retold]:
    """Import the transcripts of a folder into a store. Yield each session with its events."""
    catalogue = Catalogue(None)
    list(Importer(store, catalogue).run(list(iter_files(DATA / "transcripts" / folder))))
    sessions = list_imported_sessions(catalogue)
    for session in sessions:
        ends = find_branch_tips(session, sessions, catalogue)
        yield session, ends, retell(store, session.name, ends, read_requests(store, session))


@pytest.mark.parametrize("folder", FOLDERS)
def test_imported_session_is_viewed_like_a_log(folder: str) -> None:
    store = MemoryStore()
    for session, ends, events in retell_folder(store, folder):
        check_lawful(events)
        check_requests(store, ends, events)
        check_commits(store, events)
        check_usage(session, events)
        check_described(session.name, events)
        check_views(SessionViewer.of(events, session.name))


def read_requests(store: MemoryStore, session: ImportedSession) -> list[SentRequests]:
    """Return the requests that the files of a session record."""
    runtime = find_runtime_format(session.runtime)
    if runtime is None or runtime.sent_requests is None:
        return []
    return [runtime.sent_requests(store.read_chunks(raw)) for raw in session.raw_files]


def check_described(name: str, events: list[ev.Event]) -> None:
    """Check that agents, links, calls and commits are those that were once checked by reading.

    `python -m tests.acceptance.test_retold_transcripts` writes them anew.
    """
    known = json.loads(DIGESTS.read_bytes())
    if name in known:
        digests = {kind: digest(rows) for kind, rows in describe(events).items()}
        assert (name, digests) == (name, known[name])


def check_lawful(events: list[ev.Event]) -> None:
    state = SessionState()
    for event in events:
        check_event(state, event)
        assert not isinstance(event, ev.UnknownEvent)
        encode_checked_event(event)
        fold(state, event)


def check_commits(store: MemoryStore, events: list[ev.Event]) -> None:
    """Check that an agent reads at a commit what it materializes to."""
    state, passed = SessionState(), 0
    commits = [event for event in events if isinstance(event, ev.ContextCommitted)]
    last = {event.agent_id: event for event in commits}
    for event in events:
        fold(state, event)
        if isinstance(event, ev.ContextCommitted):
            passed += 1
            if passed % EVERY == 0 or event in last.values():
                reads = current_messages(state.agents[event.agent_id or AgentId("")])
                expected = materialize(store, CommitId(event.ctx)).messages
                assert [*map(model_input, reads)] == [*map(model_input, expected)], event.ctx


def check_usage(session: ImportedSession, events: list[ev.Event]) -> None:
    """Check that of Claude Code each response with usage is told once: by a count of its own."""
    if session.runtime != "claude":
        return
    request_ids: set[str] = set()
    for source in session.sources:
        for line in Path(source).read_bytes().splitlines():
            record = json.loads(line)
            body = record.get("message") if record.get("type") == "assistant" else None
            if isinstance(body, dict) and body.get("usage") and not record.get("isApiErrorMessage"):
                request_ids.add(str(body.get("id")) if body.get("model") != "<synthetic>" else "")
    responses = [event for event in events if isinstance(event, ev.LlmResponse)]
    assert sum(response.usage is not None for response in responses) == len(request_ids - {""})


def check_views(viewer: SessionViewer) -> None:
    """Look at a session in every way."""
    agents = list(viewer.list_agents())
    assert [row.agent_id for row in viewer.tree()] != []
    assert len(viewer.timeline().marks) == len(viewer.events)
    viewer.extract_dialog(agents)
    for agent in agents:
        viewer.extract_agent_perspective(agent)
        viewer.get_transcript(agent)
    viewer.interventions()
    viewer.verdicts()
    requests = [event for event in viewer.events if isinstance(event, ev.LlmRequest)]
    if requests:
        last = requests[-1].message_id
        assert not viewer.context(last).is_damaged
        viewer.trace_message_flow(last)
        viewer.trace_content_references(last)


def main() -> None:
    """Write the digests of all sessions."""
    known = {
        session.name: {kind: digest(rows) for kind, rows in describe(events).items()}
        for folder in FOLDERS
        for session, _, events in retell_folder(MemoryStore(), folder)
    }
    DIGESTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
