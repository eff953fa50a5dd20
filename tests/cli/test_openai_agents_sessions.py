"""Sessions of the OpenAI Agents SDK as sessions of the command line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harken.adapters.openai_agents import HarkenSession
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli
from tests.unit.adapters.agents_kit import say


@pytest.fixture
def sessions(cli: Cli) -> Cli:
    """A home with a session of two turns, a fork of it, and a session that was cleared."""

    async def talk() -> None:
        async with HarkenSession("support/7", cli.home) as session:
            await say(session, "say zanzibar")
            fork = await session.fork("fork")
            await say(session, "the weather please")
            await say(fork, "another way")
        async with HarkenSession("other", cli.home) as session:
            await say(session, "secret plan")
            await session.clear_session()
            await say(session, "go on")

    asyncio.run(talk())
    return cli


def test_sessions_are_listed_with_their_titles(sessions: Cli) -> None:
    rows = {row["session"]: row for row in sessions.ok("sessions", "--json").json}
    names = {"openai-agents:support/7", "openai-agents:fork", "openai-agents:other"}
    assert rows.keys() == names
    assert rows["openai-agents:support/7"]["title"] == "say zanzibar"
    assert rows["openai-agents:fork"]["title"] == "say zanzibar"
    assert rows["openai-agents:other"]["runtime"] == "openai-agents"


def test_a_session_is_viewed_with_its_tools(sessions: Cli) -> None:
    text = sessions.ok("view", "openai-agents:support/7").out
    for part in ("say zanzibar", "echo say zanzibar", "weather(Rome)", "sunny in Rome"):
        assert part in text
    assert "another way" not in text
    fork = sessions.ok("view", "openai-agents:fork").out
    assert "say zanzibar" in fork
    assert "echo another way" in fork


def test_cleared_items_are_shown(sessions: Cli) -> None:
    text = sessions.ok("view", "openai-agents:other").out
    assert "echo secret plan" in text
    assert "echo go on" in text


def test_items_are_searched_and_counted(sessions: Cli) -> None:
    assert "openai-agents:support/" in sessions.ok("search", "zanzibar").out
    other = sessions.ok("search", "secret").out
    assert "openai-agents:other" in other
    assert "echo secret plan" in other
    stats = sessions.ok("stats").out
    assert "3 sessions" in stats
    assert "weather" in stats


class CountingStore(SqliteStore):
    """A store that counts the commits that are read."""

    commits_read = 0

    def commits(self, names: Any) -> Any:
        commits = super().commits(names)
        self.commits_read += len(commits)
        return commits

    def chain(self, name: Any, depth: int | None = None) -> Any:
        commits = super().chain(name, depth)
        self.commits_read += len(commits)
        return commits


def test_a_list_reads_one_commit_of_each_session(sessions: Cli) -> None:
    from harken.adapters.sessions import list_conversations

    path = sessions.home / "store.db"
    store = CountingStore(path)
    for _ in range(2):  # The first call finds the title of the fork.
        store.commits_read = 0
        rows = list_conversations(store, path)
        assert {row.title for row in rows} == {"say zanzibar", "secret plan"}
    assert store.commits_read == 3
    store.close()


def test_a_session_is_exported_as_items_and_other_formats(sessions: Cli) -> None:
    rows = {row["session"]: row for row in sessions.ok("sessions", "--json").json}
    ctx = rows["openai-agents:support/7"]["tips"][0]["ctx"]
    for format_ in ("openai-items-v1", "messages-v1", "events-v1"):
        made = sessions.ok("ctx", "materialize", ctx, "--format", format_, "--json").json
        assert made["message_count"] == 6, made
