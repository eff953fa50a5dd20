"""Agent contexts: requests, edits, commits, and every context rebuilt from the log."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ImagePart, Message, TextPart, ThinkingPart
from harken.errors import LogCorrupted, LogError
from harken.session.fold import context_length, current_messages, find_entries
from harken.session.log.reader import iter_events
from harken.session.segments import resolve_context
from harken.session.session import Session
from harken.session.state import AgentState
from tests.session_kit import (
    context_texts,
    create_agent,
    entry_segment,
    find_line,
    fold_log,
    hash_context,
    log_answer,
    log_edit,
    log_request,
    log_user_message,
    new_session,
    range_segment,
    reload_session,
    session_options,
    without_log_fields,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with one agent. At teardown its log must fold to the live state."""
    with new_session(tmp_path) as session:
        create_agent(session)
        yield session
        live = session.state.describe()
    assert fold_log(session.path, session.options.resolver).describe() == live


def agent(session: Session, id_: AgentId = ROOT) -> AgentState:
    """Return the state of the agent, read from the log."""
    return fold_log(session.path, session.options.resolver).agents[id_]


def contexts(session: Session) -> dict[str, list[Message]]:
    """Return the context of every request, rebuilt from the log alone."""
    events = list(iter_events(session.path))
    requests = {e.message_id: e for e in events if isinstance(e, ev.LlmRequest)}
    entries = {e.message_id: e for e in events if isinstance(e, ev.TranscriptEntry)}
    resolver = session.options.resolver
    commits = {e.message_id: e for e in events if isinstance(e, ev.ContextLoaded)}

    def loaded(id_: MessageId) -> Any:
        return resolver(commits[id_]) if resolver else None

    return {
        id_: without_log_fields(resolve_context(request, requests, entries, loaded))
        for id_, request in requests.items()
    }


@pytest.mark.req("S0-22")
def test_every_context_is_rebuilt_after_prompts_edits_and_compaction(
    session: Session,
) -> None:
    live: dict[str, list[Message]] = {}

    def look() -> None:
        live[log_request(session, ROOT)] = without_log_fields(session.context(ROOT))

    look()
    for n in range(6):
        log_user_message(session, ROOT, f"heard {n}")
        look()
        log_answer(session, ROOT, f"said {n}")
    look()
    prompt = session.log_transcript_entry(ROOT, {"role": "system", "content": "be brief"})
    log_edit(session, ROOT, entry_segment(prompt), range_segment(0, 12))
    look()
    log_edit(session, ROOT, range_segment(0, 5), range_segment(9, 13))
    log_user_message(session, ROOT, "more")
    look()
    summary = log_answer(session, ROOT, "in short")
    log_edit(
        session,
        ROOT,
        range_segment(0, 1),
        entry_segment(summary),
        range_segment(8, 10),
        summary=summary,
    )
    log_edit(session, ROOT, range_segment(0, 2), range_segment(0, 1))
    look()
    log_edit(session, ROOT)
    look()
    log_user_message(session, ROOT, "again")
    look()
    assert contexts(session) == live
    assert [len(live[id_]) for id_ in live][-3:] == [3, 0, 1]
    for request, context in live.items():
        assert find_line(session, request)["context_hash"] == hash_context(context)


