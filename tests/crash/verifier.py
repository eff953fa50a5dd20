"""Check a log that `writer.py` left behind: verifier.py FOLDER ACKNOWLEDGED.

Exit code 0 if every entry up to the acknowledged one (-1 is none) exists, no line is damaged,
and the session can continue; otherwise it prints the differences.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harken.core.ids import AgentId
from harken.errors import HarkenError, InvalidLog, LogNotFound
from harken.session.session import Session
from tests.session_kit import log_user_message, read_message_ids

AGENT = AgentId("agent_001")


def numbers(session: Session) -> list[int]:
    """Return the numbers of the entries in order."""
    if AGENT not in session.agents:
        return []
    return [int(str(e.content).partition(":")[0]) for e in session.agent(AGENT).transcript or ()]


def find_damage(folder: Path, acknowledged: int) -> str | None:
    """Return the damage of the log. Return None if it is sound. Adds an entry to it."""
    path = folder / "s.jsonl"
    try:
        with Session.load(path) as session:
            numbers_before = numbers(session)
            if AGENT in session.agents:
                log_user_message(session, AGENT, f"{len(numbers_before)}: the verifier was here")
        with Session.load(path) as session:
            numbers_after = numbers(session)
    except (LogNotFound, InvalidLog) as error:  # no line was complete
        return None if acknowledged < 0 else f"nothing of {acknowledged + 1} entries: {error}"
    except HarkenError as error:
        return f"{type(error).__name__}: {error}"
    if numbers_before != list(range(len(numbers_before))):
        return f"entries are {numbers_before}"
    if len(numbers_before) <= acknowledged:
        return f"{acknowledged + 1} entries were acknowledged, {len(numbers_before)} are there"
    if numbers_after[: len(numbers_before)] != numbers_before:
        return f"{len(numbers_before)} entries became {len(numbers_after)}"
    log_ids = read_message_ids(path)
    if log_ids != [f"msg_{n:03d}" for n in range(len(log_ids))]:
        return f"ids are {log_ids}"
    return None


if __name__ == "__main__":
    reason = find_damage(Path(sys.argv[1]), int(sys.argv[2]))
    if reason is not None:
        sys.exit(reason)
