"""Logs that are branched, and what a branch of them has."""

from __future__ import annotations

from pathlib import Path

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.session.log.checksum import read_body
from harken.session.log.reader import iter_events
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message, new_session

ROOT = AgentId("agent_001")


def write_log(folder: Path) -> Path:
    """Write a log with model calls: `msg_002` asks, `msg_004` and its response are one group."""
    with new_session(folder) as session:
        create_agent(session, name="main", language_model="m")
        log_user_message(session, ROOT, "Tea or coffee?")
        answer(session, "Coffee.")
        log_user_message(session, ROOT, "Why?")
        answer(session, "It is warm.")
    return session.path


def answer(session: Session, text: str) -> None:
    agent = session.agent(ROOT)
    count, hash_ = len(session.context(ROOT)), ""
    request = session.append(
        ev.LlmRequest(
            agent_id=ROOT, context=agent.segments(), count=count, context_hash=hash_, model="m"
        )
    )
    with session.group():
        entry = session.log_transcript_entry(ROOT, {"role": "assistant", "content": text})
        session.append(
            ev.LlmResponse(
                agent_id=ROOT, request=request, entry=entry, stop_reason="stop", cost_usd=0.5
            )
        )


def bodies(path: Path) -> list[bytes]:
    return [read_body(line) for line in path.read_bytes().splitlines(keepends=True)]


def texts(path: Path) -> list[str]:
    return [
        str(event.content) for event in iter_events(path) if isinstance(event, ev.TranscriptEntry)
    ]