@pytest.mark.req("S0-22", "S0-21")
def test_edit_may_insert_entries_of_another_agent(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    input_id = log_user_message(session, jack, "a secret")
    log_edit(session, ROOT, entry_segment(input_id))
    assert context_texts(session, ROOT) == ["a secret"]
    assert [m.content for m in agent(session).context or ()] == ["a secret"]
    request = log_request(session, ROOT)
    assert [m.content for m in contexts(session)[request]] == ["a secret"]


def test_edit_does_not_change_the_transcript(session: Session) -> None:
    input_ids = [log_user_message(session, ROOT, text) for text in "abc"]
    log_edit(session, ROOT, range_segment(2, 3), reason="test")
    log_user_message(session, ROOT, "d")
    state = agent(session)
    assert [entry.content for entry in state.transcript or ()] == ["a", "b", "c", "d"]
    assert [message.content for message in current_messages(state)] == ["c", "d"]
    assert context_length(state) == 2
    assert state.segments() == [entry_segment(input_ids[2]), entry_segment(MessageId("msg_006"))]


STORE = {
    "ctx-two": [Message("system", "be kind"), Message("user", [TextPart("look"), ImagePart()])],
    "ctx-one": [Message("assistant", [ThinkingPart("hm"), TextPart("well")])],
}


def load_commit(session: Session, agent_id: AgentId, ctx: str) -> MessageId:
    messages = STORE[ctx]
    event = ev.ContextLoaded(
        agent_id=agent_id,
        ctx=ctx,
        count=len(messages),
        context_hash=hash_context(messages),
        stop="root",
    )
    return session.append(event)


def resolver(event: ev.ContextLoaded) -> list[Message]:
    return STORE[event.ctx]


@pytest.mark.req("S0-21")
def test_agent_starts_from_a_commit(tmp_path: Path) -> None:
    with new_session(tmp_path, resolver=resolver) as session:
        create_agent(session)
        load_commit(session, ROOT, "ctx-two")
        log_user_message(session, ROOT, "now")
        request = log_request(session, ROOT)
        live = without_log_fields(session.context(ROOT))
        assert live == [*STORE["ctx-two"], Message("user", "now")]
        log_edit(session, ROOT, range_segment(1, 3))
        load_commit(session, ROOT, "ctx-one")
        second = log_request(session, ROOT)
        want = [*STORE["ctx-one"], *live[1:]]
        assert without_log_fields(session.context(ROOT)) == want
        assert contexts(session) == {request: live, second: want}
        assert agent(session).commit_id == "ctx-one"
        assert find_line(session, MessageId("msg_002"))["ctx"] == "ctx-two"
        described = session.state.describe()
    resumed = reload_session(session)
    assert resumed.state.describe() == described
    assert without_log_fields(resumed.context(ROOT)) == want
    resumed.close()


def test_store_is_read_once_per_loaded_commit(tmp_path: Path) -> None:
    loaded_commits: list[str] = []

    def counting(event: ev.ContextLoaded) -> list[Message]:
        loaded_commits.append(event.ctx)
        return STORE[event.ctx]

    with new_session(tmp_path, resolver=counting) as session:
        create_agent(session)
        load_commit(session, ROOT, "ctx-one")
    assert loaded_commits == ["ctx-one"]


@pytest.mark.parametrize("loader", [None, lambda _: [], lambda _: STORE["ctx-two"]])
def test_log_that_needs_another_store_is_not_reported_as_damaged(
    tmp_path: Path, loader: Callable[[ev.ContextLoaded], list[Message]] | None
) -> None:
    with new_session(tmp_path, resolver=resolver) as session:
        create_agent(session)
        load_commit(session, ROOT, "ctx-one")
    data_before = session.path.read_bytes()
    with pytest.raises(LogError, match="ctx-one") as refused:
        Session.load(session.path, options=session_options(resolver=loader))
    assert not isinstance(refused.value, LogCorrupted)
    assert session.path.read_bytes() == data_before
    Session.load(session.path, options=session_options(resolver=resolver)).close()


def test_inconsistent_log_that_verifies_names_its_line(session: Session) -> None:
    """No current rule allows it, but the mistake of a newer writer must not give a traceback."""
    byte = session.path.stat().st_size
    bad_edit = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(0, 9)])
    session.state.agents[ROOT].new_entries.extend([MessageId("")] * 9)
    with pytest.raises(ValueError, match="keeps 0 to 9"):
        session.append(bad_edit)
    session.close()
    with pytest.raises(LogCorrupted, match="keeps 0 to 9 of 0") as caught:
        Session.load(session.path)
    assert (caught.value.line, caught.value.byte) == (3, byte)
    session.path.write_bytes(session.path.read_bytes()[:byte])
    session.state = fold_log(session.path)


def test_entries_are_returned_in_the_requested_order_for_any_agent(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    first, two = log_user_message(session, ROOT, "one"), log_user_message(session, jack, "two")
    state = fold_log(session.path)
    entries = find_entries(state, state.agents[ROOT], [two, first, two])
    assert [entry.content for entry in entries] == ["two", "one", "two"]
    with pytest.raises(ValueError, match="no entry msg_099"):
        find_entries(state, state.agents[ROOT], [first, MessageId("msg_099")])


def test_evicted_agent_has_no_readable_context(session: Session) -> None:
    session.evict(ROOT)
    with pytest.raises(ValueError, match="revive it first"):
        current_messages(session.agents[ROOT])
    session.agent(ROOT)
