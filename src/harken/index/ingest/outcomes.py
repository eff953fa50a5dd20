"""Write the outcome of sessions to the index: that of the best source, whatever was read first.

A client knows how its session ended; a recording only sees how its last call ended.
"""

from __future__ import annotations

from enum import IntEnum

import apsw

from harken.index.message_text import to_utf8


class OutcomeSource(IntEnum):
    """The sources of outcomes, the best one last."""

    RECORDING = 1
    """The last model call, in the commit that ends a recorded run."""
    OUTPUT = 2
    """The output of the client, in the commit that ends a run."""
    FILE = 3
    """The session file, or the log of a session of Harken."""


def note_outcome(
    database: apsw.Connection,
    session: int,
    source: OutcomeSource,
    outcome: str,
    time_us: int | None,
) -> None:
    """Record the outcome of a session. Of one source, the latest counts."""
    database.execute(_NOTE_SQL, (session, source, time_us or 0, to_utf8(outcome)))
    database.execute(_SESSION_SQL, (session, time_us))


_NOTE_SQL = """
INSERT INTO outcomes VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session_id, source) DO UPDATE
SET time = ?3, outcome = ?4 WHERE time <= ?3
"""
_SESSION_SQL = """
UPDATE sessions SET ended = max(ifnull(ended, ?2), ifnull(?2, ended)), outcome =
(SELECT outcome FROM outcomes WHERE session_id = ?1 ORDER BY source DESC LIMIT 1) WHERE id = ?1
"""
