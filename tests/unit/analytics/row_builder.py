"""A builder of index rows: sessions, messages, calls and requests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import apsw

from harken.index.schema import TABLES_SQL

US = 1_000_000
MINUTE, HOUR, DAY = 60, 3600, 86_400


def at(text: str) -> float:
    """Return a time in UTC as seconds since 1970: `at("2026-03-02 09:00")` is a Monday."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def us(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * US)


def empty() -> apsw.Connection:
    """Return a database in memory with the tables of the index."""
    database = apsw.Connection(":memory:")
    database.execute(TABLES_SQL)
    return database


@dataclass
class RowBuilder:
    """A database of index rows, built by method calls. Times are seconds since 1970."""

    database: apsw.Connection = field(default_factory=empty)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def session(
        self,
        name: str = "claude:1",
        *,
        project: str = "/srv/cafe",
        title: str = "",
        outcome: str | None = None,
        began: float | None = None,
        ended: float | None = None,
    ) -> int:
        """Insert a session and its main agent, both with this id."""
        runtime, _, native = name.rpartition(":")
        id_ = self._insert(
            "sessions",
            name=name,
            runtime=runtime or "harken",
            native=native,
            title=title,
            project=project,
            version="2.1",
            source="",
            began=us(began),
            ended=us(ended),
            outcome=outcome,
            log="",
        )
        self._insert(
            "agents", id=id_, session_id=id_, name="", principal=name, template="", tip_id=None
        )
        return id_

    def agent(self, session: int, name: str, template: str) -> int:
        return self._insert(
            "agents",
            session_id=session,
            name=name,
            principal=f"{session}/{name}",
            template=template,
            parent_id=session,
        )

    def say(
        self,
        session: int,
        kind: str,
        time: float | None,
        characters: int = 0,
        *,
        thinking: int = 0,
        agent: int | None = None,
        is_repeat: bool = False,
    ) -> int:
        """Insert a message. The session covers the times of its messages."""
        roles = {"response": "assistant", "error": "assistant", "tool_result": "tool"}
        self.database.execute(
            "UPDATE sessions SET began = min(coalesce(began, :time), :time),"
            " ended = max(coalesce(ended, :time), :time) WHERE id = :id AND :time IS NOT NULL",
            {"time": us(time), "id": session},
        )
        return self._insert(
            "messages",
            commit_id=1,
            position=0,
            session_id=session,
            agent_id=agent or session,
            role=roles.get(kind, "user"),
            kind=kind,
            time=us(time),
            hash=b"",
            characters=characters,
            thinking=thinking,
            images=0,
            is_error=0,
            is_repeat=int(is_repeat),
        )

    def call(
        self,
        message: int,
        name: str,
        took: float | None = None,
        *,
        is_error: bool | None = False,
        arguments: int = 0,
    ) -> int:
        """Insert a call of an answer. `took` is in seconds.

        A `took` of None leaves the call without result; an `is_error` of None leaves the status unknown.
        """
        rows: list[tuple[Any, ...]] = self.database.execute(
            "SELECT session_id, agent_id, time FROM messages WHERE id = ?", (message,)
        ).fetchall()
        session, agent, time = rows[0]
        result = None
        if took is not None:
            result = self.say(session, "tool_result", time / US + took, agent=agent)
        return self._insert(
            "tool_calls",
            message_id=message,
            session_id=session,
            agent_id=agent,
            name=name,
            call_id="",
            time=time,
            arguments=arguments,
            result_id=result,
            is_error=None if result is None else is_error,
            duration=us(took),
        )

    def request(
        self,
        session: int,
        model: str,
        time: float | None,
        tokens: tuple[int | None, int | None, int | None, int | None],
        cost_usd: float | None = None,
    ) -> int:
        """Insert a response. `tokens`: input, cache read, cache write, output."""
        names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
        return self._insert(
            "requests",
            session_id=session,
            agent_id=session,
            model=model,
            time=us(time),
            cost_usd=cost_usd,
            is_cost_told=0,
            is_recorded=0,
            **dict(zip(names, tokens, strict=True)),
        )

    def compaction(self, session: int, time: float) -> int:
        return self.commit(session, time, "compaction")

    def commit(self, session: int, time: float, type_: str = "delta") -> int:
        id_ = next(self._ids)
        return self._insert(
            "commits",
            name=id_.to_bytes(32, "big"),
            session_id=session,
            agent_id=session,
            type=type_,
            checkpoint="import",
            time=us(time),
            messages=1,
            tokens=1,
            is_repeat=0,
        )

    def _insert(self, table: str, **row: object) -> int:
        row = {"id": next(self._ids), **row}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        self.database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
        return int(str(row["id"]))
