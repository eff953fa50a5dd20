"""What must hold of a log that `writer.py` left behind: verifier.py FOLDER ACKNOWLEDGED.

Exit code 0 where every entry up to the acknowledged one (-1: none) is there, nothing is damaged,
and the session can go on; else it says what is wrong.
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
    """Return the numbers of the entries, in their order."""
    if AGENT not in session.agents:
        return []
    return [int(str(e.content).partition(":")[0]) for e in session.agent(AGENT).transcript or ()]


def wrong(folder: Path, acknowledged: int) -> str | None:
    """Return what is wrong with the log, None where nothing is. An entry is added to it."""
    path = folder / "s.jsonl"
    try:
        with Session.load(path) as session:
            found = numbers(session)
            if AGENT in session.agents:
                log_user_message(session, AGENT, f"{len(found)}: the verifier was here")
        with Session.load(path) as session:
            more = numbers(session)
    except (LogNotFound, InvalidLog) as error:  # not one line was whole
        return None if acknowledged < 0 else f"nothing of {acknowledged + 1} entries: {error}"
    except HarkenError as error:
        return f"{type(error).__name__}: {error}"
    if found != list(range(len(found))):
        return f"entries are {found}"
    if len(found) <= acknowledged:
        return f"{acknowledged + 1} entries were acknowledged, {len(found)} are there"
    if more[: len(found)] != found:
        return f"{len(found)} entries became {len(more)}"
    there = read_message_ids(path)
    if there != [f"msg_{n:03d}" for n in range(len(there))]:
        return f"ids are {there}"
    return None


if __name__ == "__main__":
    reason = wrong(Path(sys.argv[1]), int(sys.argv[2]))
    if reason is not None:
        sys.exit(reason)
