"""What an agent reads: requests, edits, commits, and every context rebuilt from the log."""

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
    """A session with one agent. Whatever a test does, its log folds to the live state."""
    with new_session(tmp_path) as session:
        create_agent(session)
        yield session
        live = session.state.describe()
    assert fold_log(session.path, session.options.resolver).describe() == live


def agent(session: Session, id_: AgentId = ROOT) -> AgentState:
    """The agent's state, read from the log."""
    return fold_log(session.path, session.options.resolver).agents[id_]


def contexts(session: Session) -> dict[str, list[Message]]:
    """The context of every request, rebuilt from the log alone."""
    read = list(iter_events(session.path))
    requests = {e.message_id: e for e in read if isinstance(e, ev.LlmRequest)}
    entries = {e.message_id: e for e in read if isinstance(e, ev.TranscriptEntry)}
    resolver = session.options.resolver
    commits = {e.message_id: e for e in read if isinstance(e, ev.ContextLoaded)}

    def loaded(id_: MessageId) -> Any:
        return resolver(commits[id_]) if resolver else None

    return {
        id_: without_log_fields(resolve_context(request, requests, entries, loaded))
        for id_, request in requests.items()
    }


@pytest.mark.req("S0-22")
def test_every_context_can_be_rebuilt_after_a_new_prompt_dropped_notes_and_a_summary(
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
def test_an_edit_may_bring_in_what_another_agent_heard(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    heard = log_user_message(session, jack, "a secret")
    log_edit(session, ROOT, entry_segment(heard))
    assert context_texts(session, ROOT) == ["a secret"]
    assert [m.content for m in agent(session).context or ()] == ["a secret"]
    request = log_request(session, ROOT)
    assert [m.content for m in contexts(session)[request]] == ["a secret"]


def test_an_edit_leaves_the_transcript_as_it_is(session: Session) -> None:
    heard = [log_user_message(session, ROOT, text) for text in "abc"]
    log_edit(session, ROOT, range_segment(2, 3), reason="test")
    log_user_message(session, ROOT, "d")
    state = agent(session)
    assert [entry.content for entry in state.transcript or ()] == ["a", "b", "c", "d"]
    assert [message.content for message in current_messages(state)] == ["c", "d"]
    assert context_length(state) == 2
    assert state.segments() == [entry_segment(heard[2]), entry_segment(MessageId("msg_006"))]


STORE = {
    "ctx-two": [Message("system", "be kind"), Message("user", [TextPart("look"), ImagePart()])],
    "ctx-one": [Message("assistant", [ThinkingPart("hm"), TextPart("well")])],
}


def load_commit(session: Session, who: AgentId, ctx: str) -> MessageId:
    found = STORE[ctx]
    event = ev.ContextLoaded(
        agent_id=who, ctx=ctx, count=len(found), context_hash=hash_context(found), stop="root"
    )
    return session.append(event)


def resolver(event: ev.ContextLoaded) -> list[Message]:
    return STORE[event.ctx]


@pytest.mark.req("S0-21")
def test_an_agent_starts_from_a_commit(tmp_path: Path) -> None:
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


def test_a_store_is_asked_once_when_a_commit_is_loaded(tmp_path: Path) -> None:
    asked: list[str] = []

    def counting(event: ev.ContextLoaded) -> list[Message]:
        asked.append(event.ctx)
        return STORE[event.ctx]

    with new_session(tmp_path, resolver=counting) as session:
        create_agent(session)
        load_commit(session, ROOT, "ctx-one")
    assert asked == ["ctx-one"]


@pytest.mark.parametrize("found", [None, lambda _: [], lambda _: STORE["ctx-two"]])
def test_a_log_that_needs_another_store_is_called_so_and_not_damaged(
    tmp_path: Path, found: Callable[[ev.ContextLoaded], list[Message]] | None
) -> None:
    with new_session(tmp_path, resolver=resolver) as session:
        create_agent(session)
        load_commit(session, ROOT, "ctx-one")
    there = session.path.read_bytes()
    with pytest.raises(LogError, match="ctx-one") as refused:
        Session.load(session.path, options=session_options(resolver=found))
    assert not isinstance(refused.value, LogCorrupted)
    assert session.path.read_bytes() == there
    Session.load(session.path, options=session_options(resolver=resolver)).close()


def test_a_log_that_verifies_and_makes_no_sense_names_its_line(session: Session) -> None:
    """No rule of today lets it be written; a newer writer's mistake is still no traceback."""
    byte = session.path.stat().st_size
    wrong = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(0, 9)])
    session.state.agents[ROOT].new_entries.extend([MessageId("")] * 9)
    with pytest.raises(ValueError, match="keeps 0 to 9"):
        session.append(wrong)
    session.close()
    with pytest.raises(LogCorrupted, match="keeps 0 to 9 of 0") as found:
        Session.load(session.path)
    assert (found.value.line, found.value.byte) == (3, byte)
    session.path.write_bytes(session.path.read_bytes()[:byte])
    session.state = fold_log(session.path)


def test_entries_are_found_whoever_has_them_and_in_the_order_asked_for(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    one, two = log_user_message(session, ROOT, "one"), log_user_message(session, jack, "two")
    state = fold_log(session.path)
    found = find_entries(state, state.agents[ROOT], [two, one, two])
    assert [entry.content for entry in found] == ["two", "one", "two"]
    with pytest.raises(ValueError, match="no entry msg_099"):
        find_entries(state, state.agents[ROOT], [one, MessageId("msg_099")])


def test_an_evicted_agent_has_no_context_to_read(session: Session) -> None:
    session.evict(ROOT)
    with pytest.raises(ValueError, match="revive it first"):
        current_messages(session.agents[ROOT])
    session.agent(ROOT)
