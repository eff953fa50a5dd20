"""Text that must not be kept is taken out of a log; the log stays whole and can be resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.messages import Message
from harken.core.replace import Secret, in_json
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


def taking(**more: Any) -> PurgeOptions:
    return PurgeOptions(
        replace=SECRET.replace,
        tail=SECRET.replace_truncated,
        by="ann",
        reason="it leaked",
        clock=ticking(),
        **more,
    )


def purge(path: Path, **more: Any) -> int:
    log = LogFile(path, disk=more.pop("disk", None))
    try:
        return purge_log(log, taking(**more))
    finally:
        log.close()


def leaked(session: Session) -> None:
    """Log a conversation with the key in all sorts of places, also before and after edits."""
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
        assert not SECRET.is_in_bytes(path.read_bytes()), path.name
        assert "quoted" not in path.read_text(), path.name


def test_the_text_is_nowhere_and_the_log_verifies(session: Session) -> None:
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


def test_the_state_is_the_same_but_for_the_text(session: Session) -> None:
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
        agent.pop("hashed")  # which follows from the text
    assert after == before
    log_turn(resumed, ROOT, 9)
    resumed.close()
    assert verify(session.path) == []


def test_every_request_has_the_hash_of_what_it_saw(session: Session) -> None:
    leaked(session)
    session.close()
    before = {line["message_id"]: line for line in read_lines(session.path)}
    purge(session.path)
    resumed = Session.load(session.path, options=session_options())
    log_turn(resumed, ROOT, 9)
    resumed.close()
    requests = [e.message_id for e in iter_events(session.path) if isinstance(e, ev.LlmRequest)]
    seen = [context(iter_events(session.path), id_) for id_ in requests]
    assert all(one.verified for one in seen)
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
        if not SECRET.is_in_bytes(old) and b"context_hash" not in old:
            assert old[:-18] == new[:-18]


def test_without_the_text_nothing_is_written(session: Session) -> None:
    log_turn(session, ROOT, 1)
    session.close()
    before = session.path.read_bytes(), session.path.stat().st_ino
    assert purge(session.path) == 0
    assert (session.path.read_bytes(), session.path.stat().st_ino) == before


def test_a_log_that_is_being_written_is_refused(session: Session) -> None:
    leaked(session)
    with pytest.raises(LogLocked):
        purge(session.path)
    assert SECRET.is_in_bytes(session.path.read_bytes())


def test_an_ended_session_is_still_ended(session: Session) -> None:
    leaked(session)
    session.end("enough")
    purge(session.path)
    assert fold_log(session.path).ended


def test_schemas_of_tools_have_the_hash_of_what_they_are_now(session: Session) -> None:
    tools = [{"name": "look", "description": KEY, "parameters": {}}]
    old = canonical.hash_value(canonical.TOOLS_DOMAIN, tools)
    session.append(ev.ToolsDefined(tools=tools, tools_hash=old))
    session.close()
    purge(session.path)
    [defined] = [e for e in iter_events(session.path) if isinstance(e, ev.ToolsDefined)]
    assert defined.tools_hash == canonical.hash_value(canonical.TOOLS_DOMAIN, defined.tools) != old


def test_a_context_from_a_store_is_as_the_store_has_it_now(tmp_path: Path) -> None:
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


def test_without_the_store_its_messages_are_left_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_half_a_line_is_set_aside_without_the_text_or_its_beginning(
    session: Session, cut: int
) -> None:
    log_turn(session, ROOT, 1)
    log_user_message(session, ROOT, f"{'x' * 20} {KEY}")
    session.close()
    whole = session.path.read_bytes()
    torn = whole.splitlines(keepends=True)[-1][: -cut - 28]
    session.path.write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 1] + torn)
    held = b"sk-\\" in torn and len(torn) - torn.index(b"sk-") >= 6
    assert purge(session.path) == held
    files = sorted(session.path.parent.iterdir())
    assert_gone(*[path for path in files if held or path.name != session.path.name])
    if held:
        assert [path.name for path in files][1].startswith("s.jsonl.torn-")
        assert verify(session.path) == []
    Session.load(session.path, options=session_options()).close()


def test_damage_is_neither_hidden_nor_made(session: Session) -> None:
    leaked(session)
    session.close()
    raws = session.path.read_bytes().splitlines(keepends=True)
    for at in range(1, len(raws)):
        for damaged in (
            [*raws[:at], raws[at].replace(b'"agent_001"', b'"agent_0x1"', 1), *raws[at + 1 :]],
            [*raws[:at], *raws[at + 1 :]],
            [*raws[:at], raws[at][:-4] + b'g"}\n', *raws[at + 1 :]],
            [*raws[:at], b"no JSON\n", *raws[at:]],
        ):
            session.path.write_bytes(b"".join(damaged))
            before = [(one.line, one.kind) for one in verify(session.path)]
            purge(session.path)
            assert_gone(session.path)
            assert [(one.line, one.kind) for one in verify(session.path)] == before, at


def test_a_log_of_an_older_dialect_is_purged_and_stays_one(tmp_path: Path) -> None:
    for source in sorted(Path("tests/fixtures/dialects").glob("*.jsonl")):
        path = tmp_path / source.name
        path.write_bytes(source.read_bytes())
        secret = Secret("Ann and Bo" if source.stem == "fragment" else "Jack and Jill")
        log = LogFile(path)
        count = purge_log(log, PurgeOptions(replace=secret.replace))
        log.close()
        assert count > 0
        assert not secret.is_in_bytes(path.read_bytes())
        assert len(list(iter_events(path))) == len(list(iter_events(source)))


@pytest.mark.parametrize("text", ["transcript_entry", "agent_001", "msg_002", "assistant"])
def test_what_holds_the_log_together_stays(session: Session, text: str) -> None:
    log_turn(session, ROOT, 1)
    session.close()
    before = session.path.read_bytes()
    log = LogFile(session.path)
    with pytest.raises(PartOfStructure, match="holds the log together"):
        purge_log(log, PurgeOptions(replace=Secret(text).replace))
    log.close()
    assert session.path.read_bytes() == before
    assert [path.name for path in session.path.parent.iterdir()] == [session.path.name]


def test_a_disk_that_fails_leaves_the_log_as_it_was(session: Session) -> None:
    leaked(session)
    session.close()
    before = session.path.read_bytes()
    for step in range(10):
        disk = FailingDisk(fault="EIO", fail_at=step)
        try:
            purge(session.path, disk=disk)
        except LogWriteError:
            assert session.path.read_bytes() == before or not SECRET.is_in_bytes(
                session.path.read_bytes()
            )
        assert [path.name for path in session.path.parent.iterdir()] == [session.path.name]
    assert verify(session.path) == []
    assert_gone(session.path)


def test_a_copy_leaves_the_log_alone(session: Session, tmp_path: Path) -> None:
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
def test_a_copy_has_no_half_line(session: Session, tmp_path: Path, text: str) -> None:
    log_user_message(session, ROOT, text)
    session.close()
    with session.path.open("ab") as file:
        file.write(b'{"event_type":"transcript_entry","half')
    out = tmp_path / "copy.jsonl"
    write_purged_copy(session.path, out, taking())
    assert verify(out) == []
    assert_gone(out)


def test_a_copy_that_cannot_be_is_not_left(session: Session, tmp_path: Path) -> None:
    log_turn(session, ROOT, 1)
    out = tmp_path / "copy.jsonl"
    with pytest.raises(PartOfStructure):
        write_purged_copy(
            session.path, out, PurgeOptions(replace=Secret("transcript_entry").replace)
        )
    assert not out.exists()


def test_hashes_alone_may_change_beside_half_a_line(tmp_path: Path) -> None:
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
def test_a_text_that_is_everywhere_is_no_secret(text: str) -> None:
    with pytest.raises(ValueError):
        Secret(text)


def test_a_secret_is_never_shown() -> None:
    assert KEY not in repr(SECRET)
    assert "quoted" not in repr(SECRET)
