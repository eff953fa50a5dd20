"""`harken view SESSION hooks`: what was proposed, who judged it how, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.session.session import Session
from tests.cli.kit import Cli

ROOT, GUARD = "agent_001", "agent_002"


def judged(session: Session, subject: str, verdict: str, role: str = "assistant") -> str:
    """Log that the guard was asked about something, and what it said."""
    question = {"role": "user", "content": "[point] what about that?"}
    asked = session.log_transcript_entry(GUARD, question, cause=subject)
    said = {"role": role, "content": verdict}
    return session.log_transcript_entry(GUARD, said, cause=asked if role == "system" else None)


def said(session: Session, role: str, content: str | None, **more: Any) -> str:
    return session.log_transcript_entry(ROOT, {"role": role, "content": content, **more})


@pytest.fixture
def hooked(cli: Cli) -> Cli:
    """There is an s.jsonl: a guard comments, denies, fails, and says OK."""
    with Session(Path("s.jsonl")) as session:
        root, guard = session.allocate_agent_id(), session.allocate_agent_id()
        birth = session.log_agent_created(root, None, "Ann")
        session.log_agent_created(guard, birth, "Guard", relation="hook")
        comment = judged(session, said(session, "user", "Send it."), "COMMENT: It is Friday.")
        message = {"role": "user", "content": "[hook Guard]: It is Friday."}
        session.log_transcript_entry(root, message, cause=comment)
        call = {"id": "c1", "function": {"name": "send", "arguments": "{}"}}
        judged(session, said(session, "assistant", None, tool_calls=[call]), "DENY: too\nlate")
        said(session, "tool", "Error: blocked", tool_call_id="c1", name="send", is_error=True)
        judged(session, said(session, "assistant", "No."), "OK")
        judged(session, said(session, "user", "Why?"), "[hook failed] OSError: full", "system")
    return cli


def test_all_that_hooks_did_is_shown_and_what_they_found_ok_is_counted(hooked: Cli) -> None:
    assert hooked.ok("view", "s.jsonl", "hooks").out == (
        "msg_002 Guard watches Ann, from the beginning\n"
        "msg_003 Ann heard: Send it.\n"
        "  msg_005 Guard commented: It is Friday.\n"
        "  msg_006 Ann got: [hook Guard]: It is Friday.\n"
        "msg_007 Ann proposed: send {}\n"
        "  msg_009 Guard denied: too late\n"
        "  msg_010 Ann got: Error: blocked\n"
        "msg_014 Ann heard: Why?\n"
        "  msg_016 Guard failed: OSError: full\n"
        "  no result\n"
        "1 verdict OK: shown with --all\n"
    )


def test_what_hooks_found_ok_is_shown_on_request_and_as_json(hooked: Cli) -> None:
    out = hooked.ok("view", "s.jsonl", "hooks", "--all").out
    assert "msg_011 Ann proposed: No.\n  msg_013 Guard OK\nmsg_014" in out
    assert "--all" not in out
    rows = hooked.ok("view", "s.jsonl", "hooks", "--json").json
    assert [row["kind"] for row in rows] == ["installed", "comment", "denial", "ok", "failure"]


def test_a_rewrite_is_shown_once_and_is_two_rows_as_json(hooked: Cli) -> None:
    with Session.load(Path("s.jsonl")) as session:
        original = said(session, "assistant", "1234")
        judged(session, original, "REWRITE: ****")
        session.log_transcript_entry("user", {"role": "user", "content": "****"}, original)
    rewrite = "Ann proposed: 1234\n  msg_019 Guard rewrote: ****\n  msg_020 user got: ****\n1 "
    assert rewrite in hooked.ok("view", "s.jsonl", "hooks").out
    rows = hooked.ok("view", "s.jsonl", "hooks", "--json").json
    assert [row["kind"] for row in rows[-2:]] == ["rewrite", "message"]


def test_a_rewrite_without_a_verdict_is_shown_as_well(hooked: Cli) -> None:
    with Session.load(Path("s.jsonl")) as session:
        message = {"role": "user", "content": "Yes."}
        session.log_transcript_entry("user", message, said(session, "assistant", "No."))
    out = hooked.ok("view", "s.jsonl", "hooks").out
    assert "msg_017 Ann proposed: No.\n  msg_018 user got: Yes.\n1 verdict OK" in out
