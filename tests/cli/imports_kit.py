"""Session files of other runtimes in the folder of a user, and waiting for their import."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.cli.ui_kit import Page
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

PATIENCE_S = 120
ENDED = ("done", "cancelled", "failed")


def write_claude_session(user: Path, number: int, *, turns: int = 1) -> Path:
    """Write a session of Claude Code in the folder where it would be."""
    transcript = Transcript(session=f"{number:08x}-0000-4000-8000-000000000001")
    transcript.add("ai-title", aiTitle=f"Talk {number}")
    for turn in range(turns):
        transcript.user(f"Question {turn} of talk {number}?")
        call_id = f"c{number}_{turn}"
        transcript.answer(tool_use_block(call_id, "Bash", command="ls"), id=f"msg_a_{call_id}")
        transcript.result(call_id, f"tea {number} {turn}")
        answer = f"Answer {turn} of talk {number}. " + "word " * 400
        transcript.answer(text_block(answer), id=f"msg_b_{call_id}")
    path = user / ".claude/projects/cafe" / f"{transcript.session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(transcript.data)
    return path


def write_damaged_session(user: Path, number: int) -> Path:
    """Write a session of Claude Code with a line that is not JSON."""
    path = write_claude_session(user, number)
    path.write_bytes(path.read_bytes() + b"{not json\n")
    return path


def wait_for_import(page: Page) -> Any:
    """Return the state of an import when it has ended."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        state = page.json("/api/import")
        if state["phase"] in ENDED:
            return state
        time.sleep(0.05)
    raise AssertionError(state)
