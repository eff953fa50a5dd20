"""`harken view SESSION hooks`: what was proposed, who judged it how, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId, MessageId
from harken.session.session import Session
from tests.cli.kit import Cli

ROOT, GUARD = AgentId("agent_001"), AgentId("agent_002")


def log_verdict(
    session: Session,
    point: HookPoint,
    subject: str,
    verdict: ev.VerdictKind,
    text: str | None = None,
    **members: Any,
) -> MessageId:
    """Log a question to the guard, its answer, and its verdict, whose id is returned."""
    question = ev.TranscriptEntry(
        agent_id=GUARD, role="user", content="[point] ...", cause=subject, purpose="question"
    )
    session.append(question)
    answer = session.log_transcript_entry(GUARD, {"role": "assistant", "content": "..."})
    return session.append(
        ev.HookVerdict(
            agent_id=GUARD,
            watched=ROOT,
            subject=subject,
            point=point,
            verdict=verdict,
            text=text,
            said=answer,
            **members,
        )
    )


def log_entry(session: Session, role: str, content: str | None, **more: Any) -> str:
    return session.log_transcript_entry(ROOT, {"role": role, "content": content, **more})


@pytest.fixture
def hooked(cli: Cli) -> Cli:
    """There is an s.jsonl with a guard."""
    write_guarded_log(Path("s.jsonl"))
    return cli


def write_guarded_log(log: Path) -> None:
    """Write a session in which a guard comments, denies, fails, and says OK."""
    with Session(log) as session:
        root, guard = session.allocate_agent_id(), session.allocate_agent_id()
        birth = session.log_agent_created(root, None, "Ann")
        session.log_agent_created(guard, birth, "Guard", relation="hook")
        input_id = log_entry(session, "user", "Send it.")
        comment = log_verdict(session, "input", input_id, "comment", "It is Friday.")
        message = {"role": "user", "content": "[hook Guard]: It is Friday."}
        session.log_transcript_entry(root, message, cause=comment)
        call = {"id": "c1", "function": {"name": "send", "arguments": "{}"}}
        call_id = log_entry(session, "assistant", None, tool_calls=[call])
        log_verdict(session, "action", call_id, "deny", "too\nlate")
        log_entry(session, "tool", "Error: blocked", tool_call_id="c1", name="send", is_error=True)
        log_verdict(session, "response", log_entry(session, "assistant", "No."), "ok")
        input_id = log_entry(session, "user", "Why?")
        log_verdict(session, "input", input_id, "ok", failed="OSError: full")


def test_all_that_hooks_did_is_shown_and_what_they_found_ok_is_counted(hooked: Cli) -> None:
    assert hooked.ok("view", "s.jsonl", "hooks").out == (
        "msg_002 Guard watches Ann, from the beginning\n"
        "msg_003 Ann heard: Send it.\n"
        "  msg_005 Guard commented: It is Friday.\n"
        "  msg_007 Ann got: [hook Guard]: It is Friday.\n"
        "msg_008 Ann proposed: send {}\n"
        "  msg_010 Guard denied: too late\n"
        "  msg_012 Ann got: Error: blocked\n"
        "msg_017 Ann heard: Why?\n"
        "  msg_019 Guard failed: OSError: full\n"
        "  no result\n"
        "1 verdict OK: shown with --all\n"
    )


def test_what_hooks_found_ok_is_shown_on_request_and_as_json(hooked: Cli) -> None:
    out = hooked.ok("view", "s.jsonl", "hooks", "--all").out
    assert "msg_013 Ann proposed: No.\n  msg_015 Guard OK\nmsg_017" in out
    assert "--all" not in out
    rows = hooked.ok("view", "s.jsonl", "hooks", "--json").json
    assert [row["kind"] for row in rows] == ["installed", "comment", "denial", "ok", "failure"]


def test_a_rewrite_is_shown_once_and_is_two_rows_as_json(hooked: Cli) -> None:
    with Session.load(Path("s.jsonl")) as session:
        original = log_entry(session, "assistant", "1234")
        log_verdict(session, "response", original, "rewrite", "****")
        session.log_transcript_entry("user", {"role": "user", "content": "****"}, original)
    rewrite = "Ann proposed: 1234\n  msg_023 Guard rewrote: ****\n  msg_025 user got: ****\n1 "
    assert rewrite in hooked.ok("view", "s.jsonl", "hooks").out
    rows = hooked.ok("view", "s.jsonl", "hooks", "--json").json
    assert [row["kind"] for row in rows[-2:]] == ["rewrite", "message"]


def test_a_rewrite_without_a_verdict_is_shown_as_well(hooked: Cli) -> None:
    with Session.load(Path("s.jsonl")) as session:
        message = {"role": "user", "content": "Yes."}
        session.log_transcript_entry("user", message, log_entry(session, "assistant", "No."))
    out = hooked.ok("view", "s.jsonl", "hooks").out
    assert "msg_021 Ann proposed: No.\n  msg_022 user got: Yes.\n1 verdict OK" in out


def test_denials_of_a_hook_are_counted_by_its_verdict_events(hooked: Cli) -> None:
    """The texts of the hook do not matter, nor those of the agent that it watches."""
    with Session.load(Path("s.jsonl")) as session:
        answer = log_entry(session, "assistant", "DENY: a quotation")
        log_verdict(session, "response", answer, "deny", "a secret")
    arguments = ("raw", "--type", "hook_verdict", "--agent", "Guard", "--json")
    rows = hooked.ok("view", "s.jsonl", *arguments).json
    assert [row["verdict"] for row in rows] == ["comment", "deny", "ok", "ok", "deny"]
    rows = hooked.ok("view", "s.jsonl", "hooks", "--json").json
    assert [row["text"] for row in rows if row["kind"] == "denial"] == ["too\nlate", "a secret"]
