"""Write the scores and labels of a session to the index.

They are in import reports, which belong to files of other programs: texts are made valid UTF-8, and
a label whose commit is not in the index has no message.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from harken.formats.runtimes.evaluation import Label, Score
from harken.index.message_text import to_utf8


def write_scores(database: apsw.Connection, session: int, scores: Sequence[Score]) -> None:
    """Add the scores of a session."""
    texts = (
        (
            *map(to_utf8, (score.sample, score.scorer, score.value)),
            score.number,
            *map(to_utf8, (score.answer, score.explanation, score.metadata)),
        )
        for score in scores
    )
    database.executemany(
        "INSERT INTO scores VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((session, *row) for row in texts),
    )


def write_labels(database: apsw.Connection, session: int, labels: Sequence[Label]) -> None:
    """Add the labels of a session, each with its agent and message."""
    for label in labels:
        agent = database.execute(
            _AGENT_SQL, (session, to_utf8(label.agent), to_utf8(label.agent))
        ).fetchone()
        commit = _decode_commit(label.ctx)
        message = None
        if commit is not None and 0 <= label.position < 1 << 40:
            message = database.execute(_MESSAGE_SQL, (commit, label.position, session)).fetchone()
        texts = map(to_utf8, (label.name, label.value, label.agent, label.explanation))
        row = (
            session,
            None if agent is None else agent[0],
            None if message is None else message[0],
            *texts,
            to_utf8(label.metadata),
        )
        database.execute("INSERT INTO labels VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _decode_commit(ctx: str) -> bytes | None:
    try:
        return bytes.fromhex(ctx.removeprefix("ctx-")) or None
    except ValueError:
        return None


_AGENT_SQL = """
SELECT id FROM agents WHERE session_id = ? AND name = ? COLLATE NOCASE AND name <> ''
ORDER BY name = ? DESC LIMIT 1
"""
"""Annotators do not always spell a name as the file does."""
_MESSAGE_SQL = """
SELECT m.id FROM messages m JOIN commits c ON c.id = m.commit_id
WHERE c.name = ? AND m.position = ? AND m.session_id = ?
"""
