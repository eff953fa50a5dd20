"""A leaked secret is purged from the store and from all logs, which stay readable."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.history import get_commit, update_metadata
from harken.context.materialize import make_resolver, materialize
from harken.context.purge import PurgeMatch, PurgeRequest, find_in_store, find_text, purge_text
from harken.core import canonical, commits
from harken.core import events as ev
from harken.core.commits import ArtifactRef, CommitId
from harken.core.event_types.message_parser import parse_message
from harken.core.ids import AgentId
from harken.core.messages import FunctionCall, Message, TextPart, ToolCall, UnknownPart
from harken.core.secrets.removal import Secret, in_json
from harken.errors import LogLocked, PurgeIncomplete
from harken.session.log.reader import iter_events
from harken.session.purge import PartOfStructure
from harken.session.repair import verify
from harken.session.session import Session
from harken.store.base import ObjectKind, Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.testing import ticking
from harken.views.context import context
from tests.session_kit import (
    create_agent,
    hash_context,
    log_answer,
    log_request,
    log_user_message,
    new_session,
    session_options,
)
from tests.unit.context.kit import NOON

KEY = 'sk-"live"\n0123456789'
SECRET = Secret(KEY)
ROOT = AgentId("agent_001")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    (tmp_path / "store").mkdir()
    opened_store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store" / "s.db")
    )
    yield opened_store
    opened_store.close()


PURGE = PurgeRequest(secret=SECRET, by="ann", why="it leaked", clock=ticking())


def conversation() -> list[Message]:
    call = ToolCall(KEY, FunctionCall("login", json.dumps({"key": KEY})), meta={"note": KEY})
    return [
        Message("user", f"the key is {KEY}."),
        Message("assistant", [TextPart("I log in", meta={KEY: [1.0, KEY]})], [call]),
        Message("tool", f"ok: {KEY}", tool_call_id=KEY, name="login"),
        Message("assistant", [UnknownPart("audio", canonical.to_json_line({"id": KEY}).decode())]),
        Message("user", "thanks"),
    ]


def write_secret(store: Store) -> CommitId:
    """Write commits that contain the key in every kind of object."""
    root = checkpoint(store, CommitDraft(messages=[Message("user", "hello")], created_at=NOON))
    origin = CommitOrigin(template=f"with {KEY}", principal=KEY)
    draft = CommitDraft(parent=root, messages=conversation(), created_at=NOON, origin=origin)
    leaked = checkpoint(store, draft)
    update_metadata(store, leaked, summary=f"logged in with {KEY}", labels=[KEY, "login"])
    return checkpoint(
        store, CommitDraft(parent=leaked, messages=[Message("user", "bye")], created_at=NOON)
    )


def assert_gone(store: Store, *logs: Path) -> None:
    assert find_text(store, logs, SECRET) == []
    assert fsck(store) == []
    for stored in store.iter_objects():
        assert not any(SECRET.find_spans([stored.body]))
        assert b"0123456789" not in stored.body
    for path in logs:
        assert verify(path) == []
        assert b"0123456789" not in path.read_bytes()


def cleaned(messages: list[Message]) -> list[Message]:
    encoded = in_json(canonical.to_json_line(messages), SECRET.replace)
    return [parse_message(encoded_message) for encoded_message in canonical.from_json(encoded)]


def test_every_object_with_the_text_is_replaced_and_readable(store: Store) -> None:
    tip = write_secret(store)
    before = materialize(store, tip).messages
    kinds = {place.kind for place in find_text(store, [], SECRET)}
    assert kinds == {"part", "delta", "commit", "summary", "label"}
    places = purge_text(store, [], PURGE)
    assert {place.kind for place in places} == kinds
    assert_gone(store)
    after = materialize(store, tip)
    assert after.messages == cleaned(before)
    assert after.message_count == len(before)
    [leaked] = store.chain(tip)[1:2]
    assert leaked.commit.template == "with [purged]"
    assert leaked.notes.summary == "logged in with [purged]"
    assert leaked.notes.labels == ("[purged]", "login")
    assert store.latest_commit("[purged]", "2100-01-01T00:00:00Z") == leaked.id
    assert get_commit(store, leaked.id).id == leaked.id
    stones = store.tombstones()
    assert leaked.id in stones
    assert {(stone.by, stone.why) for stone in stones.values()} == {("ann", "it leaked")}


def test_raw_bytes_and_files_are_purged_across_chunk_borders(store: Store) -> None:
    line = canonical.to_json_line({"text": f"a {KEY} b"}) + b"\n"
    key = KEY.encode()
    pieces = [b"x" * 10 + key[:7], key[7:] + b" between " + key, b"clean", line, key[7:] + b" only"]
    refs = [commits.hash_raw(piece) for piece in pieces]
    all_refs, other_refs = refs[:4], [refs[4], refs[1], refs[2]]
    names = [commits.hash_raw(b"".join(pieces[:4]))]
    names.append(commits.hash_raw(pieces[4] + pieces[1] + pieces[2]))
    raw = dict(zip(refs, pieces, strict=True))
    store.write(WriteBatch(raw=raw, files=dict(zip(names, (all_refs, other_refs), strict=True))))
    purge_text(store, [], PURGE)
    assert find_text(store, [], SECRET) == []
    assert fsck(store) == []
    first, second = (store.raw(name) for name in names)
    assert first == (
        b"x" * 10 + b"[purged][purged] between [purged]clean" + b'{"text":"a [purged] b"}\n'
    )
    assert second == key[7:] + b" only[purged] between [purged]clean"
    assert b"".join(store.read_chunks(names[0])) == first
    assert store.raw(refs[4]) == pieces[4], "the end alone is no secret"
    stone = store.tombstones()[names[0]]
    assert stone.stand_in == commits.hash_raw(first)


def test_dry_run_changes_nothing_and_does_not_print_the_text(store: Store, tmp_path: Path) -> None:
    write_secret(store)
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, KEY)
    before = session.path.read_bytes(), store.tombstones()
    places = find_text(store, [session.path], SECRET)
    assert PurgeMatch(f"{session.path}:3", "transcript_entry", "msg_002") in places
    assert (session.path.read_bytes(), store.tombstones()) == before
    assert "0123456789" not in repr(places)


def session_from(store: Store, tmp_path: Path, tip: CommitId) -> Session:
    """Return a session whose agent starts from a commit and then calls its model."""
    session = new_session(tmp_path, resolver=make_resolver(store))
    create_agent(session)
    messages = materialize(store, tip).messages
    session.append(
        ev.ContextLoaded(
            agent_id=ROOT, ctx=tip, count=len(messages), context_hash=hash_context(messages)
        )
    )
    log_user_message(session, ROOT, "go on")
    log_request(session, ROOT)
    log_answer(session, ROOT, "I go on")
    log_request(session, ROOT)
    return session


def test_session_started_from_a_purged_commit_resumes(store: Store, tmp_path: Path) -> None:
    """The log does not contain the text, but hashes that depend on it."""
    session = session_from(store, tmp_path, write_secret(store))
    before = [message.content for message in session.context(ROOT)]
    with pytest.raises(LogLocked):
        purge_text(store, [session.path], PURGE)
    assert store.tombstones() == {}, "refused before anything was changed"
    session.close()
    purge_text(store, [session.path], PURGE)
    assert_gone(store, session.path)
    resumed = Session.load(session.path, options=session_options(resolver=make_resolver(store)))
    after = [message.content for message in resumed.context(ROOT)]
    assert len(after) == len(before)
    log_request(resumed, ROOT)
    resumed.close()
    requests = [e.message_id for e in iter_events(session.path) if isinstance(e, ev.LlmRequest)]
    views = [
        context(iter_events(session.path), request_id, resolver=make_resolver(store))
        for request_id in requests
    ]
    assert [view.verified for view in views] == [True] * 3


def test_log_that_does_not_depend_on_the_text_may_be_open_and_stays(
    store: Store, tmp_path: Path
) -> None:
    write_secret(store)
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, "hello")
        before = session.path.read_bytes()
        assert purge_text(store, [session.path], PURGE)
        assert session.path.read_bytes() == before
    assert_gone(store, session.path)


def test_interrupted_purge_is_completed_by_the_next(store: Store, tmp_path: Path) -> None:
    session = session_from(store, tmp_path, write_secret(store))
    log_user_message(session, ROOT, KEY)
    session.close()
    for name, notes in find_in_store(store, SECRET).notes.items():
        store.update_notes(name, notes)
    purge_text(store, [], PURGE)  # the purge was interrupted here
    assert find_text(store, [session.path], SECRET)
    purge_text(store, [session.path], PURGE)
    assert_gone(store, session.path)
    before = session.path.read_bytes()
    assert purge_text(store, [session.path], PURGE) == []
    assert session.path.read_bytes() == before


def test_structural_text_is_refused_before_any_change(store: Store, tmp_path: Path) -> None:
    parent = store.chain(write_secret(store))[1].id
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, "hello")
    objects_before = list(store.iter_objects())
    before = session.path.read_bytes()
    for text in ("content", "tool_call", parent[4:20], "transcript_entry"):
        purge = PurgeRequest(secret=Secret(text), by="ann", why="odd")
        with pytest.raises(PartOfStructure):
            purge_text(store, [session.path], purge)
    assert list(store.iter_objects()) == objects_before
    assert session.path.read_bytes() == before


def test_text_in_the_structure_of_a_log_is_refused_before_any_change(
    store: Store, tmp_path: Path
) -> None:
    """The store could be purged of the text, and so could the other log."""
    told = Message("user", f"ask {ROOT}")
    checkpoint(store, CommitDraft(messages=[told], created_at=NOON))
    objects_before = list(store.iter_objects())
    logs: list[Path] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with new_session(tmp_path / name) as session:
            create_agent(session)
            logs.append(session.path)
    logs_before = [log.read_bytes() for log in logs]
    with pytest.raises(PartOfStructure) as refusal:
        purge_text(store, logs, PurgeRequest(secret=Secret(ROOT), by="ann", why="odd"))
    assert list(store.iter_objects()) == objects_before
    assert store.tombstones() == {}
    assert [log.read_bytes() for log in logs] == logs_before
    for log in logs:  # None is still locked, though the error has references to them.
        Session.load(log, options=session_options()).close()
    assert refusal.value.__traceback__ is not None


def test_purge_returns_the_locations_in_the_store_and_in_logs(store: Store, tmp_path: Path) -> None:
    write_secret(store)
    logs: list[Path] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with new_session(tmp_path / name) as session:
            create_agent(session)
            log_user_message(session, ROOT, f"the key is {KEY}")
            logs.append(session.path)
    expected = find_text(store, logs, SECRET)
    assert {match.where.partition(":")[0] for match in expected} == {"store", *map(str, logs)}
    assert purge_text(store, logs, PURGE) == expected
    for log in logs:
        Session.load(log, options=session_options()).close()  # None is still locked.


def test_logs_are_purged_while_the_store_is_being_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", patience_s=0.2)
    write_secret(store)
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, f"the key is {KEY}")
    with closing(sqlite3.connect(store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM pack").fetchone()
        with pytest.raises(PurgeIncomplete, match="purge again"):
            purge_text(store, [session.path], PURGE)
    assert_gone(store, session.path)
    store.close()


def test_reason_that_contains_the_secret_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="another reason") as refusal:
        purge_text(store, [], PurgeRequest(secret=SECRET, by="ann", why=f"{KEY} leaked"))
    assert KEY not in str(refusal.value)


def test_purged_text_written_again_stays_purged(store: Store) -> None:
    tip = write_secret(store)
    purge_text(store, [], PURGE)
    rewritten_commit = checkpoint(
        store, CommitDraft(parent=tip, messages=conversation()[:1], created_at=NOON)
    )
    assert materialize(store, rewritten_commit).messages[-1].content == "the key is [purged]."
    assert_gone(store)


def test_commit_names_stay(store: Store) -> None:
    tip = write_secret(store)
    before = [(ancestor.id, ancestor.commit.artifact) for ancestor in store.chain(tip)]
    purge_text(store, [], PURGE)
    assert [(ancestor.id, ancestor.commit.artifact) for ancestor in store.chain(tip)] == before
    kinds = {stored.kind for stored in store.iter_objects()}
    assert kinds >= {ObjectKind.PART, ObjectKind.MESSAGE, ObjectKind.DELTA, ObjectKind.COMMIT}
    assert store.deltas([ArtifactRef(ref) for _, ref in before]).keys() == {r for _, r in before}
