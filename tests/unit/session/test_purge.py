"""Text is purged from a log; the log stays complete and can be resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.messages import Message
from harken.core.secrets.removal import Secret, in_json
from harken.errors import LogLocked, LogWriteError
from harken.session.log.file import LogFile
from harken.session.log.reader import iter_events
from harken.session.purge import (
    PartOfStructure,
    PurgeOptions,
    find_log_places,
    purge_log,
    write_purged_copy,
)
from harken.session.repair import verify
from harken.session.session import Session
from harken.testing import FailingDisk, ticking
from harken.views.context import context
from tests.session_kit import (
    create_agent,
    entry_segment,
    fold_log,
    hash_context,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    range_segment,
    read_lines,
    reload_session,
    session_options,
)

ROOT = AgentId("agent_001")
KEY = 'sk-"quoted"\nkey'
SECRET = Secret(KEY)


def taking(**members: Any) -> PurgeOptions:
    return PurgeOptions(
        replace=SECRET.replace,
        tail=SECRET.replace_truncated,
        by="ann",
        reason="it leaked",
        clock=ticking(),
        **members,
    )


def purge(path: Path, **members: Any) -> int:
    log = LogFile(path, disk=members.pop("disk", None))
    try:
        return purge_log(log, taking(**members))
    finally:
        log.close()


def leaked(session: Session) -> None:
    """Log a conversation that contains the key in many members, also before and after edits."""
    log_user_message(session, ROOT, "hello")
    log_request(session, ROOT)
    log_answer(session, ROOT, "what is the key?")
    secret = log_user_message(session, ROOT, f"the key is {KEY}, keep it")
    request = log_request(session, ROOT)
    call = log_tool_calls(session, ROOT, "call_1", arguments=json.dumps({"run": f"login {KEY}"}))
    log_response(session, ROOT, request, entry=call)
    log_tool_result(session, ROOT, "call_1", f"logged in with {KEY}")
    request = log_request(session, ROOT)
    session.append(ev.LlmResponse(agent_id=ROOT, request=request, error="cut", partial=f"so {KEY}"))
    session.append(ev.AgentStateSaved(agent_id=ROOT, state={KEY: [KEY, 1.0]}))
    log_edit(session, ROOT, range_segment(0, 1), entry_segment(secret), reason="compaction")
    for number in range(3):
        log_turn(session, ROOT, number + 2)


def text_of(path: Path) -> str:
    return path.read_text()


def assert_gone(*paths: Path) -> None:
    for path in paths:
        assert not any(SECRET.find_spans([path.read_bytes()])), path.name
        assert "quoted" not in path.read_text(), path.name


def test_purged_text_is_gone_and_the_log_verifies(session: Session) -> None:
    leaked(session)
    session.close()
    count = len(read_lines(session.path))
    places = list(find_log_places(session.path, SECRET.replace))
    assert purge(session.path) == len(places) == 5
    assert_gone(session.path)
    assert verify(session.path) == []
    assert list(find_log_places(session.path, SECRET.replace)) == []
    *_, last = after = read_lines(session.path)
    assert len(after) == count + 1
    assert (last["event_type"], last["places"]) == ("content_purged", 5)
    assert (last["by"], last["why"]) == ("ann", "it leaked")
    assert oct(session.path.stat().st_mode & 0o777) == "0o600"
    assert [path.name for path in session.path.parent.iterdir()] == [session.path.name]


def test_state_after_a_purge_differs_only_in_the_text(session: Session) -> None:
    leaked(session)
    before = canonical.from_json(
        in_json(canonical.to_json_line(session.state.describe()), SECRET.replace)
    )
    session.close()
    purge(session.path)
    resumed = Session.load(session.path, options=session_options())
    after = canonical.from_json(canonical.to_json_line(resumed.state.describe()))
    assert after.pop("next_message") == before.pop("next_message") + 1
    for agent in (*before["agents"].values(), *after["agents"].values()):
        agent.pop("hashed")  # which depends on the text
    assert after == before
    log_turn(resumed, ROOT, 9)
    resumed.close()
    assert verify(session.path) == []


def test_every_request_hash_matches_its_purged_context(session: Session) -> None:
    leaked(session)
    session.close()
    before = {line["message_id"]: line for line in read_lines(session.path)}
    purge(session.path)
    resumed = Session.load(session.path, options=session_options())
    log_turn(resumed, ROOT, 9)
    resumed.close()
    requests = [e.message_id for e in iter_events(session.path) if isinstance(e, ev.LlmRequest)]
    contexts = [context(iter_events(session.path), id_) for id_ in requests]
    assert all(context_read.verified for context_read in contexts)
    kept_hashes = [
        line["message_id"]
        for line in read_lines(session.path)
        if line["event_type"] == "llm_request"
        and line["context_hash"] == before.get(line["message_id"], {}).get("context_hash")
    ]
    assert kept_hashes == requests[:1], "what nothing touched stays as it was"


def test_lines_without_the_text_keep_every_byte(session: Session) -> None:
    leaked(session)
    session.close()
    before = session.path.read_bytes().splitlines()
    purge(session.path)
    after = session.path.read_bytes().splitlines()
    for old, new in zip(before, after, strict=False):
        if not any(SECRET.find_spans([old])) and b"context_hash" not in old:
            assert old[:-18] == new[:-18]


def test_purge_without_a_match_writes_nothing(session: Session) -> None:
    log_turn(session, ROOT, 1)
    session.close()
    before = session.path.read_bytes(), session.path.stat().st_ino
    assert purge(session.path) == 0
    assert (session.path.read_bytes(), session.path.stat().st_ino) == before


def test_locked_log_is_refused(session: Session) -> None:
    leaked(session)
    with pytest.raises(LogLocked):
        purge(session.path)
    assert any(SECRET.find_spans([session.path.read_bytes()]))


def test_ended_session_is_still_ended(session: Session) -> None:
    leaked(session)
    session.end("enough")
    purge(session.path)
    assert fold_log(session.path).ended


def test_tool_schemas_get_new_hashes(session: Session) -> None:
    tools = [{"name": "look", "description": KEY, "parameters": {}}]
    old = canonical.hash_value(canonical.TOOLS_DOMAIN, tools)
    session.append(ev.ToolsDefined(tools=tools, tools_hash=old))
    session.close()
    purge(session.path)
    [defined] = [e for e in iter_events(session.path) if isinstance(e, ev.ToolsDefined)]
    assert defined.tools_hash == canonical.hash_value(canonical.TOOLS_DOMAIN, defined.tools) != old


def test_context_loaded_from_a_store_follows_the_purged_store(tmp_path: Path) -> None:
    def of_store(text: str) -> Any:
        return lambda event: [Message("user", f"the key is {text}"), Message("assistant", "ok")]

    session = new_session(tmp_path, resolver=of_store(KEY))
    create_agent(session)
    hash_ = hash_context(of_store(KEY)(None))
    session.append(ev.ContextLoaded(agent_id=ROOT, ctx="ctx-1", count=2, context_hash=hash_))
    log_user_message(session, ROOT, "go on")
    log_request(session, ROOT)
    session.close()
    now = of_store("[purged]")
    assert purge(session.path, resolver=now) == 0
    [loaded] = [e for e in iter_events(session.path) if isinstance(e, ev.ContextLoaded)]
    assert loaded.context_hash == hash_context(now(None))
    [request] = [e for e in iter_events(session.path) if isinstance(e, ev.LlmRequest)]
    assert context(iter_events(session.path), request.message_id, resolver=now).verified


def test_loaded_messages_stay_without_a_store(tmp_path: Path) -> None:
    messages = [Message("user", "from the store")]
    session = new_session(tmp_path, resolver=lambda event: messages)
    create_agent(session)
    event = ev.ContextLoaded(
        agent_id=ROOT, ctx="ctx-1", count=1, context_hash=hash_context(messages)
    )
    session.append(event)
    log_user_message(session, ROOT, KEY)
    log_request(session, ROOT)
    session.close()
    assert purge(session.path) == 1
    assert_gone(session.path)
    resumed = reload_session(
        Session.load(session.path, options=session_options(resolver=lambda event: messages))
    )
    assert len(resumed.context(ROOT)) == 2
    resumed.close()


@pytest.mark.parametrize("cut_at", range(1, 60, 7))
def test_torn_line_is_moved_aside_without_the_text_or_its_prefix(
    session: Session, cut_at: int
) -> None:
    log_turn(session, ROOT, 1)
    log_user_message(session, ROOT, f"{'x' * 20} {KEY}")
    session.close()
    full_log = session.path.read_bytes()
    torn = full_log.splitlines(keepends=True)[-1][: -cut_at - 28]
    session.path.write_bytes(full_log[: full_log.rfind(b"\n", 0, -1) + 1] + torn)
    has_prefix = b"sk-\\" in torn and len(torn) - torn.index(b"sk-") >= 6
    assert purge(session.path) == has_prefix
    files = sorted(session.path.parent.iterdir())
    assert_gone(*[path for path in files if has_prefix or path.name != session.path.name])
    if has_prefix:
        assert [path.name for path in files][1].startswith("s.jsonl.torn-")
        assert verify(session.path) == []
    Session.load(session.path, options=session_options()).close()


def test_damage_is_neither_hidden_nor_created(session: Session) -> None:
    leaked(session)
    session.close()
    raws = session.path.read_bytes().splitlines(keepends=True)
    for index in range(1, len(raws)):
        for damaged in (
            [
                *raws[:index],
                raws[index].replace(b'"agent_001"', b'"agent_0x1"', 1),
                *raws[index + 1 :],
            ],
            [*raws[:index], *raws[index + 1 :]],
            [*raws[:index], raws[index][:-4] + b'g"}\n', *raws[index + 1 :]],
            [*raws[:index], b"no JSON\n", *raws[index:]],
        ):
            session.path.write_bytes(b"".join(damaged))
            before = [(finding.line, finding.kind) for finding in verify(session.path)]
            purge(session.path)
            assert_gone(session.path)
            assert [(finding.line, finding.kind) for finding in verify(session.path)] == before, (
                index
            )


def test_older_log_is_purged_in_its_own_dialect(tmp_path: Path) -> None:
    for source in sorted(Path("tests/fixtures/dialects").glob("*.jsonl")):
        path = tmp_path / source.name
        path.write_bytes(source.read_bytes())
        secret = Secret("Ann and Bo" if source.stem == "fragment" else "Jack and Jill")
        log = LogFile(path)
        count = purge_log(log, PurgeOptions(replace=secret.replace))
        log.close()
        assert count > 0
        assert not any(secret.find_spans([path.read_bytes()]))
        assert len(list(iter_events(path))) == len(list(iter_events(source)))


@pytest.mark.parametrize("text", ["transcript_entry", "agent_001", "msg_002", "assistant"])
def test_structural_members_are_never_purged(session: Session, text: str) -> None:
    log_turn(session, ROOT, 1)
    session.close()
    before = session.path.read_bytes()
    log = LogFile(session.path)
    with pytest.raises(PartOfStructure, match="log's structure"):
        purge_log(log, PurgeOptions(replace=Secret(text).replace))
    log.close()
    assert session.path.read_bytes() == before
    assert [path.name for path in session.path.parent.iterdir()] == [session.path.name]


def test_failing_disk_leaves_the_log_unchanged(session: Session) -> None:
    leaked(session)
    session.close()
    before = session.path.read_bytes()
    for step in range(10):
        disk = FailingDisk(fault="EIO", fail_at=step)
        try:
            purge(session.path, disk=disk)
        except LogWriteError:
            assert session.path.read_bytes() == before or not any(
                SECRET.find_spans([session.path.read_bytes()])
            )
        assert [path.name for path in session.path.parent.iterdir()] == [session.path.name]
    assert verify(session.path) == []
    assert_gone(session.path)


def test_purging_to_a_copy_leaves_the_log_unchanged(session: Session, tmp_path: Path) -> None:
    leaked(session)
    before = session.path.read_bytes()
    out = tmp_path / "copy.jsonl"
    assert write_purged_copy(session.path, out, taking()) == 5
    assert session.path.read_bytes() == before
    assert_gone(out)
    assert verify(out) == []
    with pytest.raises(LogWriteError):
        write_purged_copy(session.path, out, taking())


@pytest.mark.parametrize("text", ["hello", KEY])
def test_purged_copy_has_no_torn_line(session: Session, tmp_path: Path, text: str) -> None:
    log_user_message(session, ROOT, text)
    session.close()
    with session.path.open("ab") as file:
        file.write(b'{"event_type":"transcript_entry","half')
    out = tmp_path / "copy.jsonl"
    write_purged_copy(session.path, out, taking())
    assert verify(out) == []
    assert_gone(out)


def test_failed_copy_is_removed(session: Session, tmp_path: Path) -> None:
    log_turn(session, ROOT, 1)
    out = tmp_path / "copy.jsonl"
    with pytest.raises(PartOfStructure):
        write_purged_copy(
            session.path, out, PurgeOptions(replace=Secret("transcript_entry").replace)
        )
    assert not out.exists()


def test_only_hashes_may_change_beside_a_torn_line(tmp_path: Path) -> None:
    messages = [Message("user", KEY)]
    session = new_session(tmp_path, resolver=lambda event: messages)
    create_agent(session)
    event = ev.ContextLoaded(
        agent_id=ROOT, ctx="ctx-1", count=1, context_hash=hash_context(messages)
    )
    session.append(event)
    session.close()
    with session.path.open("ab") as file:
        file.write(b'{"half')
    assert purge(session.path, resolver=lambda event: [Message("user", "[purged]")]) == 0
    assert verify(session.path) == []
    [aside] = session.path.parent.glob("s.jsonl.torn-*")
    assert aside.read_bytes() == b'{"half'


@pytest.mark.parametrize("text", ["", "  key  ", "[purged]", "purged"])
def test_text_that_occurs_everywhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Secret(text)


def test_secret_is_never_printed() -> None:
    assert KEY not in repr(SECRET)
    assert "quoted" not in repr(SECRET)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_groups_are_purged_as_groups(tmp_path: Path, count: int) -> None:
    with Session(tmp_path / "s.jsonl", options=session_options()) as session:
        agent = create_agent(session)
        with session.group():
            for text in ("a", f"b {KEY}", "c"):
                session.log_transcript_entry(agent, {"role": "user", "content": text})
    lines = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(b"".join(lines[:count]))
    purge(session.path)
    assert_gone(*tmp_path.iterdir())
    is_complete, has_key = count == 5, count >= 4
    assert bool(verify(session.path)) == (count == 3)
    assert len([*iter_events(session.path)]) == (6 if is_complete else 3 if has_key else 2)
    assert len([*tmp_path.glob("*.torn-*")]) == (count == 4)
    with Session(session.path, options=session_options()) as resumed:
        texts = [str(message.content) for message in resumed.context(agent)]
        assert texts == (["a", "b [purged]", "c"] if is_complete else [])
