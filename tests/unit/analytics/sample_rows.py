"""Index rows of two sessions, a subagent, a failed tool and two models."""

from __future__ import annotations

from typing import Any

import apsw

from harken.index.schema import TABLES_SQL

SECOND = 1_000_000
BEGAN = 1_767_261_600 * SECOND
"""2026-01-01T10:00:00Z."""


def add(database: apsw.Connection, table: str, **row: Any) -> None:
    """Insert a row; omitted columns are NULL."""
    marks = ",".join("?" * len(row))
    database.execute(
        f"INSERT INTO {table} ({','.join(row)}) VALUES ({marks})",
        list(row.values()),
    )


def message(database: apsw.Connection, id_: int, **row: Any) -> None:
    """Insert a message of the first session; `id_` is also its time in seconds since the start."""
    add(
        database,
        "messages",
        **{
            "id": id_,
            "commit_id": 1,
            "position": id_,
            "session_id": 1,
            "agent_id": 1,
            "time": BEGAN + id_ * SECOND,
            "hash": id_.to_bytes(32, "big"),
            "characters": 10 * id_,
            "thinking": 0,
            "images": 0,
            "is_error": 0,
            "is_repeat": 0,
            **row,
        },
    )


_SESSIONS = [
    (1, "claude:a", "claude", "a", "Fix the door", "/home/j/café", "1.0", "/home/j/a.jsonl"),
    (2, "codex:b", "codex", "b", "", "/home/j/tea", "1.0", "/home/j/b.jsonl"),
]
_AGENTS = [(1, 1, "", None), (2, 1, "sub", 1), (3, 2, "", None)]


def story() -> apsw.Connection:
    """Return the index of a short conversation."""
    db = apsw.Connection(":memory:")
    db.execute(TABLES_SQL)
    times = [(BEGAN, BEGAN + 9 * SECOND, "success", ""), (5, 6, None, "rec-b")]
    rows = [
        (*session_row, *extra_columns)
        for session_row, extra_columns in zip(_SESSIONS, times, strict=True)
    ]
    db.executemany(f"INSERT INTO sessions VALUES ({','.join('?' * 12)})", rows)
    for id_, session, name, parent in _AGENTS:
        agent = (id_, session, name, f"p{id_}", "", parent, id_, None, None)
        db.execute("INSERT INTO agents VALUES (?,?,?,?,?,?,?,?,?)", agent)
        commit_row = (id_, bytes([id_]) * 32, parent, session, id_, "delta", "import", BEGAN, 4, 40)
        db.execute(f"INSERT INTO commits VALUES ({','.join('?' * 10)}, 0)", commit_row)
    add(db, "edges", parent_id=1, child_id=2, kind="spawn")
    message(db, 1, role="user", kind="prompt")
    message(db, 2, role="assistant", kind="response", thinking=7)
    message(db, 3, role="tool", kind="tool_result", call_id="c", is_error=1)
    message(db, 4, role="user", kind="prompt", session_id=2, agent_id=3, commit_id=3)
    calls = [
        (1, 2, 1, 1, "Bash", "c", BEGAN, 12, 3, 1, SECOND),
        (2, 2, 1, 1, "Read", "d", BEGAN, 3, None, None, None),
    ]
    db.executemany(f"INSERT INTO tool_calls VALUES ({','.join('?' * 11)})", calls)
    verdict = (1, 1, 1, 2, "msg_9", "msg_2", 2, "action", "deny", 0, BEGAN)
    interlocutor = (1, 1, 1, 2, "listener", "msg_9", "msg_2.c1", BEGAN)
    db.execute(f"INSERT INTO interlocutors VALUES ({','.join('?' * 8)})", interlocutor)
    db.execute(f"INSERT INTO verdicts VALUES ({','.join('?' * 11)})", verdict)
    score = (1, 1, "q-1", "grader", '"C"', 1.0, "the door", "It is right.", "{}")
    db.execute(f"INSERT INTO scores VALUES ({','.join('?' * 9)})", score)
    label = (1, 1, 2, 2, "mistake", "2", "sub", "It did not look.", "{}")
    db.execute(f"INSERT INTO labels VALUES ({','.join('?' * 9)})", label)
    request = (1, 2, 1, 1, "msg_1", "m", BEGAN, "tool_use", 5, 100, 0, 9, None, 0.25, 0, 0)
    db.execute(f"INSERT INTO requests VALUES ({','.join('?' * 16)})", request)
    return db
